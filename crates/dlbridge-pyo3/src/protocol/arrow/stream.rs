//! Streams of Arrow arrays, of which one array is wanted.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::abi::{ArrowArray, ArrowArrayStream, ArrowSchema, Owned};
use super::format::Level;
use crate::protocol::time::Times;

/// The one array of a stream that has elements, or the first if none has.
///
/// Nothing is taken from a stream of what no tensor can express.
pub(super) fn only_chunk(
    py: Python<'_>,
    mut stream: Owned<ArrowArrayStream>,
    times: Option<&Times>,
) -> PyResult<(Owned<ArrowSchema>, Owned<ArrowArray>)> {
    let schema = stream.schema(py)?;
    Level::of(schema.get(), times)?;
    let mut only: Option<Owned<ArrowArray>> = None;
    while let Some(chunk) = stream.next(py)? {
        // A stream of empty chunks need not end.
        py.check_signals()?;
        match &only {
            Some(first) if first.get().length > 0 => {
                if chunk.get().length > 0 {
                    return Err(PyBufferError::new_err(
                        "the Arrow stream has several chunks, which are no one piece of memory; \
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
