//! The import through Arrow.

use dlbridge::{CopyReason, DataType, Tensor, TensorRef};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::classes::attribute;
use dlbridge_pyo3::copies;
use dlbridge_pyo3::error::to_py_err;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::protocol::TypeInfo;
use dlbridge_pyo3::protocol::time::Times;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::abi::{ArrowArray, ArrowSchema, Owned, broken};
use super::array::{Elements, packed};
use super::exported::{Chunks, Exported, exported, only_stream};
use super::fixed_shape::Shape;
use super::format::Level;
use super::lists::no_chunk;

/// Imports an object that supports Arrow; `None` for other objects.
pub(crate) fn import(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    import_as(object, type_info, options, None)
}

/// Returns true if an object has a method of Arrow; does not call it.
pub(crate) fn is_supported(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    Ok(attribute(object, intern!(py, "__arrow_c_array__"))?.is_some()
        || attribute(object, intern!(py, "__arrow_c_device_array__"))?.is_some()
        || attribute(object, intern!(py, "__arrow_c_stream__"))?.is_some())
}

/// Imports the counts of times.
pub(crate) fn import_times(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    times: &Times,
) -> PyResult<Option<Imported>> {
    import_as(object, type_info, &ImportOptions::default(), Some(times))
}

fn import_as(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
    times: Option<&Times>,
) -> PyResult<Option<Imported>> {
    let py = object.py();
    let Some(exported) = exported(object, type_info, options)? else { return Ok(None) };
    let import = |schema: &ArrowSchema, array| one(object, schema, array, options, times);
    let mut chunks = match exported {
        Exported::Array(schema, array) => return import(schema.get(), array).map(Some),
        Exported::Stream(stream) => {
            Chunks::of(py, stream, |schema| Level::of(schema, times).map(drop))?
        }
    };
    if options.copy != Some(true) {
        return match chunks.only(py, several_chunks)? {
            Some(array) => import(chunks.schema(), array).map(Some),
            None => empty(py, chunks.schema(), times, options.copy).map(Some),
        };
    }
    let arrays = chunks.with_elements(py)?.into_iter();
    let mut imported =
        arrays.map(|array| import(chunks.schema(), array)).collect::<PyResult<Vec<_>>>()?;
    match imported.len() {
        0 => return empty(py, chunks.schema(), times, options.copy).map(Some),
        1 => return Ok(imported.pop()),
        _ => {}
    }
    let tensors: Vec<_> = imported.into_iter().map(|imported| imported.tensor).collect();
    let tensor = concatenated(&tensors, options.align.unwrap_or(1))?;
    let reason = Some(CopyReason::SeveralChunks);
    Ok(Some(Imported { reason, ..Imported::new(tensor, Protocol::Arrow) }))
}

/// Imports a stream without arrays, as an array without elements is imported.
fn empty(
    py: Python<'_>,
    schema: &ArrowSchema,
    times: Option<&Times>,
    copy: Option<bool>,
) -> PyResult<Imported> {
    let (dtype, reason) = match Level::of(schema, times)? {
        Level::Numbers(dtype) => (dtype, None),
        Level::Bits if copy == Some(false) => return Err(packed()),
        Level::Bits => (DataType::BOOL, Some(CopyReason::BitPacked)),
        Level::Lists(_) => return Err(no_chunk()),
    };
    if schema.n_children != 0 {
        return Err(broken("children although its type has none"));
    }
    // Only lists are tensors of a fixed shape.
    Shape::of(py, schema, vec![0])?;
    let tensor = match reason.is_some() || copy == Some(true) {
        true => Tensor::zeroed(dtype, [0]),
        false => Tensor::from_bytes([].as_slice(), dtype, [0], 0),
    };
    Ok(Imported { reason, ..Imported::new(tensor.map_err(to_py_err)?, Protocol::Arrow) })
}

fn several_chunks() -> PyErr {
    PyBufferError::new_err(
        "the Arrow stream has several chunks, which are not contiguous in memory; \
         dlbridge.chunks(x) imports them one by one, and dlbridge.asdlpack(x, copy=True), \
         combine_chunks() or rechunk() copies them into one",
    )
}

/// The chunks of an object that exports a stream; `None` for other objects.
pub(crate) fn chunks(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Chunks>> {
    let stream = only_stream(object, type_info, options)?;
    let chunks =
        |stream| Chunks::of(object.py(), stream, |schema| Level::of(schema, None).map(drop));
    stream.map(chunks).transpose()
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

/// Imports one array.
fn one(
    object: &Bound<'_, PyAny>,
    schema: &ArrowSchema,
    array: Owned<ArrowArray>,
    options: &ImportOptions,
    times: Option<&Times>,
) -> PyResult<Imported> {
    let elements = Elements::of(object, schema, array.get(), times)?;
    let (tensor, reason) = match elements.known_source(array.get()) {
        // SAFETY: the elements lie within those of the source, which keeps them (Within of `keepalive.rs` in `dlbridge-pyo3`).
        Some(source) => unsafe { elements.into_tensor(source, options.copy) },
        // SAFETY: the elements are those of the array, which the owner releases when it is dropped.
        None => unsafe { elements.into_tensor(array, options.copy) },
    }?;
    Ok(Imported { reason, ..Imported::new(tensor, Protocol::Arrow) })
}

/// A copy of tensors of one dtype along their first dimension, in C order, aligned to `alignment` bytes. All other
/// extents are equal.
pub(super) fn concatenated(chunks: &[Tensor], alignment: usize) -> PyResult<Tensor> {
    let _reading = chunks.iter().map(Guard::for_copy).collect::<PyResult<Vec<_>>>()?;
    let chunks: Vec<_> = chunks.iter().map(TensorRef::from).collect();
    let bytes = chunks.iter().map(TensorRef::nbytes).sum::<u128>();
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    copies::detached(bytes, |go_on| TensorRef::concatenate_while(&chunks, alignment, go_on))
}
