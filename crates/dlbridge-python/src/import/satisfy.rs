//! Validate: the elements are the values of the object, and their memory stays. The file of each protocol checks the layout
//! of a tensor, where it reads the producer's description. Satisfy: copies a tensor that does not meet the caller's
//! options, and records the reason.

use dlbridge::{CopyReason, Device, Tensor, TensorRef};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::copies;
use dlbridge_pyo3::import::{validated, with_claim};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::Imported;
use dlbridge_pyo3::order::Order;
use dlbridge_pyo3::protocol::TypeInfo;
use dlbridge_pyo3::stream::{DataStream, has_streams};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::device_copy::{copied, is_possible};
use crate::memory::normalized;
use crate::stream::Streams;

/// A tensor as its producer exported it.
pub(super) struct Received<'py> {
    pub(super) imported: Imported,
    /// The storage of the producer's memory, if it can be replaced.
    pub(super) storage: Option<Bound<'py, PyAny>>,
}

impl<'py> Received<'py> {
    /// Checks the states of the producer that its protocols do not report, and the producer's own mark of a copy.
    pub(super) fn validate(
        self,
        object: &Bound<'py, PyAny>,
        type_info: &TypeInfo,
        options: &ImportOptions,
    ) -> PyResult<Valid> {
        let Self { imported, storage } = self;
        let unmarked = imported.reason.is_none();
        Valid(validated(object, type_info, storage, imported)?).unless_copied(unmarked, options)
    }
}

/// A tensor whose elements are the values of its producer.
pub(super) struct Valid(Imported);

impl Valid {
    /// A tensor of memory that was read in place, with all checks.
    #[inline]
    pub(super) fn of(imported: Imported) -> Self {
        Self(imported)
    }

    pub(super) fn imported(&self) -> &Imported {
        &self.0
    }

    /// A tensor that its producer exported, with the producer's own mark of a copy.
    pub(super) fn claimed(imported: Imported, options: &ImportOptions) -> PyResult<Self> {
        let unmarked = imported.reason.is_none();
        Self(with_claim(imported)).unless_copied(unmarked, options)
    }

    /// Refuses a copy that only the producer's mark shows, if `copy=False`.
    fn unless_copied(self, unmarked: bool, options: &ImportOptions) -> PyResult<Self> {
        match unmarked && self.0.reason.is_some() && options.copy == Some(false) {
            true => Err(PyBufferError::new_err(
                "the producer made a copy, and copy=False forbids it; leave copy=False out",
            )),
            false => Ok(self),
        }
    }

    /// Copies the tensor to the requested device, and makes it meet the options there.
    pub(super) fn satisfy<'py>(
        self,
        object: &Bound<'py, PyAny>,
        options: &ImportOptions,
        streams: Streams<'_, 'py>,
    ) -> PyResult<Imported> {
        let imported = match options.device.is_some() || options.copy == Some(true) {
            true => moved(object, self.0, options, streams)?,
            false => self.0,
        };
        Self(imported).settle(options)
    }

    /// Makes a tensor that stays on its device meet the options. Without options it moves the tensor once.
    #[inline]
    pub(super) fn settle(self, options: &ImportOptions) -> PyResult<Imported> {
        settle(options, self.0)
    }
}

/// Makes a tensor meet the options on its device, and records why its elements were copied: the first reason counts.
#[inline]
pub(crate) fn settle(options: &ImportOptions, imported: Imported) -> PyResult<Imported> {
    let is_met =
        options.device.is_none() && ImportOptions { protocol: None, ..*options }.is_plain();
    if is_met { Ok(imported) } else { satisfied(imported, options) }
}

fn satisfied(mut imported: Imported, options: &ImportOptions) -> PyResult<Imported> {
    let (read_only, is_copy) = (imported.is_read_only(), imported.reason.is_some());
    if let Some((tensor, reason)) = copy_of(options, &imported.tensor, read_only, is_copy)? {
        imported.tensor = tensor;
        imported.reason = imported.reason.or(Some(reason));
    }
    if options.writable == Some(false) {
        imported.tensor = imported.tensor.into_read_only();
    }
    Ok(imported)
}

