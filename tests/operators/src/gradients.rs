//! Operators in double precision with gradients, which tests compare with finite differences.
use dlbridge_ops::dlbridge::Element;
use dlbridge_ops::{Floats, Ints, op};

/// A type whose products are computed in double precision.
pub(crate) trait Float: Element + Copy + Into<f64> {
    fn of(value: f64) -> Self;
}

impl Float for f32 {
    fn of(value: f64) -> Self {
        value as f32
    }
}

impl Float for f64 {
    fn of(value: f64) -> Self {
        value
    }
}

/// a * b, with a second gradient.
#[op(T in [f32, f64], elementwise, vjp = multiply_vjp)]
pub(crate) fn multiply<T: Float>(a: &[T], b: &[T], out: &mut [T]) {
    for i in 0..out.len() {
        out[i] = T::of(a[i].into() * b[i].into());
    }
}

/// The gradient of multiply.
#[op(T in [f32, f64], elementwise, vjp = multiply_vjp_vjp)]
pub(crate) fn multiply_vjp<T: Float>(
    a: &[T],
    b: &[T],
    grad_out: &[T],
    grad_a: &mut [T],
    grad_b: &mut [T],
) {
    for i in 0..grad_out.len() {
        grad_a[i] = T::of(b[i].into() * grad_out[i].into());
        grad_b[i] = T::of(a[i].into() * grad_out[i].into());
    }
}

/// The gradient of the gradient of multiply.
#[op(T in [f32, f64], elementwise)]
pub(crate) fn multiply_vjp_vjp<T: Float>(
    a: &[T],
    b: &[T],
    grad_out: &[T],
    grad_grad_a: &[T],
    grad_grad_b: &[T],
    grad_a: &mut [T],
    grad_b: &mut [T],
    grad_grad_out: &mut [T],
) {
    for i in 0..grad_out.len() {
        let (of_a, of_b): (f64, f64) = (grad_grad_a[i].into(), grad_grad_b[i].into());
        grad_a[i] = T::of(of_b * grad_out[i].into());
        grad_b[i] = T::of(of_a * grad_out[i].into());
        grad_grad_out[i] = T::of(of_a * b[i].into() + of_b * a[i].into());
    }
}

/// scale * x + shift + len(label) + the sums of both lists, negated on request, plus bias if there is one.
#[op(
    vjp = mixed_vjp,
    shape(out = like(x)),
    default(scale = 2.5, shift = 3, negate = false, label = "ab", widths = [1, 2], weights = [0.5])
)]
pub(crate) fn mixed(
    x: &[f64],
    bias: Option<&[f64]>,
    scale: f64,
    shift: i64,
    negate: bool,
    label: &str,
    widths: Ints<'_>,
    weights: Floats<'_>,
    out: &mut [f64],
) {
    let whole = shift + label.len() as i64 + widths.iter().sum::<i64>();
    let sum = whole as f64 + weights.iter().sum::<f64>();
    for i in 0..x.len() {
        let value = scale * x[i] + sum;
        out[i] = if negate { -value } else { value } + bias.map_or(0.0, |bias| bias[i]);
    }
}

/// The gradient of mixed.
#[op(shape(grad_x = like(grad_out), grad_bias = like(grad_out)))]
pub(crate) fn mixed_vjp(
    scale: f64,
    negate: bool,
    grad_out: &[f64],
    grad_x: &mut [f64],
    grad_bias: &mut [f64],
) {
    let slope = if negate { -scale } else { scale };
    for (i, grad) in grad_out.iter().enumerate() {
        grad_x[i] = slope * grad;
        grad_bias[i] = *grad;
    }
}
