//! Shapes of outputs and requirements, as the attribute writes them.

mod common;

use common::{call, int, message, none, zeros};
use dlbridge::Tensor;
use dlbridge_ops::tvm::Any;
use dlbridge_ops::{Define, Error, ErrorKind, Out, Shapes, View, op};

/// The shape of the first result.
fn shape<O: Define>(arguments: &[Any]) -> Vec<i64> {
    call::<O>(arguments).map(|results| Tensor::shape(&results[0]).to_vec()).unwrap()
}

macro_rules! shaped {
    ($($name:ident: $shape:expr;)*) => {$(
        #[op(shape(out = $shape))]
        fn $name(x: View<'_, f32>, n: i64, out: Out<'_, f32>) {
            let _ = (x, n, out);
        }
    )*};
}

shaped! {
    sum: [x[0] + n];
    difference: [x[0] - n];
    product: [x[0] * n];
    quotient: [x[0] / n];
    grouped: [(x[0] + 1) * 2 - n / 2, 3];
    negative_axis: [x[-1], x[-2]];
    splice: [x[..-1], n, x[-1]];
    middle: [x[1..2], x[2..]];
    all: [x[..], x[..]];
    none_of: [x[2..1]];
    like: like(x);
}

#[test]
fn each_operation_computes_an_extent() {
    let mut x = zeros::<f32>(&[7, 2]);
    assert_eq!(shape::<sum::Operator>(&[x.any(), int(3)]), [10]);
    assert_eq!(shape::<difference::Operator>(&[x.any(), int(3)]), [4]);
    assert_eq!(shape::<product::Operator>(&[x.any(), int(3)]), [21]);
    assert_eq!(shape::<quotient::Operator>(&[x.any(), int(2)]), [3]);
    assert_eq!(shape::<grouped::Operator>(&[x.any(), int(5)]), [14, 3]);
}

#[test]
fn negative_axis_counts_from_the_end() {
    let mut x = zeros::<f32>(&[7, 2]);
    assert_eq!(shape::<negative_axis::Operator>(&[x.any(), int(0)]), [2, 7]);
    let expected = "negative_axis: x needs an axis -2, but has 1 dimensions: shape [7]";
    assert_eq!(message::<negative_axis::Operator>(&[zeros::<f32>(&[7]).any(), int(0)]), expected);
}

#[test]
fn ranges_splice_extents() {
    let mut x = zeros::<f32>(&[2, 3, 4]);
    assert_eq!(shape::<splice::Operator>(&[x.any(), int(9)]), [2, 3, 9, 4]);
    assert_eq!(shape::<middle::Operator>(&[x.any(), int(9)]), [3, 4]);
    assert_eq!(shape::<all::Operator>(&[x.any(), int(9)]), [2, 3, 4, 2, 3, 4]);
    assert_eq!(shape::<none_of::Operator>(&[x.any(), int(9)]), [] as [i64; 0]);
    assert_eq!(shape::<like::Operator>(&[x.any(), int(9)]), [2, 3, 4]);
    let mut scalar = zeros::<f32>(&[]);
    assert_eq!(shape::<middle::Operator>(&[scalar.any(), int(9)]), [] as [i64; 0]);
}

#[test]
fn overflow_is_an_error() {
    let mut x = zeros::<f32>(&[7]);
    let overflows = "an extent does not fit in 64 bits";
    for (found, name) in [
        (message::<sum::Operator>(&[x.any(), int(i64::MAX)]), "sum"),
        (message::<product::Operator>(&[x.any(), int(i64::MAX)]), "product"),
    ] {
        assert_eq!(found, format!("{name}: {overflows}"));
    }
    assert_eq!(
        message::<difference::Operator>(&[x.any(), int(i64::MIN)]),
        format!("difference: {overflows}")
    );
}

#[test]
fn division_by_a_number_that_is_not_positive_is_an_error() {
    let mut x = zeros::<f32>(&[7]);
    for divisor in [0, -2] {
        let expected =
            format!("quotient: an extent is divided by {divisor}; divide by a positive number");
        assert_eq!(message::<quotient::Operator>(&[x.any(), int(divisor)]), expected);
    }
}