/// Copies an imported tensor to the requested device, or on its own, if the CUDA driver can; otherwise returns it
/// unchanged.
fn moved<'py>(
    object: &Bound<'py, PyAny>,
    imported: Imported,
    options: &ImportOptions,
    streams: Streams<'_, 'py>,
) -> PyResult<Imported> {
    let found = imported.tensor.device();
    let to = options.device.unwrap_or(found);
    let copied_here = options.copy == Some(true) && imported.reason.is_none();
    let reason = match to == found {
        true if copied_here => CopyReason::Requested,
        true => return Ok(imported),
        false => CopyReason::Device,
    };
    if !is_possible(found, to) || options.copy == Some(false) {
        return Ok(imported);
    }
    // The producer has already synchronised its data with the stream `passed`.
    let on = if to == Device::CPU { found } else { to };
    let passed = match has_streams(found) {
        true => streams.on_source(found, options)?,
        false => DataStream::Unsynchronized,
    };
    let source = imported.tensor.into_shared();
    let tensor = copied(object.py(), &source, &passed, to, &streams.on(on)?)?;
    let (tensor, _) = normalized(tensor, None)?;
    Ok(Imported { tensor, reason: Some(reason), ..imported })
}

/// Why a tensor must be copied to meet the options; `None` if it meets them.
fn needed_copy(
    options: &ImportOptions,
    tensor: &Tensor,
    read_only: bool,
) -> PyResult<Option<CopyReason>> {
    let found = tensor.device();
    if let Some(wanted) = options.device.filter(|&device| device != found) {
        if wanted == Device::CPU && found.device_type().is_host_accessible() {
            return Ok(Some(CopyReason::Device));
        }
        return Err(PyBufferError::new_err(format!(
            "the data is on {found} and cannot be imported on {wanted}; move it first"
        )));
    }
    if !options.order.fits(&TensorRef::from(tensor)) {
        return Ok(Some(match options.order {
            Order::Fortran => CopyReason::NotFortranContiguous,
            _ => CopyReason::NotContiguous,
        }));
    }
    let address = tensor.data().addr();
    if let Some(required) = options.align.filter(|&required| !address.is_multiple_of(required)) {
        return Ok(Some(CopyReason::Misaligned { address, required }));
    }
    Ok((options.writable == Some(true) && read_only).then_some(CopyReason::ReadOnly))
}

/// A copy of the tensor that meets the options; `None` if the tensor meets them already.
pub(crate) fn copy_of(
    options: &ImportOptions,
    tensor: &Tensor,
    read_only: bool,
    already_copied: bool,
) -> PyResult<Option<(Tensor, CopyReason)>> {
    let needed = needed_copy(options, tensor, read_only)?;
    if let (Some(reason), Some(false)) = (needed, options.copy) {
        return Err(PyBufferError::new_err(format!(
            "a copy would be needed, since {reason}, and copy=False forbids it; leave copy=False out, \
             or pass a tensor that meets the options"
        )));
    }
    // A copy is not copied again, unless it must be in another order and the CPU can do that.
    let in_order = options.order != Order::Strided
        || tensor.is_c_contiguous()
        || !tensor.device().device_type().is_host_accessible();
    let done = already_copied && in_order;
    let requested = options.copy == Some(true) && !done;
    let Some(reason) = needed.or(requested.then_some(CopyReason::Requested)) else {
        return Ok(None);
    };
    let _reading = Guard::for_copy(tensor)?;
    let source = TensorRef::from(tensor);
    let alignment = options.align.unwrap_or(1);
    let copy = match options.order {
        Order::Fortran => copies::copied(&source.transpose(), alignment)?.transpose(),
        _ => copies::copied(&source, alignment)?,
    };
    Ok(Some((copy, reason)))
}
