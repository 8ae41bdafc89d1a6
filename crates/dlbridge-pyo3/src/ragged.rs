//! The functions behind the Python class `dlbridge.Ragged`: offsets and values from lists of Arrow, and back.

use dlbridge::TensorRef;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::PyTensor;
use crate::borrow::Guard;
use crate::import::columns;
use crate::import_options::{ImportOptions, expect_bool};
use crate::protocol::arrow::{self, Lists, offsets};

/// Two capsules of Arrow: the schema and the array.
type Capsules<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyCapsule>);

/// The offsets and the values of a column of lists, and the first and the last offset.
type Parts<'py> = (Bound<'py, PyTensor>, Bound<'py, PyTensor>, (i64, i64));

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
    let object = |imported| Bound::new(py, PyTensor::from(imported));
    Ok(Some((object(offsets)?, object(values)?, (range.start, range.end))))
}

/// The first and the last offset. The caller has checked dtype, shape and device.
///
/// Raises ValueError for offsets that are negative or decrease.
#[pyfunction]
#[pyo3(name = "_offsets_range", signature = (offsets, /))]
pub(crate) fn offsets_range(offsets: &Bound<'_, PyTensor>) -> PyResult<(i64, i64)> {
    let tensor = offsets.get().tensor();
    let _reading = Guard::for_copy(tensor)?;
    let range = offsets::range(&TensorRef::from(&**tensor))?.map_err(PyValueError::new_err)?;
    Ok((range.start, range.end))
}

/// Capsules over the schema and the array of lists. The caller has checked the offsets.
#[pyfunction]
#[pyo3(name = "_list_array", signature = (offsets, values, /))]
pub(crate) fn list_array<'py>(
    offsets: &Bound<'py, PyTensor>,
    values: &Bound<'py, PyTensor>,
) -> PyResult<Capsules<'py>> {
    let (offsets, values, py) =
        (offsets.get().for_consumer()?, values.get().for_consumer()?, offsets.py());
    arrow::export_lists(py, &offsets, &values)
}

/// A capsule over the schema of lists.
#[pyfunction]
#[pyo3(name = "_list_schema", signature = (offsets, values, /))]
pub(crate) fn list_schema<'py>(
    offsets: &Bound<'py, PyTensor>,
    values: &Bound<'py, PyTensor>,
) -> PyResult<Bound<'py, PyCapsule>> {
    arrow::export_lists_schema(offsets.py(), offsets.get().tensor(), values.get().tensor())
}
