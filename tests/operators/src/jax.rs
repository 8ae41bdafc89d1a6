//! Operators for the tests of JAX: gradients with attributes and integers, and memory that changes in place.

use std::ops::Mul;

use dlbridge_ops::dlbridge::Element;
use dlbridge_ops::{Error, InPlace, Shapes, View, op};

/// x * by, elementwise.
#[op(vjp = stretch_vjp, T in [f32, f64], elementwise, default(by = 2.0))]
pub(crate) fn stretch<T>(x: &[T], by: f64, out: &mut [T])
where
    T: Element + Copy + Mul<Output = T> + From<f32>,
{
    out.iter_mut().zip(x).for_each(|(out, x)| *out = *x * T::from(by as f32));
}

/// The gradient of stretch.
#[op(T in [f32, f64], elementwise)]
pub(crate) fn stretch_vjp<T>(grad_out: &[T], by: f64, grad_x: &mut [T])
where
    T: Element + Copy + Mul<Output = T> + From<f32>,
{
    grad_x.iter_mut().zip(grad_out).for_each(|(grad_x, grad)| *grad_x = *grad * T::from(by as f32));
}

/// The elements of x at the indices.
#[op(vjp = pick_vjp, shape(out = [index[0]]))]
pub(crate) fn pick(
    x: View<'_, f32, 1>,
    index: View<'_, i32, 1>,
    out: &mut [f32],
) -> Result<(), String> {
    for (out, index) in out.iter_mut().zip(index.iter()) {
        let found = usize::try_from(*index).ok().and_then(|index| x.get([index]));
        *out = *found.ok_or_else(|| format!("x has no element {index}"))?;
    }
    Ok(())
}

/// The gradient of pick.
#[op(shape(grad_x = like(x)), require(grad_out[..] == index[..]))]
pub(crate) fn pick_vjp(
    x: View<'_, f32, 1>,
    index: View<'_, i32, 1>,
    grad_out: &[f32],
    grad_x: &mut [f32],
) {
    let _ = x;
    grad_x.fill(0.0);
    index.iter().zip(grad_out).for_each(|(index, grad)| grad_x[*index as usize] += grad);
}

/// True where x is false.
#[op(elementwise)]
pub(crate) fn inverted(x: &[bool], out: &mut [bool]) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = !x);
}

/// Adds one to each element, and returns the address of x.
#[op(shape(address = [1]))]
pub(crate) fn mark_(mut x: InPlace<'_, f32>, address: &mut [i64]) {
    address[0] = x.as_mut_ptr().addr() as i64;
    x.iter_mut().for_each(|x| *x += 1.0);
}

fn no_shape(shapes: &Shapes<'_, '_>) -> Result<Vec<i64>, Error> {
    panic!("no shape for {:?}", shapes.of("x"))
}

/// Panics while it computes the shape of its output.
#[op(shape(out = no_shape))]
pub(crate) fn shapeless(x: &[f32], out: &mut [f32]) {
    out.copy_from_slice(x);
}
