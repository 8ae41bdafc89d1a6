//! Resamples audio from `array.array` or any other vector of samples.

use dlbridge_pyo3::{AllowCopy, COrder, Like, PyReadonlyTensor};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;

/// Resamples by linear interpolation.
///
/// Uses float32 without a copy; integers of 8 and 16 bits and samples that are not contiguous are converted by a copy.
/// Returns the caller's framework; for an `array.array`, a memoryview.
#[pyfunction]
fn resample<'py>(
    samples: PyReadonlyTensor<'py, f32, 1, (COrder, AllowCopy)>,
    rate: u32,
    new_rate: u32,
) -> PyResult<Like<'py>> {
    if rate == 0 || new_rate == 0 {
        return Err(PyValueError::new_err(format!(
            "the rates must be above zero; got {rate} and {new_rate}"
        )));
    }
    let samples_in = samples.slice();
    let count = (samples_in.len() as u64 * u64::from(new_rate)).div_ceil(u64::from(rate));
    let mut resampled = Vec::new();
    resampled
        .try_reserve_exact(count as usize)
        .map_err(|_| PyMemoryError::new_err(format!("not enough memory for {count} samples")))?;
    let step = f64::from(rate) / f64::from(new_rate);
    let at = |place: f64| {
        let before = (place as usize).min(samples_in.len() - 1);
        let after = (before + 1).min(samples_in.len() - 1);
        let part = (place - before as f64) as f32;
        samples_in[before] + (samples_in[after] - samples_in[before]) * part
    };
    resampled.extend((0..count).map(|i| at(i as f64 * step)));
    Ok(samples.like(resampled))
}

/// The extension module. Its function already has the name `resample` in Rust.
#[pymodule(name = "resample", gil_used = true)]
mod extension {
    #[pymodule_export]
    use super::resample;
}
