//! The import through Arrow.

use std::ptr;

use dlbridge::{CopyReason, Tensor, TensorRef};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::protocol::TypeInfo;
use dlbridge_pyo3::protocol::time::Times;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::repr_in_message;
use dlbridge_pyo3::python::interpreter::check_main_interpreter;
use dlbridge_pyo3::python::objects::attribute;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::abi::{ArrowArray, ArrowArrayStream, ArrowDeviceArray, ArrowSchema, Owned};
use super::array::{Elements, Span};
use super::export::array;
use super::format::Level;
use crate::frameworks::{self, pandas};
use crate::import::options::check_on_cpu;

/// Imports an object that supports Arrow, with `times` the counts of these; `None` for other objects.
pub(crate) fn import(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
    times: Option<&Times>,
) -> PyResult<Option<Imported>> {
    let py = object.py();
    let Some(mut chunks) = exported(object, type_info, options, false)? else { return Ok(None) };
    chunks.check_stream(times)?;
    let arrays = match options.copy {
        Some(true) => {
            let mut arrays = Vec::new();
            while let Some(chunk) = chunks.next_with_elements(py)? {
                // The stream ends with an array without elements.
                let is_last = chunk.get().length <= 0;
                if !is_last || arrays.is_empty() {
                    arrays.push(chunk);
                }
                if is_last {
                    break;
                }
            }
            arrays
        }
        _ => chunks.only(py, several_chunks)?.into_iter().collect(),
    };
    let import = |array| one(object, chunks.schema(), array, options, times);
    let mut imported = arrays.into_iter().map(import).collect::<PyResult<Vec<_>>>()?;
    match imported.len() {
        0 => {
            // A stream without arrays is imported as an array without elements.
            if let Level::Lists(_) = Level::of(chunks.schema(), times)? {
                return Err(no_chunk());
            }
            let empty = Owned(Box::new(array(0, vec![ptr::null(); 2], None, None)));
            import(empty).map(Some)
        }
        1 => Ok(imported.pop()),
        _ => {
            let tensors: Vec<_> = imported.into_iter().map(|imported| imported.tensor).collect();
            let tensor = concatenated(&tensors, options.align.unwrap_or(1))?;
            let reason = Some(CopyReason::SeveralChunks);
            Ok(Some(Imported { reason, ..Imported::new(tensor, Protocol::Arrow) }))
        }
    }
}

fn several_chunks() -> PyErr {
    PyBufferError::new_err(
        "the Arrow stream has several chunks, which are not contiguous in memory; \
         dlbridge.chunks(x) imports them one by one, and dlbridge.asdlpack(x, copy=True), \
         combine_chunks() or rechunk() copies them into one",
    )
}

