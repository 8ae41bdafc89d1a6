//! Writes batches of pictures to memory that the caller provides: a PyTorch tensor that is reused.

use std::thread;

use dlbridge_pyo3::{COrder, PyReadonlyTensor, PyReadwriteTensor, PyTensor, dims, producer};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

/// Pictures, uint8 of shape [count, height, width, 3], in memory that Rust, NumPy and PyTorch share.
#[pyclass(frozen)]
struct Pictures {
    pixels: PyTensor,
}

impl Pictures {
    fn pixels(&self) -> &PyTensor {
        &self.pixels
    }
}

#[producer(Self::pixels)]
#[pymethods]
impl Pictures {
    /// Keeps the pictures of any framework, without a copy.
    #[new]
    fn new(pixels: &Bound<'_, PyAny>) -> PyResult<Self> {
        // Checks that the argument has the shape and dtype of pictures.
        pixels.extract::<PyReadonlyTensor<'_, u8, 4, (COrder, dims!(_, _, _, 3))>>()?;
        let options = dlbridge_pyo3::ImportOptions::default();
        Ok(Self { pixels: PyTensor::import(pixels, &options)? })
    }

    /// Writes the pictures at `indices` to a batch, float32 of shape [n, 3, height, width] from 0 to 1.
    #[pyo3(signature = (indices, batch, threads=2))]
    fn load(
        &self,
        py: Python<'_>,
        indices: PyReadonlyTensor<'_, i64, 1>,
        mut batch: PyReadwriteTensor<'_, f32, 4, (COrder, dims!(_, 3, _, _))>,
        threads: usize,
    ) -> PyResult<()> {
        let pixels: PyReadonlyTensor<'_, u8, 4, COrder> = self.pixels.extract(py)?;
        let [count, height, width, _] = pixels.dims();
        if batch.dims() != [indices.len(), 3, height, width] {
            return Err(PyValueError::new_err(format!(
                "the batch must be of shape {:?}, not {:?}",
                [indices.len(), 3, height, width],
                batch.dims()
            )));
        }
        let numbers: Vec<usize> = indices
            .iter()
            .map(|&index| usize::try_from(index).ok().filter(|&index| index < count).ok_or(index))
            .collect::<Result<_, _>>()
            .map_err(|index| {
                PyIndexError::new_err(format!(
                    "no picture {index}; there are {count}, numbered from 0"
                ))
            })?;
        let size = height * width * 3;
        let pixels = pixels.slice();
        let batch = batch.mut_slice();
        if size == 0 || numbers.is_empty() {
            return Ok(());
        }
        let share = numbers.len().div_ceil(threads.max(1));
        py.detach(|| {
            thread::scope(|scope| {
                for (numbers, batch) in numbers.chunks(share).zip(batch.chunks_mut(share * size)) {
                    scope.spawn(move || {
                        for (number, target) in numbers.iter().zip(batch.chunks_mut(size)) {
                            write(&pixels[number * size..][..size], target);
                        }
                    });
                }
            });
        });
        Ok(())
    }
}

/// Writes one picture, from channels last to channels first.
fn write(pixels: &[u8], target: &mut [f32]) {
    let plane = target.len() / 3;
    for (place, pixel) in pixels.chunks_exact(3).enumerate() {
        for (channel, &value) in pixel.iter().enumerate() {
            target[channel * plane + place] = f32::from(value) / 255.0;
        }
    }
}

/// The extension module.
#[pymodule(gil_used = true)]
mod batch_loader {
    #[pymodule_export]
    use super::Pictures;
}
