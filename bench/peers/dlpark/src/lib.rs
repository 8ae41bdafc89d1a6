//! Functions that are measured and compared, written with dlpark.

use std::fmt::Display;
use std::hint::black_box;
use std::sync::Arc;

use dlpark::ffi::{DLDataType, DLDevice, DLManagedTensorVersioned};
use dlpark::metadata::Fixed;
use dlpark::python::{ExportRequest, ImportedDlpack, from_dlpack};
use dlpark::{DlpackFlags, Managed, ManagedTensorBase, TryFromDlpack, versioned};
use ndarray::{ArrayViewD, ArrayViewMutD, Ix1, Ix2};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

// begin: shared
fn type_error(error: impl Display) -> PyErr {
    PyTypeError::new_err(error.to_string())
}

/// Returns a view of a versioned or legacy tensor.
fn view(tensor: &ImportedDlpack) -> PyResult<ArrayViewD<'_, f32>> {
    // SAFETY: the producer guarantees that the tensor describes its memory as long as the tensor lives.
    let view = unsafe {
        match tensor {
            ImportedDlpack::Legacy(tensor) => ArrayViewD::try_from_dlpack(tensor, ()),
            ImportedDlpack::Versioned(tensor) => ArrayViewD::try_from_dlpack(tensor, ()),
        }
    };
    view.map_err(type_error)
}
// end: shared

// begin: mean
/// The mean of a float32 matrix.
#[pyfunction]
fn mean(x: &Bound<'_, PyAny>) -> PyResult<f32> {
    let tensor = from_dlpack(x.as_borrowed(), None, None)?;
    let matrix = view(&tensor)?.into_dimensionality::<Ix2>().map_err(type_error)?;
    Ok(matrix.mean().unwrap_or(f32::NAN))
}
// end: mean

// begin: invert
/// Inverts an image in place.
#[pyfunction]
fn invert(image: &Bound<'_, PyAny>) -> PyResult<()> {
    let mut tensor = from_dlpack(image.as_borrowed(), None, None)?;
    // SAFETY: as in `view`, and no other Rust code holds a reference to the memory.
    let pixels: Result<ArrayViewMutD<'_, u8>, _> = unsafe {
        match &mut tensor {
            ImportedDlpack::Legacy(tensor) => ArrayViewMutD::try_from_dlpack(tensor, ()),
            ImportedDlpack::Versioned(tensor) => ArrayViewMutD::try_from_dlpack(tensor, ()),
        }
    };
    let mut pixels = pixels.map_err(type_error)?;
    if !matches!(pixels.shape(), [_, _, 3]) {
        return Err(PyTypeError::new_err("not a picture of three channels"));
    }
    pixels.mapv_inplace(|value| 255 - value);
    Ok(())
}
// end: invert

// begin: twice
/// Twice a vector.
#[pyfunction]
fn twice(x: &Bound<'_, PyAny>) -> PyResult<Vector> {
    let tensor = from_dlpack(x.as_borrowed(), None, None)?;
    let vector = view(&tensor)?.into_dimensionality::<Ix1>().map_err(type_error)?;
    Ok(Vector(Arc::new(vector.iter().map(|value| 2.0 * value).collect())))
}

/// A vector that Python can export any number of times.
#[pyclass(frozen)]
struct Vector(Arc<Vec<f32>>);

impl Vector {
    fn export<M: ManagedTensorBase>(&self) -> PyResult<Managed<M>> {
        let metadata = Fixed::new([self.0.len()], [1_i64]).prepare_as::<M>();
        let mut tensor = metadata.map_err(type_error)?.initialize(Arc::clone(&self.0));
        tensor.set_data(self.0.as_ptr().cast_mut().cast());
        tensor.set_dtype(DLDataType::F32).set_device(DLDevice::CPU);
        // SAFETY: the fields describe the vector, which lives as long as the tensor; only Python writes it.
        Ok(unsafe { tensor.finish() })
    }
}

#[pymethods]
impl Vector {
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let request = ExportRequest::parse(stream.as_ref(), max_version, dl_device, copy)?;
        let (device, flags) = (DLDevice::CPU, DlpackFlags::empty());
        request.export_zero_copy(py, device, flags, || self.export(), || self.export())
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        (1, 0)
    }
}
// end: twice

/// A float32 matrix, as an ndarray view.
#[pyfunction]
fn noop(x: &Bound<'_, PyAny>) -> PyResult<()> {
    let tensor = from_dlpack(x.as_borrowed(), None, None)?;
    let matrix = view(&tensor)?.into_dimensionality::<Ix2>().map_err(type_error)?;
    black_box(matrix.len());
    Ok(())
}

/// A new tensor as a capsule.
#[pyfunction]
fn new() -> PyResult<Managed<DLManagedTensorVersioned>> {
    let mut values = vec![1.0_f32; 24];
    let data = values.as_mut_ptr().cast();
    let metadata = Fixed::new([values.len()], [1_i64]);
    let mut tensor = metadata.initialize(Box::new(values)).map_err(type_error)?;
    tensor.set_data(data).set_dtype(DLDataType::F32).set_device(DLDevice::CPU);
    // SAFETY: the fields describe the buffer, which lives as long as the tensor.
    let tensor: versioned::Dlpack = unsafe { tensor.finish() };
    Ok(tensor)
}

/// A new tensor as an object that exports it.
#[pyfunction]
fn make() -> Vector {
    Vector(Arc::new(vec![1.0; 24]))
}

/// Another library's tensor, imported and exported again as a capsule.
#[pyfunction]
fn hand_on<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match from_dlpack(x.as_borrowed(), None, None)? {
        ImportedDlpack::Legacy(tensor) => tensor.into_pyobject(x.py()),
        ImportedDlpack::Versioned(tensor) => tensor.into_pyobject(x.py()),
    }
}

/// The extension module.
#[pymodule]
mod with_dlpark {
    #[pymodule_export]
    use super::{hand_on, invert, make, mean, new, noop, twice};
}
