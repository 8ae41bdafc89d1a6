//! The import of an object: [`ImportRequest::run`]. Its stages:
//!
//! | stage | file | |
//! | --- | --- | --- |
//! | shortcut | `shortcut.rs` | NumPy's and JAX's arrays are read in place; PyTorch's tensors come from their type's C functions |
//! | select | this file | refuses objects in a state that no protocol reports; the NumPy array of a column replaces the column |
//! | request | `protocols.rs` | tries the protocols in the order of the object's framework |
//! | validate, satisfy | `satisfy.rs` | the elements are the object's values, their memory stays, and the options hold |
//!
//! A shortcut makes all checks of an import. The package imports in these stages, and so does an argument on a work stream
//! ([`on_device`]). All other imports of an extension are shorter ([`plain`]), and ask the package for the rest ([`hub`]). A typed
//! argument compares the result with its type (`argument/`).

pub mod hub;
pub(crate) mod on_device;
pub(crate) mod plain;
mod protocols;
pub mod satisfy;
mod shortcut;
mod tensor;
pub mod times;

use std::cell::Cell;

use dlbridge::{Access, CopyReason, Tensor};
use pyo3::exceptions::{PyAttributeError, PyRecursionError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

pub use self::protocols::{has, has_protocol, refusal};
use crate::borrow::Borrowed;
use crate::capsule;
use crate::classes::attribute;
use crate::error::type_name;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::protocol::{TypeInfo, framework_checks, type_info};
use crate::stream::Streams;

/// Imports any Python object that supports a protocol, without a copy whenever a tensor can express the data; a
/// DLPack producer may still copy. Data of a legacy producer is read-only, because that producer cannot say whether
/// it may be written.
///
/// The import borrows the memory for reading until the tensor, and everything made from it without a copy, is
/// dropped. To keep an object without a borrow, use [`PyTensor::import`](crate::PyTensor::import).
///
/// # Errors
/// `ModuleNotFoundError` for an object that only the package `dlbridge` imports, if that is not installed; `TypeError` for an
/// object without a protocol; `BufferError` if the memory is borrowed for writing, for data that
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
    let type_info = type_info::of(object)?;
    let imported = required(object, &type_info, &ImportOptions::default())?;
    let read_only = imported.is_read_only();
    if imported.tensor.access() == Access::Exclusive {
        return Ok(imported.tensor);
    }
    if !imported.tensor.device().device_type().is_host_accessible() {
        // A tensor on a device never becomes a view, so it needs no borrow.
        return Ok(if read_only { imported.tensor.into_read_only() } else { imported.tensor });
    }
    Borrowed::tensor(&type_info.borrowed, object, imported.tensor, read_only)
}

/// Imports an object of a known type as an extension does. Data on a device is synchronised with the default stream.
pub(crate) fn required(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Imported> {
    if !options.is_plain() {
        return hub::import(object, options, None);
    }
    let imported = plain::import(object, type_info, options)?;
    let imported = imported.ok_or_else(|| refusal(object, options.protocol))?;
    let is_here = imported.tensor.device().device_type().is_host_accessible();
    match is_here || object.is_instance_of::<PyCapsule>() {
        true => Ok(imported),
        false => hub::import(object, options, None),
    }
}

/// Imports through `__dlpack__` alone, as the array API standard describes; raises AttributeError for an object
/// without it.
pub fn from_dlpack<'py>(
    object: &Bound<'py, PyAny>,
    options: &ImportOptions,
    streams: Streams<'_, 'py>,
) -> PyResult<Imported> {
    expect_dlpack(object)?;
    let options = ImportOptions { protocol: Some(Protocol::Dlpack), ..*options };
    ImportRequest { object, options: &options, streams }.required()
}

/// Refuses an object without `__dlpack__`.
fn expect_dlpack(object: &Bound<'_, PyAny>) -> PyResult<()> {
    match attribute(object, intern!(object.py(), "__dlpack__"))? {
        Some(_) => Ok(()),
        None => Err(PyAttributeError::new_err(format!(
            "'{}' object has no attribute '__dlpack__'; asdlpack looks for other protocols too",
            type_name(object)
        ))),
    }
}

