//! The import of an object, in stages. Each stage has its own file and returns the value that the next stage takes:
//!
//! | stage | value | |
//! | --- | --- | --- |
//! | [`select`] | `Selected` | the object to import, and the protocols to try |
//! | [`request`] | `Received` | the tensor as its producer exports it |
//! | [`validate`] | `Valid` | its elements are the object's values, and their memory stays |
//! | [`satisfy`] | `Satisfied` | the caller's options hold: device, order, alignment, access, copy |
//! | `record` | [`Imported`] | the tensor and its record: protocol, version, reason of a copy |
//!
//! A typed argument takes the same stages. Its type replaces the options: `argument/mismatch.rs` compares, and
//! `argument/routes.rs` copies and borrows.
//!
//! Some shortcuts skip calls but no checks. NumPy's and JAX's arrays are [read in place](if_in_place), JAX's through
//! their buffer. An object whose type has an [exchange table](table) is imported by it, without a search for a
//! protocol. A tensor of our own class was validated when it was made, so `PyTensor::import` only satisfies the options (`import/tensor.rs`).
//! A PyTorch tensor that a typed argument reads is described in place (`argument/routes.rs`). Arguments on a work
//! stream ([`on_device`]), times from Arrow ([`times`]) and columns of several chunks or of lists (`columns`) skip the
//! pipeline too.

#[cfg(feature = "tensor-class")]
pub(crate) mod columns;
mod depth;
mod in_place;
mod instead;
mod no_protocol;
pub(crate) mod on_device;
mod protocols;
mod request;
pub(crate) mod satisfy;
mod select;
mod table;
#[cfg(feature = "tensor-class")]
mod tensor;
pub(crate) mod times;
mod validate;

use dlbridge::{Access, Tensor};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;

pub(crate) use self::depth::Depth;
use self::in_place::{in_place, may_be_in_place};
pub(crate) use self::no_protocol::{has, has_protocol, never_has_protocol};
use self::protocols::ORDER;
use self::select::{Choice, Selected};
use self::table::ByTable;
use self::validate::{Valid, with_claim};
#[cfg(feature = "tensor-class")]
use crate::PyTensor;
use crate::borrow::Borrowed;
use crate::classes::attribute;
use crate::copies;
use crate::error::type_name;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::protocol::source::is_ours;
use crate::protocol::{TypeInfo, type_info};
use crate::stream::Streams;

/// Imports any Python object that supports a protocol, without a copy whenever a tensor can express the data; a
/// DLPack producer may still copy. Data of a legacy producer is read-only, because that producer cannot say whether
/// it may be written.
///
/// The import borrows the memory for reading until the tensor, and everything made from it without a copy, is
/// dropped. To keep an object without a borrow, use [`PyTensor::import`].
///
/// # Errors
/// `TypeError` for an object without a protocol; `BufferError` if the memory is borrowed for writing, for data that
/// breaks the specification, and for data that a tensor cannot express; `ValueError` for a capsule that was consumed
/// before or holds something else; and any exception of the producer.
///
/// ```no_run
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn ndim(x: &Bound<'_, PyAny>) -> PyResult<usize> {
///     Ok(dlbridge_pyo3::import(x)?.ndim())
/// }
/// ```
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let imported = imported(object, &ImportOptions::default())?;
    let read_only = imported.is_read_only();
    if imported.tensor.access() == Access::Exclusive {
        return Ok(imported.tensor);
    }
    if !imported.tensor.device().device_type().is_host_accessible() {
        // A tensor on a device never becomes a view, so it needs no borrow.
        return Ok(if read_only { imported.tensor.into_read_only() } else { imported.tensor });
    }
    Borrowed::tensor(&type_info::of(object)?.borrowed, object, imported.tensor, read_only)
}

/// The import of an object of another library; `None` for an object without a protocol.
fn pipeline<'py>(
    object: &Bound<'py, PyAny>,
    choice: Choice,
    options: &ImportOptions,
    streams: &Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    let _depth = Depth::enter()?;
    let selected = Selected::of(object, choice, options)?;
    let Some(received) = selected.request(options, streams)? else { return Ok(None) };
    let valid = received.validate(options)?;
    in_place::learn(object, valid.imported())?;
    let satisfied = valid.satisfy(object, options, streams)?;
    Ok(Some(satisfied.record()))
}

