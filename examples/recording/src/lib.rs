//! A class that owns a large buffer and exports it: the last seconds of a continuing sound.

use dlbridge::Tensor;
use dlbridge_pyo3::{AllowCopy, COrder, PyReadonlyTensor, PyReadwriteTensor, PyTensor, producer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The last samples of a sound, float32 of shape [frames, channels], the newest at the end.
///
/// `numpy.asarray`, `torch.from_dlpack` and `memoryview` share the memory, and see later samples.
#[pyclass(frozen)]
struct Recording {
    samples: PyTensor,
}

impl Recording {
    fn samples(&self) -> &PyTensor {
        &self.samples
    }
}

#[producer(Self::samples)]
#[pymethods]
impl Recording {
    /// Makes a recording of silence.
    #[new]
    fn new(frames: usize, channels: usize) -> PyResult<Self> {
        let samples = Tensor::zeros::<f32>([frames, channels])?;
        Ok(Self { samples: PyTensor::from(samples) })
    }

    /// Appends samples of shape [frames, channels] of any framework, and drops as many of the oldest.
    fn record(
        &self,
        py: Python<'_>,
        samples: PyReadonlyTensor<'_, f32, 2, (COrder, AllowCopy)>,
    ) -> PyResult<()> {
        let mut kept: PyReadwriteTensor<'_, f32, 2, COrder> = self.samples.extract(py)?;
        let ([_, channels], [_, found]) = (kept.dims(), samples.dims());
        if found != channels {
            return Err(PyValueError::new_err(format!(
                "the recording has {channels} channels, but the samples have {found}"
            )));
        }
        let (kept, new) = (kept.mut_slice(), samples.slice());
        let new = &new[new.len().saturating_sub(kept.len())..];
        kept.copy_within(new.len().., 0);
        let begin = kept.len() - new.len();
        kept[begin..].copy_from_slice(new);
        Ok(())
    }
}

/// The extension module.
#[pymodule(gil_used = true)]
mod recording {
    #[pymodule_export]
    use super::Recording;
}
