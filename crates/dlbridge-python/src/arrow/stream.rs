//! Streams of Arrow arrays, which are the chunks of a column.

use pyo3::prelude::*;

use super::abi::{ArrowArray, ArrowArrayStream, ArrowSchema, Owned};

/// The arrays of a stream, and their type.
pub(crate) struct Chunks {
    schema: Owned<ArrowSchema>,
    stream: Owned<ArrowArrayStream>,
}

impl Chunks {
    /// Reads the schema and checks it, so that no array is taken from a stream that a tensor cannot express.
    pub(super) fn of(
        py: Python<'_>,
        mut stream: Owned<ArrowArrayStream>,
        check: impl FnOnce(&ArrowSchema) -> PyResult<()>,
    ) -> PyResult<Self> {
        let schema = stream.schema(py)?;
        check(schema.get())?;
        Ok(Self { schema, stream })
    }

    pub(super) fn schema(&self) -> &ArrowSchema {
        self.schema.get()
    }

    pub(super) fn into_schema(self) -> Owned<ArrowSchema> {
        self.schema
    }

    /// The next array; `None` at the end.
    pub(super) fn next(&mut self, py: Python<'_>) -> PyResult<Option<Owned<ArrowArray>>> {
        let chunk = self.stream.next(py)?;
        // A stream of empty chunks may be endless.
        py.check_signals()?;
        Ok(chunk)
    }

    /// The only array that has elements, or the last one if none has; `None` without arrays. `refusal` makes the error
    /// if two have elements.
    pub(super) fn only(
        &mut self,
        py: Python<'_>,
        refusal: impl FnOnce() -> PyErr,
    ) -> PyResult<Option<Owned<ArrowArray>>> {
        let Some(first) = self.next_with_elements(py)? else { return Ok(None) };
        match first.get().length > 0 && self.has_elements(py)? {
            true => Err(refusal()),
            false => Ok(Some(first)),
        }
    }

    /// The arrays that have elements, or the last one if none has.
    pub(super) fn with_elements(&mut self, py: Python<'_>) -> PyResult<Vec<Owned<ArrowArray>>> {
        let mut chunks: Vec<_> = self.next_with_elements(py)?.into_iter().collect();
        while let Some(chunk) = self.next(py)? {
            if chunk.get().length > 0 {
                chunks.push(chunk);
            }
        }
        Ok(chunks)
    }

    /// The next array that has elements, or the last one if none has.
    fn next_with_elements(&mut self, py: Python<'_>) -> PyResult<Option<Owned<ArrowArray>>> {
        let mut empty = None;
        while let Some(chunk) = self.next(py)? {
            if chunk.get().length > 0 {
                return Ok(Some(chunk));
            }
            empty = Some(chunk);
        }
        Ok(empty)
    }

    /// Returns true if an array that is left has elements.
    fn has_elements(&mut self, py: Python<'_>) -> PyResult<bool> {
        while let Some(chunk) = self.next(py)? {
            if chunk.get().length > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
