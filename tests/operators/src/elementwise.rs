//! Operators from one element to one element, and sums.

use std::ops::{Add, Mul};

use dlbridge_ops::dlbridge::Element;
use dlbridge_ops::{Uninit, View, op};

// begin: softclip
/// x / (1 + |x|), elementwise.
#[op(vjp = softclip_vjp, elementwise)]
pub(crate) fn softclip(x: &[f32], out: &mut [Uninit<f32>]) {
    for (out, x) in out.iter_mut().zip(x) {
        out.write(x / (1.0 + x.abs()));
    }
}

/// The gradient of softclip.
#[op(vjp = softclip_vjp_vjp, elementwise)]
pub(crate) fn softclip_vjp(x: &[f32], grad_out: &[f32], grad_x: &mut [Uninit<f32>]) {
    for ((grad_x, x), grad_out) in grad_x.iter_mut().zip(x).zip(grad_out) {
        let d = 1.0 + x.abs();
        grad_x.write(grad_out / (d * d));
    }
}
// end: softclip

/// The gradient of the gradient of softclip.
#[op(elementwise)]
pub(crate) fn softclip_vjp_vjp(
    x: &[f32],
    grad_out: &[f32],
    grad_grad_x: &[f32],
    grad_x: &mut [f32],
    grad_grad_out: &mut [f32],
) {
    for i in 0..x.len() {
        let d = 1.0 + x[i].abs();
        let sign = if x[i] > 0.0 {
            1.0
        } else if x[i] < 0.0 {
            -1.0
        } else {
            0.0
        };
        grad_x[i] = -2.0 * sign * grad_grad_x[i] * grad_out[i] / (d * d * d);
        grad_grad_out[i] = grad_grad_x[i] / (d * d);
    }
}

// begin: twice
/// x + x, for several dtypes.
#[op(T in [f32, f64, i32, i64, half::f16, half::bf16, num_complex::Complex<f32>], elementwise)]
pub(crate) fn twice<T: Element + Copy + Add<Output = T>>(x: &[T], out: &mut [Uninit<T>]) {
    for (out, x) in out.iter_mut().zip(x) {
        out.write(*x + *x);
    }
}
// end: twice

/// True where x is negative.
#[op(T in [f32, f64], elementwise)]
pub(crate) fn negative<T: Element + Copy + Default + PartialOrd>(x: &[T], out: &mut [bool]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = *x < T::default();
    }
}

/// The address of x, as the operator sees it.
#[op(T in [f32, f64], shape(out = [1]))]
pub(crate) fn address<T: Element>(x: View<'_, T>, out: &mut [i64]) {
    out[0] = x.as_ptr().addr() as i64;
}

/// The sum of x * y over all elements, strides and all, without a copy.
#[op(vjp = strided_sum_vjp, T in [f32, f64], shape(out = []), require(x[..] == y[..]))]
pub(crate) fn strided_sum<T: Element + Copy + Default + Add<Output = T> + Mul<Output = T>>(
    x: View<'_, T>,
    y: View<'_, T>,
    out: &mut [T],
) {
    out[0] = x.iter().zip(y.iter()).fold(T::default(), |sum, (x, y)| sum + *x * *y);
}

/// The gradient of strided_sum.
#[op(T in [f32, f64], shape(grad_x = like(x), grad_y = like(y)))]
pub(crate) fn strided_sum_vjp<T: Element + Copy + Mul<Output = T>>(
    x: View<'_, T>,
    y: View<'_, T>,
    grad_out: &[T],
    grad_x: &mut [T],
    grad_y: &mut [T],
) {
    grad_x.iter_mut().zip(y.iter()).for_each(|(grad, y)| *grad = grad_out[0] * *y);
    grad_y.iter_mut().zip(x.iter()).for_each(|(grad, x)| *grad = grad_out[0] * *x);
}
