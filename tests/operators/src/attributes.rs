//! Operators with attributes.

use dlbridge_ops::{Floats, Ints, op};

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
