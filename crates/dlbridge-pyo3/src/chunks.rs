//! The chunks of a column, as an iterator of tensors.

use std::mem;
use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::PyTensor;
use crate::import::columns;
use crate::import_options::{ImportOptions, expect_bool};
use crate::protocol::arrow;

/// The iterator that `dlbridge.chunks` returns.
#[pyclass(name = "_Chunks", module = "dlbridge._core", frozen)]
pub(crate) struct PyChunks {
    object: Py<PyAny>,
    options: ImportOptions,
    /// Never waited for: another thread may run the producer's code meanwhile.
    left: Mutex<Left>,
}

/// The chunks that were not imported yet.
enum Left {
    Nothing,
    One(Py<PyTensor>),
    Stream(arrow::Chunks),
}

/// Iterate over the chunks of a column, each as a Tensor without a copy.
///
/// obj is a column of Arrow, such as a pyarrow.ChunkedArray, a polars.Series or a pandas.Series; each chunk is imported
/// when it is requested. Any other object that asdlpack accepts gives one tensor.
/// copy=True copies each chunk; copy=False makes every copy an error.
///
/// Raises as asdlpack; the refusal of a chunk is raised when it is requested, and ends the iteration.
#[pyfunction]
#[pyo3(signature = (obj, /, *, copy=None))]
pub(crate) fn chunks(
    obj: &Bound<'_, PyAny>,
    copy: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyChunks> {
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    let options = ImportOptions { copy, ..ImportOptions::default() };
    let left = match columns::chunks(obj, &options)? {
        Some(stream) => Left::Stream(stream),
        None => Left::One(PyTensor::import(obj, &options)?.unbind()),
    };
    Ok(PyChunks { object: obj.clone().unbind(), options, left: Mutex::new(left) })
}

#[pymethods]
impl PyChunks {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTensor>>> {
        let Ok(mut left) = self.left.try_lock() else {
            return Err(PyValueError::new_err(
                "the next chunk is being requested already, by another thread or by the producer",
            ));
        };
        match mem::replace(&mut *left, Left::Nothing) {
            Left::Nothing => Ok(None),
            Left::One(tensor) => Ok(Some(tensor.into_bound(py))),
            Left::Stream(mut stream) => {
                let imported =
                    columns::next_chunk(self.object.bind(py), &mut stream, &self.options)?;
                let Some(imported) = imported else { return Ok(None) };
                *left = Left::Stream(stream);
                Bound::new(py, PyTensor::from(imported)).map(Some)
            }
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)?;
        // The collector runs attached, as every thread that has the lock, so the lock is free or a request is in progress.
        match self.left.try_lock().as_deref() {
            Ok(Left::One(tensor)) => visit.call(tensor),
            _ => Ok(()),
        }
    }
}
