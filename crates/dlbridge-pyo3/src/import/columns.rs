//! The import of Arrow columns that are more than one tensor: chunk by chunk, or as lists.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::depth::Depth;
use super::protocols;
use super::satisfy;
use super::select::{Choice, Producer, Selected};
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::protocol::arrow::{self, Chunks, Lists};
use crate::protocol::source::is_ours;
use crate::protocol::{Lacking, framework_checks, left_out};

/// The chunks of a column that exports a stream; `None` for an object that is imported as one tensor.
pub(crate) fn chunks(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<Chunks>> {
    let _depth = Depth::enter()?;
    let Some(producer) = producer(object, options)?.filter(|producer| producer.column.is_none())
    else {
        return Ok(None);
    };
    let lacking = producer.type_info.lacking.now(object.py())?;
    arrow::chunks(object, &producer.type_info, lacking, options)
        .map_err(|error| explained(&producer, error))
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
    let Some(producer) = producer(object, options)? else { return Ok(None) };
    if producer.column.is_some() {
        return Err(PyBufferError::new_err(
            "the column's dtype is one of NumPy, which has no lists; pass pyarrow.array(x), which copies them",
        ));
    }
    let lacking = producer.type_info.lacking.now(object.py())?;
    arrow::import_lists(object, &producer.type_info, lacking, options)
        .map_err(|error| explained(&producer, error))
}

/// The object, if it is not a tensor of our own or a capsule.
fn producer<'py>(
    object: &Bound<'py, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<Producer<'py>>> {
    if is_ours(object) {
        return Ok(None);
    }
    let Selected::Producer(producer) = Selected::of(object, Choice::Options, options)? else {
        return Ok(None);
    };
    if Protocol::Arrow.missing_feature().is_some()
        && producer.column.is_none()
        && protocols::has(Protocol::Arrow, object, &producer.type_info, Lacking::UNKNOWN)?
    {
        return Err(left_out::refusal(Protocol::Arrow, object));
    }
    Ok(Some(producer))
}

fn explained(producer: &Producer<'_>, error: PyErr) -> PyErr {
    framework_checks::explained(&producer.object, &producer.type_info.checks, error)
}
