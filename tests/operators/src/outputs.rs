//! Operators with several outputs, outputs of other shapes, and arguments that change in place.

use dlbridge_ops::{Dynamic, Error, InPlace, Out, Shapes, Uninit, View, op};

/// The smallest and the largest element of each row.
#[op(vjp = min_max_vjp, shape(low = [x[0]], high = [x[0]]))]
pub(crate) fn min_max(x: View<'_, f32, 2>, low: &mut [f32], high: &mut [f32]) {
    let [rows, columns] = x.dims();
    for row in 0..rows {
        low[row] = (0..columns).map(|column| x[[row, column]]).fold(f32::INFINITY, f32::min);
        high[row] = (0..columns).map(|column| x[[row, column]]).fold(f32::NEG_INFINITY, f32::max);
    }
}

/// The gradient of min_max.
#[op(shape(grad_x = like(x)))]
pub(crate) fn min_max_vjp(
    x: View<'_, f32, 2>,
    low: &[f32],
    high: &[f32],
    grad_low: &[f32],
    grad_high: &[f32],
    mut grad_x: Out<'_, f32, 2>,
) {
    let [rows, columns] = x.dims();
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let value = x[[row, column]];
        let of_low = if value == low[row] { grad_low[row] } else { 0.0 };
        let of_high = if value == high[row] { grad_high[row] } else { 0.0 };
        grad_x[[row, column]] = of_low + of_high;
    }
}

/// The outer product of two vectors.
#[op(vjp = outer_vjp, shape(out = [x[0], y[0]]))]
pub(crate) fn outer(x: View<'_, f64, 1>, y: View<'_, f64, 1>, out: &mut [f64]) {
    let products = x.iter().flat_map(|x| y.iter().map(move |y| x * y));
    out.iter_mut().zip(products).for_each(|(out, product)| *out = product);
}

/// The gradient of outer.
#[op(shape(grad_x = like(x), grad_y = like(y)), require(grad_out[..] == [x[0], y[0]]))]
pub(crate) fn outer_vjp(
    x: View<'_, f64, 1>,
    y: View<'_, f64, 1>,
    grad_out: View<'_, f64, 2>,
    grad_x: &mut [f64],
    grad_y: &mut [f64],
) {
    let [rows, columns] = grad_out.dims();
    grad_y.fill(0.0);
    for row in 0..rows {
        grad_x[row] = (0..columns).map(|column| grad_out[[row, column]] * y[[column]]).sum();
        (0..columns).for_each(|column| grad_y[column] += grad_out[[row, column]] * x[[row]]);
    }
}

/// Quotients and remainders.
#[op(shape(quotient = like(x), remainder = like(x)), default(by = 2))]
pub(crate) fn divmod(
    x: &[i64],
    by: i64,
    quotient: &mut [i64],
    remainder: &mut [i64],
) -> Result<(), String> {
    if by == 0 {
        return Err("by is 0; pass another number".to_owned());
    }
    for (i, x) in x.iter().enumerate() {
        (quotient[i], remainder[i]) = (x.div_euclid(by), x.rem_euclid(by));
    }
    Ok(())
}

fn half(shapes: &Shapes<'_, '_>) -> Result<Vec<i64>, Error> {
    Ok(shapes.of("x").iter().map(|extent| (extent + 1) / 2).collect())
}

/// Every second element.
#[op(shape(out = half))]
pub(crate) fn halves(x: View<'_, f32, 1>, out: &mut [f32]) {
    out.iter_mut().zip(x.iter().step_by(2)).for_each(|(out, x)| *out = *x);
}

/// The indices of the elements that are not zero.
#[op]
pub(crate) fn nonzero(x: &[f32], indices: Dynamic<'_, i64, 1>) -> Result<(), Error> {
    let found: Vec<i64> = (0..x.len()).filter(|i| x[*i] != 0.0).map(|i| i as i64).collect();
    let mut indices = indices.allocate([found.len()])?;
    indices.iter_mut().zip(found).for_each(|(index, found)| *index = found);
    Ok(())
}

/// The positive elements and their number.
#[op(shape(count = []))]
pub(crate) fn ragged(
    x: &[f32],
    positive: Dynamic<'_, f32, 1>,
    count: &mut [i64],
) -> Result<(), Error> {
    let found: Vec<f32> = x.iter().copied().filter(|x| *x > 0.0).collect();
    count[0] = found.len() as i64;
    positive.allocate([found.len()])?.iter_mut().zip(found).for_each(|(out, found)| *out = found);
    Ok(())
}

/// Adds x to a slice and to a view.
#[op(shape(slice = like(x), view = like(x)))]
pub(crate) fn accumulated(x: &[f32], slice: &mut [f32], mut view: Out<'_, f32>) {
    for (i, x) in x.iter().enumerate() {
        slice[i] += x;
        view.elements_mut()[i] += x;
    }
}

/// Adds x to a vector whose length the function decides.
#[op]
pub(crate) fn accumulated_vector(x: &[f32], out: Dynamic<'_, f32, 1>) -> Result<(), Error> {
    out.allocate([x.len()])?.iter_mut().zip(x).for_each(|(out, x)| *out += x);
    Ok(())
}

/// The number of columns, in each element.
#[op]
pub(crate) fn planar(x: &[f32], mut out: Out<'_, f32, 2>) {
    let _ = x;
    let [_, columns] = out.dims();
    out.elements_mut().fill(columns as f32);
}

/// Writes nothing.
#[op(shape(out = like(x), valid = like(x)))]
pub(crate) fn unwritten(x: &[f32], out: &mut [Uninit<f32>], valid: &mut [Uninit<bool>]) {
    let _ = (x, out, valid);
}

/// Never allocates its output.
#[op]
pub(crate) fn unallocated(x: &[f32], out: Dynamic<'_, f32, 1>) {
    let _ = (x, out);
}

/// Replaces negative elements by zero.
#[op]
pub(crate) fn relu_(mut x: InPlace<'_, f32>) {
    x.iter_mut().for_each(|x| *x = x.max(0.0));
}

/// Adds y to x, and returns the sum of all elements.
#[op(shape(total = []), require(x[..] == y[..]))]
pub(crate) fn add_(mut x: InPlace<'_, f32>, y: View<'_, f32>, total: &mut [f32]) {
    x.iter_mut().zip(y.iter()).for_each(|(x, y)| *x += y);
    total[0] = x.iter().sum();
}

/// One if there is a tensor, and zero if there is none.
#[op(shape(out = []))]
pub(crate) fn takes_none(x: Option<View<'_, f32>>, out: &mut [i64]) {
    out[0] = i64::from(x.is_some());
}
