//! Operators with attributes, and with unusual parameters: optional ones first, inputs named `out`, texts of many
//! characters.

use dlbridge_ops::{Array, Floats, Ints, op};

/// x * bias, or x without one.
#[op(vjp = biased_vjp, shape(out = like(x)))]
pub(crate) fn biased(bias: Option<&[f64]>, x: &[f64], out: &mut [f64]) {
    for i in 0..x.len() {
        out[i] = x[i] * bias.map_or(1.0, |bias| bias[i]);
    }
}

/// The gradient of biased.
#[op(shape(grad_bias = like(x), grad_x = like(x)))]
pub(crate) fn biased_vjp(
    bias: Option<&[f64]>,
    x: &[f64],
    grad_out: &[f64],
    grad_bias: &mut [f64],
    grad_x: &mut [f64],
) {
    for i in 0..x.len() {
        grad_bias[i] = x[i] * grad_out[i];
        grad_x[i] = grad_out[i] * bias.map_or(1.0, |bias| bias[i]);
    }
}

/// x * by + shift, with a default before a parameter that is required.
#[op(default(by = 2.0, shift = 1))]
pub(crate) fn late(by: f64, x: &[f32], shift: i64, out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = x * by as f32 + shift as f32;
    }
}

/// The exponential of x.
#[op(vjp = exponential_vjp, elementwise)]
pub(crate) fn exponential(x: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = x.exp());
}

/// The gradient of exponential, from its result.
#[op(elementwise)]
pub(crate) fn exponential_vjp(out: &[f32], grad_out: &[f32], grad_x: &mut [f32]) {
    for ((grad_x, out), grad_out) in grad_x.iter_mut().zip(out).zip(grad_out) {
        *grad_x = out * grad_out;
    }
}

/// The bytes of a text.
#[op(
    shape(out = [128]),
    default(text = "\u{200b}\u{0}\r\n\t\u{7}\u{1b}\u{7f}\u{e9}\u{1f600}\\ \\7 \"it's\"")
)]
pub(crate) fn texts(x: &[f32], text: &str, out: &mut [i64]) {
    let _ = x;
    out.fill(-1);
    out.iter_mut().zip(text.bytes()).for_each(|(out, byte)| *out = byte.into());
}

/// The first elements of x: one of n.
#[op(shape(out = [x[0] / n]))]
pub(crate) fn parted(x: Array<'_, f32, 1>, n: i64, out: &mut [f32]) {
    let _ = n;
    let count = out.len();
    out.copy_from_slice(&x[..count]);
}

/// scale * x + bias, where bias is optional.
#[op(default(scale = 2.0), shape(out = like(x)))]
pub(crate) fn affine(x: &[f32], bias: Option<&[f32]>, scale: f64, out: &mut [f32]) {
    for (i, (out, x)) in out.iter_mut().zip(x).enumerate() {
        let bias = bias.map_or(0.0, |bias| bias[i % bias.len()]);
        *out = scale as f32 * x + bias;
    }
}

/// x multiplied by the product of all factors.
#[op(T in [f32, f64], default(times = 1, factors = [1.0], shift = [0]))]
pub(crate) fn scaled<T>(x: &[T], times: i64, factors: Floats<'_>, shift: Ints<'_>, out: &mut [T])
where
    T: dlbridge_ops::dlbridge::Element + Copy + Into<f64> + From<f32>,
{
    let factor = factors.iter().product::<f64>() * times as f64;
    let shift = shift.iter().sum::<i64>() as f64;
    for (out, x) in out.iter_mut().zip(x) {
        *out = T::from(((*x).into() * factor + shift) as f32);
    }
}

/// The length of a text, doubled if `double`, in the shape [n, 2].
#[op(shape(out = [n, 2]), default(text = "abc", double = false, n = 1))]
pub(crate) fn described(x: &[f32], text: &str, double: bool, n: i64, out: &mut [i64]) {
    let length = text.len() as i64 * if double { 2 } else { 1 };
    out.fill(length * n + x.len() as i64);
}