/// The shortcut of the first three stages, for an object that is read in place; `None` if the stages are needed.
#[inline(always)]
fn if_in_place(object: &Bound<'_, PyAny>, options: &ImportOptions) -> PyResult<Option<Valid>> {
    match options.protocol.is_none() && may_be_in_place(options) {
        true => Ok(in_place(object, options)?.map(Valid)),
        false => Ok(None),
    }
}

/// Imports an object by the exchange table of its type, or by the stages.
fn by_table_or_pipeline(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    match table::if_by_table(object, options)? {
        Ok(imported) => with_claim(imported, options)?.settle(options).map(Some),
        Err(left) => pipeline(object, left, options, &Streams::default()),
    }
}

/// Imports an object of another library, by the protocol in the options or by the first that the object has.
pub(crate) fn from_producer(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<Imported> {
    if let Some(valid) = if_in_place(object, options)? {
        return valid.settle(options);
    }
    let imported = by_table_or_pipeline(object, options)?;
    imported.ok_or_else(|| no_protocol::refusal(object, &ORDER))
}

/// As [`from_producer`], synchronised with a stream.
pub(crate) fn from_producer_on<'py>(
    object: &Bound<'py, PyAny>,
    options: &ImportOptions,
    streams: &Streams<'_, 'py>,
) -> PyResult<Imported> {
    let imported = pipeline(object, Choice::Options, options, streams)?;
    imported.ok_or_else(|| no_protocol::refusal(object, &ORDER))
}

/// As [`from_producer`]; `None` for an object without a protocol.
fn any_from_producer(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    match if_in_place(object, options)? {
        Some(valid) => valid.settle(options).map(Some),
        None => by_table_or_pipeline(object, options),
    }
}

/// As [`any_imported`], for a typed argument that the CPU reads. If it does not copy, the table of the object's type comes
/// first, without a search for a protocol.
pub(crate) fn for_argument(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    if options.device.is_some() || type_info.table.is_none() || is_ours(object) {
        return any_imported(object, options);
    }
    match table::by_table(object, type_info)? {
        ByTable::Imported(imported) => Ok(Some(with_claim(imported, options)?.0)),
        ByTable::OnDevice => pipeline(object, Choice::PastTable, options, &Streams::default()),
        ByTable::None => any_from_producer(object, options),
    }
}

/// Imports through `__dlpack__` alone, as the array API standard describes; raises AttributeError for an object
/// without it.
pub(crate) fn from_dlpack<'py>(
    object: &Bound<'py, PyAny>,
    options: &ImportOptions,
    streams: &Streams<'_, 'py>,
) -> PyResult<Imported> {
    let imported = pipeline(object, Choice::Method, options, streams).and_then(|imported| {
        imported.ok_or_else(|| no_protocol::refusal(object, &[Protocol::Dlpack]))
    });
    match imported {
        Err(error) if copies::must_be_raised(object.py(), &error) => Err(error),
        Err(_) if attribute(object, intern!(object.py(), "__dlpack__"))?.is_none() => {
            Err(PyAttributeError::new_err(format!(
                "'{}' object has no attribute '__dlpack__'; asdlpack looks for other protocols too",
                type_name(object)
            )))
        }
        imported => imported,
    }
}

/// Imports an object, which may be of our own class.
pub(crate) fn imported(object: &Bound<'_, PyAny>, options: &ImportOptions) -> PyResult<Imported> {
    #[cfg(feature = "tensor-class")]
    if let Ok(tensor) = object.cast_exact::<PyTensor>() {
        tensor.get().in_default_order(object.py())?;
        return Ok(Imported::new(tensor.get().alias()?, Protocol::ExchangeApi));
    }
    from_producer(object, options)
}

/// As [`imported`]; `None` for an object without a protocol.
pub(crate) fn any_imported(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    match is_ours(object) {
        true => imported(object, options).map(Some),
        false => any_from_producer(object, options),
    }
}