/// The chunks of an object that exports a stream, also if it exports an array too; `None` for other objects.
pub(crate) fn chunks(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Chunks>> {
    let chunks = exported(object, type_info, options, true)?;
    chunks.as_ref().map_or(Ok(()), |chunks| chunks.check_stream(None))?;
    Ok(chunks)
}

/// Imports the next chunk of an object; `None` at the end.
pub(crate) fn next_chunk(
    object: &Bound<'_, PyAny>,
    chunks: &mut Chunks,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    let Some(array) = chunks.next(object.py())? else { return Ok(None) };
    one(object, chunks.schema(), array, options, None).map(Some)
}

fn one(
    object: &Bound<'_, PyAny>,
    schema: &ArrowSchema,
    array: Owned<ArrowArray>,
    options: &ImportOptions,
    times: Option<&Times>,
) -> PyResult<Imported> {
    let &ArrowArray { offset: first, length: count, .. } = array.get();
    let elements =
        Elements::of(object, schema, array.get(), Span { first, count, unused: 0 }, times)?;
    let (tensor, reason) = match elements.known_source(array.get()) {
        // SAFETY: the elements lie within those of the source, which keeps them (Within of `layout.rs` in `dlbridge-pyo3`).
        Some(source) => unsafe { elements.into_tensor(source, options.copy) },
        // SAFETY: the elements are those of the array, which the owner releases when it is dropped.
        None => unsafe { elements.into_tensor(array, options.copy) },
    }?;
    Ok(Imported { reason, ..Imported::new(tensor, Protocol::Arrow) })
}

/// A copy of tensors of one dtype along their first dimension, in C order, aligned to `alignment` bytes. All other
/// extents are equal.
fn concatenated(chunks: &[Tensor], alignment: usize) -> PyResult<Tensor> {
    let _reading = chunks.iter().map(Guard::for_copy).collect::<PyResult<Vec<_>>>()?;
    let chunks: Vec<_> = chunks.iter().map(TensorRef::from).collect();
    let bytes = chunks.iter().map(TensorRef::nbytes).sum::<u128>();
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    copies::detached(bytes, |go_on| TensorRef::concatenate_while(&chunks, alignment, go_on))
}

/// Calls the first method of Arrow that an object has, or the one for a stream; `None` for an object without it.
pub(super) fn exported(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
    only_stream: bool,
) -> PyResult<Option<Chunks>> {
    let py = object.py();
    let is_image = frameworks::is_of(&type_info.checks, &frameworks::PILLOW);
    if is_image {
        frameworks::check_arrow(object, options)?;
    }
    // Columns have only the stream, and look up the other methods in Python code.
    let first = if only_stream || type_info.checks.is_column() { stream(object)? } else { None };
    let exported = if first.is_some() || only_stream {
        first
    } else if let Some(method) = attribute(object, intern!(py, "__arrow_c_array__"))? {
        let answer = method.call0().map_err(|error| match is_image {
            true => frameworks::explain_arrow(py, options, error),
            false => error,
        })?;
        pair(&answer, Owned::take)?
    } else if let Some(method) = attribute(object, intern!(py, "__arrow_c_device_array__"))? {
        pair(&method.call0()?, |array| Owned::<ArrowDeviceArray>::take(array)?.on_cpu())?
    } else {
        stream(object)?
    };
    if exported.is_some() {
        check_main_interpreter(py)?;
        check_on_cpu(options, "an Arrow array")?;
    }
    Ok(exported)
}

/// Calls the method for a stream, and reads its schema.
fn stream(object: &Bound<'_, PyAny>) -> PyResult<Option<Chunks>> {
    let Some(method) = attribute(object, intern!(object.py(), "__arrow_c_stream__"))? else {
        return Ok(None);
    };
    let stream = method.call0().map_err(|error| pandas::without_pyarrow(object, error))?;
    let mut stream = Owned::<ArrowArrayStream>::take(&stream)?;
    let schema = stream.schema(object.py())?;
    Ok(Some(Chunks { schema, array: None, stream: Some(stream) }))
}

/// The schema and the array in the two capsules that a method returned.
fn pair(
    answer: &Bound<'_, PyAny>,
    take: fn(&Bound<'_, PyAny>) -> PyResult<Owned<ArrowArray>>,
) -> PyResult<Option<Chunks>> {
    let wrong = || {
        PyBufferError::new_err(format!(
            "expected a tuple of two capsules, not {}",
            repr_in_message(answer)
        ))
    };
    let pair = answer.cast::<PyTuple>().map_err(|_| wrong())?;
    let (schema, array) = pair.extract::<(Bound<'_, PyAny>, _)>().map_err(|_| wrong())?;
    let (schema, array) = (Owned::take(&schema)?, Some(take(&array)?));
    Ok(Some(Chunks { schema, array, stream: None }))
}

/// The arrays that an object exports, and their type: one, or a stream.
pub(crate) struct Chunks {
    schema: Owned<ArrowSchema>,
    array: Option<Owned<ArrowArray>>,
    stream: Option<Owned<ArrowArrayStream>>,
}

impl Chunks {
    pub(super) fn schema(&self) -> &ArrowSchema {
        self.schema.get()
    }

    /// Checks the type of a stream, so that no array is taken from one that a tensor cannot express.
    fn check_stream(&self, times: Option<&Times>) -> PyResult<()> {
        self.stream.as_ref().map_or(Ok(()), |_| Level::of(self.schema(), times).map(drop))
    }

    /// The next array; `None` at the end.
    pub(super) fn next(&mut self, py: Python<'_>) -> PyResult<Option<Owned<ArrowArray>>> {
        let Some(stream) = &mut self.stream else { return Ok(self.array.take()) };
        let chunk = stream.next(py)?;
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
        let has_elements = |chunk: &Owned<ArrowArray>| chunk.get().length > 0;
        let Some(first) = self.next_with_elements(py)? else { return Ok(None) };
        match has_elements(&first)
            && self.next_with_elements(py)?.is_some_and(|it| has_elements(&it))
        {
            true => Err(refusal()),
            false => Ok(Some(first)),
        }
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
}

/// The refusal of a stream without arrays, of a type that has more to it than numbers.
pub(super) fn no_chunk() -> PyErr {
    PyBufferError::new_err(
        "the Arrow stream lacks chunks; make one first, for example with combine_chunks()",
    )
}
