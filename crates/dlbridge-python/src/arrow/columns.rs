//! The import of Arrow columns that are more than one tensor: chunk by chunk, or as lists.

use dlbridge_pyo3::import::Depth;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::Imported;
use dlbridge_pyo3::protocol::framework_checks;
use dlbridge_pyo3::protocol::type_info::{self, Known};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::{Chunks, Lists};
use crate::arrow;
use crate::frameworks::explain::explained;
use crate::import::{array_of, satisfy};
use crate::tensor::TensorObject;

/// The chunks of a column that exports a stream; `None` for an object that is imported as one tensor.
pub(crate) fn chunks(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<Chunks>> {
    let _depth = Depth::enter()?;
    let Some((type_info, array)) = selected(object, options)? else { return Ok(None) };
    if array.is_some() {
        return Ok(None);
    }
    arrow::chunks(object, &type_info, options)
        .map_err(|error| explained(object, &type_info.checks, error))
}

/// Imports the next chunk of a column; `None` at the end.
pub(crate) fn next_chunk(
    object: &Bound<'_, PyAny>,
    chunks: &mut Chunks,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    let _depth = Depth::enter()?;
    match arrow::next_chunk(object, chunks, options)? {
        Some(imported) => satisfy::settle(options, imported).map(Some),
        None => Ok(None),
    }
}

/// Imports a column of lists; `None` for an object without Arrow.
pub(crate) fn lists(object: &Bound<'_, PyAny>, options: &ImportOptions) -> PyResult<Option<Lists>> {
    let _depth = Depth::enter()?;
    let Some((type_info, array)) = selected(object, options)? else { return Ok(None) };
    if array.is_some() {
        return Err(PyBufferError::new_err(
            "the column's dtype is one of NumPy, which has no lists; pass pyarrow.array(x), which copies them",
        ));
    }
    arrow::import_lists(object, &type_info, options)
        .map_err(|error| explained(object, &type_info.checks, error))
}

/// The facts about the type of a column, and its array if NumPy's memory holds its values; `None` for a tensor of our
/// own.
fn selected<'py>(
    object: &Bound<'py, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<(Known, Option<Bound<'py, PyAny>>)>> {
    if TensorObject::of(object).is_some() {
        return Ok(None);
    }
    let type_info = type_info::of(object)?;
    framework_checks::check_before(object, &type_info.checks)?;
    let array = array_of(object, &type_info, options)?.map(|(array, _)| array);
    Ok(Some((type_info, array)))
}