/// An import: the object, and what the caller demands.
pub struct ImportRequest<'a, 'py> {
    pub object: &'a Bound<'py, PyAny>,
    pub options: &'a ImportOptions,
    pub streams: Streams<'a, 'py>,
}

impl<'a, 'py> ImportRequest<'a, 'py> {
    /// The request of a caller on the default stream.
    #[inline]
    pub fn new(object: &'a Bound<'py, PyAny>, options: &'a ImportOptions) -> Self {
        Self { object, options, streams: Streams::default() }
    }

    /// Imports the object of another library; `None` for one without a protocol.
    #[inline]
    pub(crate) fn run(&self) -> PyResult<Option<Imported>> {
        let type_info = type_info::of(self.object)?;
        if self.options.protocol.is_none()
            && self.streams.is_default()
            && let Some(valid) = shortcut::import(self.object, &type_info, self.options)?
        {
            return valid.settle(self.options).map(Some);
        }
        self.run_stages(&type_info)
    }

    /// As [`run`](Self::run), and refuses an object without a protocol.
    #[inline]
    pub fn required(&self) -> PyResult<Imported> {
        let imported = self.run()?;
        imported.ok_or_else(|| refusal(self.object, self.options.protocol))
    }

    fn run_stages(&self, type_info: &TypeInfo) -> PyResult<Option<Imported>> {
        let Self { object, options, streams } = self;
        let _depth = Depth::enter()?;
        if let Ok(capsule) = object.cast::<PyCapsule>()
            && let None | Some(Protocol::Dlpack | Protocol::LegacyDlpack) = options.protocol
        {
            if options.protocol == Some(Protocol::LegacyDlpack) {
                capsule::expect_legacy(capsule)?;
            }
            let valid = satisfy::with_claim(capsule::take(capsule)?, options)?;
            return valid.satisfy(object, options, streams).map(Some);
        }
        if let Err(refusal) = framework_checks::check_before(object, &type_info.checks) {
            return match options.protocol {
                Some(protocol) if !has(object, protocol)? => Ok(None),
                _ => Err(refusal),
            };
        }
        if options.protocol.is_none()
            && let Some((array, reason)) = array_of(object, type_info, options)?
        {
            return self.import_array(&array, reason);
        }
        let Some(received) = self.request(type_info)? else { return Ok(None) };
        let valid = received.validate(object, type_info, options)?;
        shortcut::learn(object, type_info, valid.imported())?;
        valid.satisfy(object, options, streams).map(Some)
    }

    /// Imports the array of a column, which may be a copy that was made for this import.
    fn import_array(
        &self,
        array: &Bound<'py, PyAny>,
        reason: Option<CopyReason>,
    ) -> PyResult<Option<Imported>> {
        let copy = if reason.is_some() { None } else { self.options.copy };
        let options = ImportOptions { copy, ..*self.options };
        let streams = self.streams.clone();
        let imported = ImportRequest { object: array, options: &options, streams }.required()?;
        Ok(Some(Imported { reason: reason.or(imported.reason), ..imported }))
    }
}

/// The NumPy array that holds the values of a column, and why it is a copy if it is one; `None` for all other objects.
pub fn array_of<'py>(
    object: &Bound<'py, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<(Bound<'py, PyAny>, Option<CopyReason>)>> {
    let Some(array_of) = type_info.checks.array_of() else { return Ok(None) };
    let is_numpy_array =
        |object: &Bound<'_, PyAny>| Ok(type_info::of(object)?.borrowed.numpy_array);
    array_of(object, options, is_numpy_array)
        .map_err(|error| framework_checks::explained(object, &type_info.checks, error))
}

/// Stops a producer that imports itself again and again. Python's own limit counts calls, and the calls of an import
/// use more stack than it expects.
pub struct Depth;

thread_local! {
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

impl Depth {
    /// Real wrappers of wrappers are a few levels deep.
    const MAX: u8 = 24;

    pub fn enter() -> PyResult<Self> {
        DEPTH.with(|depth| match depth.get() {
            Self::MAX => Err(PyRecursionError::new_err(
                "imports are nested too deeply; a producer's \
                 __dlpack__ must not import the producer itself",
            )),
            count => {
                depth.set(count + 1);
                Ok(Self)
            }
        })
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}