#[test]
fn negative_extent_is_an_error() {
    let error =
        call::<difference::Operator>(&[zeros::<f32>(&[7]).any(), int(8)]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    let expected = "difference: an extent of the result would be -1; it must not be negative";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn extent_without_memory_is_an_error() {
    let found = message::<product::Operator>(&[zeros::<f32>(&[1 << 16]).any(), int(1 << 46)]);
    assert!(found.starts_with("product: "), "{found}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri cannot let an allocation fail")]
fn allocation_that_fails_is_an_error_of_memory() {
    let mut x = zeros::<f32>(&[1 << 16]);
    let error = call::<product::Operator>(&[x.any(), int(1 << 42)]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
}

#[op(shape(out = [x[0], y[1]]), require(x[1] == y[0]))]
fn matmul(x: View<'_, f32, 2>, y: View<'_, f32, 2>, mut out: Out<'_, f32, 2>) {
    let [rows, columns] = out.dims_of();
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        out[[row, column]] = (0..x.dims()[1]).map(|k| x[[row, k]] * y[[k, column]]).sum();
    }
}

/// The extents of an output.
trait Dims {
    fn dims_of(&self) -> [usize; 2];
}

impl Dims for Out<'_, f32, 2> {
    fn dims_of(&self) -> [usize; 2] {
        [self.shape()[0] as usize, self.shape()[1] as usize]
    }
}

#[test]
fn requirement_that_fails_is_an_error() {
    let (mut x, mut y) = (zeros::<f32>(&[2, 3]), zeros::<f32>(&[3, 4]));
    assert_eq!(shape::<matmul::Operator>(&[x.any(), y.any()]), [2, 4]);
    let expected = "matmul: x[1] == y[0] is required, but the extents are [3] and [2]";
    assert_eq!(message::<matmul::Operator>(&[x.any(), zeros::<f32>(&[2, 4]).any()]), expected);
}

fn halves(shapes: &Shapes<'_, '_>) -> Result<Vec<i64>, Error> {
    if shapes.int("n") < 0 {
        return Err(Error::new("n is negative"));
    }
    Ok(shapes.of("x").iter().map(|extent| extent / shapes.int("n")).collect())
}

#[op(shape(out = halves))]
fn by_function(x: View<'_, f32>, n: i64, out: &mut [f32]) {
    assert_eq!(out.len(), x.len() / n as usize);
}

#[test]
fn function_computes_the_shape() {
    let mut x = zeros::<f32>(&[8]);
    assert_eq!(shape::<by_function::Operator>(&[x.any(), int(2)]), [4]);
    assert_eq!(message::<by_function::Operator>(&[x.any(), int(-1)]), "by_function: n is negative");
    let expected = "by_function: panicked: attempt to divide by zero";
    assert_eq!(message::<by_function::Operator>(&[x.any(), int(0)]), expected);
}

#[op(shape(out = [y[0]]))]
fn of_optional(x: View<'_, f32>, y: Option<View<'_, f32>>, out: &mut [f32]) {
    assert_eq!(out.len(), y.map_or(x.len(), |y| y.len()));
}

#[test]
fn shape_of_an_absent_input_is_an_error() {
    let mut x = zeros::<f32>(&[1]);
    let expected = "of_optional: the shape depends on y, which is None";
    assert_eq!(message::<of_optional::Operator>(&[x.any(), none()]), expected);
}

#[op(elementwise)]
fn add(x: &[f32], y: Option<&[f32]>, z: &[f32], out: &mut [f32]) {
    for i in 0..out.len() {
        out[i] = x[i] + y.map_or(0.0, |y| y[i]) + z[i];
    }
}

#[test]
fn elementwise_inputs_of_different_shapes_are_refused() {
    let (mut x, mut z) = (zeros::<f32>(&[2, 2]), zeros::<f32>(&[2]));
    let message_of = |y: Any, z: Any, x: Any| message::<add::Operator>(&[x, y, z]);
    let expected = "add: x[..] == z[..] is required, but the extents are [2, 2] and [2]";
    assert_eq!(message_of(none(), z.any(), x.any()), expected);
    let mut out = zeros::<f32>(&[2, 2]);
    assert_eq!(message::<add::Operator>(&[x.any(), none(), z.any(), out.any()]), expected);
    let expected = "add: x[..] == y[..] is required, but the extents are [2, 2] and [2]";
    assert_eq!(message_of(z.any(), x.any(), zeros::<f32>(&[2, 2]).any()), expected);
    let mut others = [zeros::<f32>(&[2, 2]), zeros::<f32>(&[2, 2])];
    let [y, z] = others.each_mut().map(common::Array::any);
    assert_eq!(shape::<add::Operator>(&[x.any(), y, z]), [2, 2]);
}

#[op]
fn planar(x: &[f32], mut out: Out<'_, f32, 2>) {
    let [_, columns] = out.dims();
    out.elements_mut().fill((x.len() + columns) as f32);
}

fn line(_: &Shapes<'_, '_>) -> Result<Vec<i64>, Error> {
    Ok(vec![3])
}

#[op(shape(out = line))]
fn computed(x: &[f32], out: Out<'_, f32, 2>) {
    let _ = (x, out.dims());
}

#[test]
fn shape_with_another_number_of_dimensions_than_the_type_is_an_error() {
    let (mut x, mut out) = (zeros::<f32>(&[3]), zeros::<f32>(&[3]));
    assert_eq!(shape::<planar::Operator>(&[zeros::<f32>(&[2, 3]).any()]), [2, 3]);
    let arguments = [x.any(), out.any()];
    for arguments in [&arguments[..1], &arguments] {
        let expected = "planar: out must have 2 dimensions, but its shape is [3]";
        assert_eq!(message::<planar::Operator>(arguments), expected);
        let expected = "computed: out must have 2 dimensions, but its shape is [3]";
        assert_eq!(message::<computed::Operator>(arguments), expected);
    }
}
