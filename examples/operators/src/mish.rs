//! An activation, with its first and second derivatives.

use dlbridge_ops::{Uninit, op};
use num_traits::Float;

/// x * tanh(softplus(x)), elementwise.
#[op(vjp = mish_vjp, elementwise, T in [f32, f64])]
pub(crate) fn mish<T: Float>(x: &[T], out: &mut [Uninit<T>]) {
    for (out, &x) in out.iter_mut().zip(x) {
        out.write(x * derivatives(x).tanh);
    }
}

/// The gradient of mish.
#[op(vjp = mish_vjp_vjp, elementwise, T in [f32, f64])]
pub(crate) fn mish_vjp<T: Float>(x: &[T], grad_out: &[T], grad_x: &mut [Uninit<T>]) {
    for (i, grad_x) in grad_x.iter_mut().enumerate() {
        grad_x.write(grad_out[i] * derivatives(x[i]).first);
    }
}

/// The gradient of mish_vjp: the second derivative.
#[op(elementwise, T in [f32, f64])]
pub(crate) fn mish_vjp_vjp<T: Float>(
    x: &[T],
    grad_out: &[T],
    grad_grad_x: &[T],
    grad_x: &mut [Uninit<T>],
    grad_grad_out: &mut [Uninit<T>],
) {
    for i in 0..x.len() {
        let of_mish = derivatives(x[i]);
        grad_x[i].write(grad_grad_x[i] * grad_out[i] * of_mish.second);
        grad_grad_out[i].write(grad_grad_x[i] * of_mish.first);
    }
}

struct Derivatives<T> {
    /// tanh(softplus(x))
    tanh: T,
    first: T,
    second: T,
}

fn derivatives<T: Float>(x: T) -> Derivatives<T> {
    let one = T::one();
    // The exponent is never positive, so it never overflows.
    let softplus = x.max(T::zero()) + (-x.abs()).exp().ln_1p();
    let tanh = softplus.tanh();
    let sigmoid = one / (one + (-x).exp());
    let slope = (one - tanh * tanh) * sigmoid;
    Derivatives {
        tanh,
        first: tanh + x * slope,
        second: slope * (one + one + x * (one - sigmoid - (one + one) * tanh * sigmoid)),
    }
}
