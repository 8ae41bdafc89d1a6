//! Streams of Arrow arrays, from which one array is imported.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::abi::{ArrowArray, ArrowArrayStream, ArrowSchema, Owned};
use super::format::Level;
use crate::protocol::time::Times;

/// The only array of a stream that has elements, or the first one if none has.
///
/// The schema is checked first: no array is taken from a stream that a tensor cannot express.
pub(super) fn only_chunk(
    py: Python<'_>,
    mut stream: Owned<ArrowArrayStream>,
    times: Option<&Times>,
) -> PyResult<(Owned<ArrowSchema>, Owned<ArrowArray>)> {
    let schema = stream.schema(py)?;
    Level::of(schema.get(), times)?;
    let mut only: Option<Owned<ArrowArray>> = None;
    while let Some(chunk) = stream.next(py)? {
        // A stream of empty chunks may be endless.
        py.check_signals()?;
        match &only {
            Some(first) if first.get().length > 0 => {
                if chunk.get().length > 0 {
                    return Err(PyBufferError::new_err(
                        "the Arrow stream has several chunks, which are not contiguous in memory; \
                         combine them first, for example with combine_chunks() or rechunk()",
                    ));
                }
            }
            _ => only = Some(chunk),
        }
    }
    let array = only.ok_or_else(|| {
        PyBufferError::new_err(
            "the Arrow stream has no chunk; combine the chunks first, for example with \
             combine_chunks()",
        )
    })?;
    Ok((schema, array))
}
