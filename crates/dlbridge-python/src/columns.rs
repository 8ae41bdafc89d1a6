//! Columns of Arrow, for Python: their chunks, and their lists behind the class `dlbridge.Ragged`.

use std::mem;
use std::sync::Mutex;

use dlbridge::TensorRef;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3::{PyTraverseError, PyVisit};

use crate::arrow::{self, Lists, columns};
use crate::tensor::TensorObject;
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::import_options::{ImportOptions, expect_bool};

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
    One(Py<TensorObject>),
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
        None => Left::One(TensorObject::import(obj, &options)?.unbind()),
    };
    Ok(PyChunks { object: obj.clone().unbind(), options, left: Mutex::new(left) })
}

#[pymethods]
impl PyChunks {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, TensorObject>>> {
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
                TensorObject::new(py, imported).map(Some)
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

/// Two capsules of Arrow: the schema and the array.
type Capsules<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyCapsule>);

/// The offsets and the values of a column of lists, and the first and the last offset.
type Parts<'py> = (Bound<'py, TensorObject>, Bound<'py, TensorObject>, (i64, i64));

/// The offsets and the values of a column of lists, and the first and the last offset; None for an object without Arrow.
#[pyfunction]
#[pyo3(name = "_lists", signature = (obj, /, *, copy=None))]
pub(crate) fn lists<'py>(
    obj: &Bound<'py, PyAny>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Parts<'py>>> {
    let py = obj.py();
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    let options = ImportOptions { copy, ..ImportOptions::default() };
    let Some(lists) = columns::lists(obj, &options)? else { return Ok(None) };
    let Lists { offsets, range, values } = lists;
    let object = |imported| TensorObject::new(py, imported);
    Ok(Some((object(offsets)?, object(values)?, (range.start, range.end))))
}

/// The first and the last offset. The caller has checked dtype, shape and device.
///
/// Raises ValueError for offsets that are negative or decrease.
#[pyfunction]
#[pyo3(name = "_offsets_range", signature = (offsets, /))]
pub(crate) fn offsets_range(offsets: &Bound<'_, TensorObject>) -> PyResult<(i64, i64)> {
    let tensor = offsets.get().tensor();
    let _reading = Guard::for_copy(tensor)?;
    let range =
        arrow::offsets_range(&TensorRef::from(&**tensor))?.map_err(PyValueError::new_err)?;
    Ok((range.start, range.end))
}

/// Capsules over the schema and the array of lists. The caller has checked the offsets.
#[pyfunction]
#[pyo3(name = "_list_array", signature = (offsets, values, /))]
pub(crate) fn list_array<'py>(
    offsets: &Bound<'py, TensorObject>,
    values: &Bound<'py, TensorObject>,
) -> PyResult<Capsules<'py>> {
    let (offsets, values, py) =
        (offsets.get().for_consumer()?, values.get().for_consumer()?, offsets.py());
    arrow::export_lists(py, &offsets, &values)
}

/// A capsule over the schema of lists.
#[pyfunction]
#[pyo3(name = "_list_schema", signature = (offsets, values, /))]
pub(crate) fn list_schema<'py>(
    offsets: &Bound<'py, TensorObject>,
    values: &Bound<'py, TensorObject>,
) -> PyResult<Bound<'py, PyCapsule>> {
    arrow::export_lists_schema(offsets.py(), offsets.get().tensor(), values.get().tensor())
}
