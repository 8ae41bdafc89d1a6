//! Distances of points, computed by all cores.

use dlbridge_ops::{Uninit, View, op};
use num_traits::Float;
use rayon::prelude::*;

/// The squared distance of each row of x from each row of y, and for each row of x the index of the nearest row of y.
///
/// The index is an int32, which JAX has without 64-bit types.
#[op(
    vjp = distances_vjp,
    T in [f32, f64],
    shape(squared = [x[0], y[0]], nearest = [x[0]]),
    require(x[1] == y[1])
)]
pub(crate) fn distances<T: Float + Send + Sync>(
    x: View<'_, T, 2>,
    y: View<'_, T, 2>,
    squared: &mut [Uninit<T>],
    nearest: &mut [Uninit<i32>],
) -> Result<(), &'static str> {
    let [rows, columns] = y.dims();
    if rows == 0 {
        return Err("y has no rows, so none is the nearest");
    }
    let to_rows = squared.par_chunks_mut(rows).zip(nearest);
    to_rows.enumerate().for_each(|(i, (squared, nearest))| {
        let (mut best, mut least) = (0, T::zero());
        for (j, squared) in squared.iter_mut().enumerate() {
            let differences = (0..columns).map(|column| x[[i, column]] - y[[j, column]]);
            let sum = differences.fold(T::zero(), |sum, difference| sum + difference * difference);
            squared.write(sum);
            // The first of equal distances, as with the other libraries.
            if j == 0 || sum < least {
                (best, least) = (j as i32, sum);
            }
        }
        nearest.write(best);
    });
    Ok(())
}

/// The gradient of distances.
#[op(
    T in [f32, f64],
    shape(grad_x = like(x), grad_y = like(y)),
    require(x[1] == y[1], grad_squared[..] == [x[0], y[0]])
)]
pub(crate) fn distances_vjp<T: Float + Send + Sync>(
    x: View<'_, T, 2>,
    y: View<'_, T, 2>,
    grad_squared: View<'_, T, 2>,
    grad_x: &mut [Uninit<T>],
    grad_y: &mut [Uninit<T>],
) {
    let [rows, columns] = x.dims();
    let [others, _] = y.dims();
    // The gradient of the distance of row i of x and row j of y, by x[i, column].
    let part = |i, j, column| {
        let difference = x[[i, column]] - y[[j, column]];
        (difference + difference) * grad_squared[[i, j]]
    };
    let width = columns.max(1);
    grad_x.par_chunks_mut(width).enumerate().for_each(|(i, row)| {
        for (column, grad) in row.iter_mut().enumerate() {
            grad.write((0..others).fold(T::zero(), |sum, j| sum + part(i, j, column)));
        }
    });
    grad_y.par_chunks_mut(width).enumerate().for_each(|(j, row)| {
        for (column, grad) in row.iter_mut().enumerate() {
            grad.write((0..rows).fold(T::zero(), |sum, i| sum - part(i, j, column)));
        }
    });
}
