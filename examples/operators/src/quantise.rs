//! Numbers of 8 bits with a scale for each row.

use dlbridge_ops::{Array, Uninit, op};

/// x as numbers from -127 to 127 and a scale for each row: x is about `quantised * scale`.
#[op(shape(quantised = like(x), scale = [x[..-1]]))]
pub(crate) fn quantise(x: &[f32], quantised: &mut [Uninit<i8>], scale: &mut [f32]) {
    let width = width(x.len(), scale.len());
    let rows = x.chunks(width).zip(quantised.chunks_mut(width));
    for ((x, quantised), scale) in rows.zip(scale) {
        *scale = scale_of(x);
        for (quantised, x) in quantised.iter_mut().zip(x) {
            quantised.write(rounded(*x, *scale));
        }
    }
}

/// quantised * scale, with a scale for each row.
#[op(
    vjp = dequantise_vjp,
    shape(out = like(quantised)),
    require(quantised[..-1] == scale[..])
)]
pub(crate) fn dequantise(quantised: &[i8], scale: &[f32], out: &mut [Uninit<f32>]) {
    let width = width(quantised.len(), scale.len());
    let rows = quantised.chunks(width).zip(out.chunks_mut(width));
    for ((quantised, out), scale) in rows.zip(scale) {
        for (out, quantised) in out.iter_mut().zip(quantised) {
            out.write(f32::from(*quantised) * scale);
        }
    }
}

/// The gradient of dequantise, for the scales alone: integers have none.
#[op(
    shape(grad_scale = [quantised[..-1]]),
    require(grad_out[..] == quantised[..])
)]
pub(crate) fn dequantise_vjp(quantised: &[i8], grad_out: &[f32], grad_scale: &mut [f32]) {
    let width = width(quantised.len(), grad_scale.len());
    let rows = quantised.chunks(width).zip(grad_out.chunks(width));
    for ((quantised, grad_out), grad_scale) in rows.zip(grad_scale) {
        *grad_scale = quantised.iter().zip(grad_out).map(|(q, grad)| f32::from(*q) * grad).sum();
    }
}

/// x as `dequantise` restores it from `quantise`. Gradients pass unchanged, so models train with the rounding errors.
#[op(vjp = fake_quantise_vjp)]
pub(crate) fn fake_quantise(x: Array<'_, f32>, out: &mut [Uninit<f32>]) {
    let width = x.shape().last().map_or(1, |&extent| extent as usize).max(1);
    for (x, out) in x.chunks(width).zip(out.chunks_mut(width)) {
        let scale = scale_of(x);
        for (out, x) in out.iter_mut().zip(x) {
            out.write(f32::from(rounded(*x, scale)) * scale);
        }
    }
}

/// The gradient of fake_quantise: that of the result.
#[op]
pub(crate) fn fake_quantise_vjp(grad_out: &[f32], grad_x: &mut [Uninit<f32>]) {
    for (grad_x, grad_out) in grad_x.iter_mut().zip(grad_out) {
        grad_x.write(*grad_out);
    }
}

fn scale_of(row: &[f32]) -> f32 {
    row.iter().fold(0.0_f32, |largest, x| largest.max(x.abs())) / 127.0
}

fn rounded(x: f32, scale: f32) -> i8 {
    // The conversion of NaN, which a row of zeros makes, is 0.
    (x / scale).round_ties_even() as i8
}

/// The number of elements of a row, at least 1.
fn width(elements: usize, rows: usize) -> usize {
    elements.checked_div(rows).unwrap_or(1).max(1)
}
