//! The arrays that the methods of an object export.

use dlbridge_pyo3::classes::attribute;
use dlbridge_pyo3::error::repr_in_message;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::interpreter::check_main_interpreter;
use dlbridge_pyo3::protocol::TypeInfo;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::abi::{ArrowArray, ArrowArrayStream, ArrowDeviceArray, ArrowSchema, Owned};
use crate::frameworks::pandas;
use crate::import::options::check_on_cpu;

/// The arrays that an object exports.
pub(super) enum Exported {
    Array(Owned<ArrowSchema>, Owned<ArrowArray>),
    Stream(Owned<ArrowArrayStream>),
}

/// Calls the first method of Arrow that an object has; `None` for an object without one.
pub(super) fn exported(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Exported>> {
    let py = object.py();
    let rules = type_info.checks.arrow();
    if let Some(rules) = rules {
        (rules.check)(object, options)?;
    }
    // Columns have only the stream, and look up the other methods in Python code.
    let first = if type_info.checks.is_column() { stream(object)? } else { None };
    let exported = if let Some(stream) = first {
        Exported::Stream(stream)
    } else if let Some(method) = attribute(object, intern!(py, "__arrow_c_array__"))? {
        let answer = method.call0().map_err(|error| match rules {
            Some(rules) => (rules.explain)(object, options, error),
            None => error,
        })?;
        let (schema, array) = pair(&answer)?;
        Exported::Array(schema, Owned::take(&array)?)
    } else if let Some(method) = attribute(object, intern!(py, "__arrow_c_device_array__"))? {
        let (schema, array) = pair(&method.call0()?)?;
        Exported::Array(schema, Owned::<ArrowDeviceArray>::take(&array)?.on_cpu()?)
    } else if let Some(stream) = stream(object)? {
        Exported::Stream(stream)
    } else {
        return Ok(None);
    };
    check_main_interpreter(py)?;
    check_on_cpu(options, "an Arrow array")?;
    Ok(Some(exported))
}

/// The stream that an object exports, also if it exports arrays too; `None` for an object without a stream.
pub(super) fn only_stream(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Owned<ArrowArrayStream>>> {
    if let Some(rules) = type_info.checks.arrow() {
        (rules.check)(object, options)?;
    }
    let stream = stream(object)?;
    check_main_interpreter(object.py())?;
    Ok(stream)
}

fn stream(object: &Bound<'_, PyAny>) -> PyResult<Option<Owned<ArrowArrayStream>>> {
    let Some(method) = attribute(object, intern!(object.py(), "__arrow_c_stream__"))? else {
        return Ok(None);
    };
    let stream = method.call0().map_err(|error| pandas::without_pyarrow(object, error))?;
    Owned::take(&stream).map(Some)
}

/// The schema and the other capsule that a method returned.
fn pair<'py>(answer: &Bound<'py, PyAny>) -> PyResult<(Owned<ArrowSchema>, Bound<'py, PyAny>)> {
    let wrong = || {
        PyBufferError::new_err(format!(
            "expected a tuple of two capsules, not {}",
            repr_in_message(answer)
        ))
    };
    let pair = answer.cast::<PyTuple>().map_err(|_| wrong())?;
    let (schema, array) = pair.extract::<(Bound<'_, PyAny>, _)>().map_err(|_| wrong())?;
    Ok((Owned::take(&schema)?, array))
}

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
