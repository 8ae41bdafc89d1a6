//! Columns, for Python: their chunks, their lists behind the class `dlbridge.Ragged`, and their times for the arguments of
//! extensions.

use std::sync::Mutex;

use dlbridge::{CopyReason, DataType, TensorRef};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::import::{Depth, has};
use dlbridge_pyo3::import::{as_times, import_array_of_times};
use dlbridge_pyo3::import_options::{ImportOptions, expect_bool};
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::protocol::time::{self, Elements, Times};
use dlbridge_pyo3::protocol::type_info::{self, Known};
use dlbridge_pyo3::python::error::{type_name, with_article};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use pyo3::{PyTraverseError, PyVisit};

use crate::arrow::{self, Capsules, Lists};
use crate::frameworks::explain::explained;
use crate::frameworks::{advice, is_of, pandas};
use crate::import::{array_of, satisfy};
use crate::tensor::TensorObject;

/// The iterator that `dlbridge.chunks` returns.
#[pyclass(name = "_Chunks", module = "dlbridge._core", frozen)]
pub(crate) struct PyChunks {
    object: Py<PyAny>,
    options: ImportOptions,
    /// The chunks that were not imported yet. Never waited for: another thread may run the producer's code meanwhile.
    left: Mutex<Option<arrow::Chunks>>,
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
pub(crate) fn chunks<'py>(
    obj: &Bound<'py, PyAny>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    let options = ImportOptions { copy, ..ImportOptions::default() };
    let _depth = Depth::enter()?;
    let stream = match selected(obj, &options)? {
        Some((type_info, None)) => arrow::chunks(obj, &type_info, &options)
            .map_err(|error| explained(obj, &type_info.checks, error))?,
        _ => None,
    };
    let Some(stream) = stream else {
        let only = PyList::new(obj.py(), [TensorObject::import(obj, &options)?])?;
        return Ok(only.try_iter()?.into_any());
    };
    let (object, left) = (obj.clone().unbind(), Mutex::new(Some(stream)));
    Ok(Bound::new(obj.py(), PyChunks { object, options, left })?.into_any())
}

/// The facts about the type of a column, and its array if NumPy's memory holds its values, with the reason if that is a
/// copy; `None` for a tensor of our own.
#[expect(clippy::type_complexity, reason = "the array is optional for a reason of its own")]
pub(crate) fn selected<'py>(
    object: &Bound<'py, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<(Known, Option<(Bound<'py, PyAny>, Option<CopyReason>)>)>> {
    if TensorObject::of(object).is_some() {
        return Ok(None);
    }
    let type_info = type_info::of(object)?;
    type_info.check_before(object)?;
    let array = array_of(object, &type_info, options)?;
    Ok(Some((type_info, array)))
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
        let Some(mut stream) = left.take() else { return Ok(None) };
        let _depth = Depth::enter()?;
        let chunk = arrow::next_chunk(self.object.bind(py), &mut stream, &self.options)?;
        let Some(chunk) = chunk else { return Ok(None) };
        let imported = satisfy::settle(&self.options, chunk)?;
        *left = Some(stream);
        TensorObject::new(py, imported).map(Some)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)
    }
}

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
    let _depth = Depth::enter()?;
    let Some((type_info, array)) = selected(obj, &options)? else { return Ok(None) };
    if array.is_some() {
        return Err(PyBufferError::new_err(
            "the column's dtype is one of NumPy, which has no lists; pass pyarrow.array(x), which copies them",
        ));
    }
    let lists = arrow::import_lists(obj, &type_info, &options)
        .map_err(|error| explained(obj, &type_info.checks, error))?;
    let Some(Lists { offsets, range, values }) = lists else { return Ok(None) };
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

/// The counts of the times of a column, and NumPy's name for them; or None, and the elements that were found instead. The
/// dtypes are those of an extension's argument; fill allows nulls, and casts says which units are converted.
#[pyfunction]
#[pyo3(name = "_times")]
pub(crate) fn times<'py>(
    obj: &Bound<'py, PyAny>,
    dtypes: Vec<String>,
    fill: bool,
    casts: Option<bool>,
) -> PyResult<(Option<Bound<'py, TensorObject>>, Option<String>)> {
    let names: Vec<_> = dtypes.iter().filter_map(|name| time::named(name)).collect();
    let times = Times::new(names, fill, casts);
    let imported = import_times(obj, &times);
    if let Some(found) = times.found() {
        return Ok((None, Some(found)));
    }
    match (imported?, times.chosen()) {
        (Some(imported), Some(chosen)) => {
            Ok((Some(TensorObject::new(obj.py(), imported)?), Some(chosen.found)))
        }
        _ => Ok((None, None)),
    }
}

/// Imports times; `None` for an object with other elements.
fn import_times(object: &Bound<'_, PyAny>, times: &Times) -> PyResult<Option<Imported>> {
    let type_info = type_info::of(object)?;
    type_info.check_before(object)?;
    match pandas::times(object, is_of(&type_info.checks, &pandas::PANDAS))? {
        Some(Ok(array)) => {
            return Ok(import_array_of_times(array, times)?.map(|(imported, _)| imported));
        }
        Some(Err(zone)) => {
            times.set_found(format!(
                "times with the zone {zone}; remove the zone first with x.tz_convert(None)"
            ));
            return Ok(None);
        }
        None => {}
    }
    let ours = TensorObject::of(object);
    // A tensor exports its counts as integers.
    if ours.is_some_and(|ours| ours.get().tensor().dtype() == DataType::INT64) {
        times.set_found(times.with_remedy(&Elements::Named("int64"), ""));
        return Ok(None);
    }
    if ours.is_none() && has(object, Protocol::Arrow)? {
        let imported = arrow::import(object, &type_info, &ImportOptions::default(), Some(times))
            .map_err(|error| explained(object, &type_info.checks, error))?;
        return imported.map(as_times).transpose();
    }
    let name = with_article(&type_name(object));
    if let Some(found) = advice(object.py(), "not_exported", (object, name))? {
        times.set_found(found);
        return Ok(None);
    }
    times.set_no_column(object);
    Ok(None)
}
