//! Sums of rows by their segment.

use std::fmt::Display;

use dlbridge_ops::{Array, Uninit, View, op};
use num_traits::{Float, PrimInt};

/// The sum of the rows of each segment: row i of `values` counts to the segment `ids[i]`, from 0 to n - 1.
#[op(
    vjp = segment_sum_vjp,
    T in [f32, f64],
    I in [i32, i64],
    shape(out = [n, values[1..]]),
    require(values[0] == ids[0])
)]
pub(crate) fn segment_sum<T: Float, I: PrimInt + Display>(
    values: Array<'_, T>,
    ids: View<'_, I, 1>,
    n: i64,
    out: &mut [T],
) -> Result<(), String> {
    let width = values.len() / ids.len().max(1);
    for (position, &id) in ids.iter().enumerate() {
        let segment = segment(id, position, n)?;
        let sums = &mut out[segment * width..][..width];
        for (sum, &value) in sums.iter_mut().zip(&values[position * width..]) {
            *sum = *sum + value;
        }
    }
    Ok(())
}

/// The gradient of segment_sum: each row gets the gradient of its segment.
#[op(T in [f32, f64], I in [i32, i64], shape(grad_values = [ids[0], grad_out[1..]]), require(grad_out[0] == n))]
pub(crate) fn segment_sum_vjp<T: Float, I: PrimInt + Display>(
    ids: View<'_, I, 1>,
    n: i64,
    grad_out: Array<'_, T>,
    grad_values: &mut [Uninit<T>],
) -> Result<(), String> {
    let width = grad_values.len() / ids.len().max(1);
    for (position, &id) in ids.iter().enumerate() {
        let segment = segment(id, position, n)?;
        let row = &mut grad_values[position * width..][..width];
        row.iter_mut().zip(&grad_out[segment * width..]).for_each(|(grad_value, &grad)| {
            grad_value.write(grad);
        });
    }
    Ok(())
}

fn segment<I: PrimInt + Display>(id: I, position: usize, n: i64) -> Result<usize, String> {
    let segment = id.to_usize().filter(|&segment| (segment as i64) < n);
    segment.ok_or_else(|| match n {
        0 => format!("ids[{position}] is {id}, but there are no segments; pass a larger n"),
        _ => format!("ids[{position}] is {id}; it must be from 0 to {}", n - 1),
    })
}
