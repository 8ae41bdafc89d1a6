//! k-means on any framework's matrix of floats, without a copy of it, or on a table of numbers.

use dlbridge::Tensor;
use dlbridge_pyo3::{AllowCast, Like, OneOf, PyReadonlyTensor, dispatch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Groups the rows of a matrix around `k` centres, which start as its first rows.
///
/// Returns the centres, of shape [k, columns], and the number of each row's centre, both in the caller's framework. A
/// centre that loses all its rows keeps its position.
#[pyfunction]
#[pyo3(signature = (points, k, iterations=20))]
fn kmeans<'py>(
    points: PyReadonlyTensor<'py, OneOf<(f32, f64)>, 2, AllowCast>,
    k: usize,
    iterations: usize,
) -> PyResult<(Like<'py>, Like<'py>)> {
    let [rows, columns] = points.dims();
    if k == 0 || k > rows {
        return Err(PyValueError::new_err(format!("k must be 1 to {rows}, the rows; got {k}")));
    }
    let py = points.object().py();
    dispatch!(T in (f32, f64), points => {
        let view = points.view();
        let (centres, labels) = py.detach(|| {
            let row = |i: usize| (0..columns).map(move |j| (i, j));
            let mut centres: Vec<f64> =
                (0..k).flat_map(row).map(|index| f64::from(view[index])).collect();
            let mut labels = vec![0_i64; rows];
            for _ in 0..iterations {
                for (i, label) in labels.iter_mut().enumerate() {
                    let distance = |centre: usize| -> f64 {
                        let from = &centres[centre * columns..];
                        let parts = row(i).zip(from);
                        parts.map(|(at, c)| (f64::from(view[at]) - c).powi(2)).sum()
                    };
                    let nearest = (0..k).min_by(|&a, &b| distance(a).total_cmp(&distance(b)));
                    *label = nearest.unwrap_or(0) as i64;
                }
                let mut sums = vec![0.0; k * columns];
                let mut counts = vec![0_u32; k];
                for (i, &label) in labels.iter().enumerate() {
                    counts[label as usize] += 1;
                    let sum = &mut sums[label as usize * columns..];
                    row(i).zip(sum).for_each(|(at, sum)| *sum += f64::from(view[at]));
                }
                for (centre, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                    for j in centre * columns..(centre + 1) * columns {
                        centres[j] = sums[j] / f64::from(count);
                    }
                }
            }
            (centres, labels)
        });
        let centres: Vec<T> = centres.into_iter().map(|value| value as T).collect();
        let centres = Tensor::from_parts(centres, [k, columns])?;
        Ok((points.like(centres), points.like(labels)))
    })
}

/// The extension module. Its function already has the name `kmeans` in Rust.
#[pymodule(name = "kmeans", gil_used = true)]
mod extension {
    #[pymodule_export]
    use super::kmeans;
}
