//! Validate: the elements are the values of the object, and their memory stays. The file of each protocol checks the layout
//! of a tensor, where it reads the producer's description. Satisfy: copies a tensor that does not meet the caller's
//! options, and records the reason.

use dlbridge::{CopyReason, Device, Tensor, TensorRef};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::import_options::{ImportOptions, Order};
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::stream::{DataStream, has_streams};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::device::{Streams, copied, is_possible};
use crate::memory::normalized;

/// Refuses a copy that the producer's mark shows, if `copy=False`. The protocols refuse those that they know.
pub(super) fn unless_copied(imported: Imported, options: &ImportOptions) -> PyResult<Imported> {
    match imported.reason.is_some() && options.copy == Some(false) {
        true => Err(PyBufferError::new_err(
            "the producer made a copy, and copy=False forbids it; leave copy=False out",
        )),
        false => Ok(imported),
    }
}

/// Copies a tensor to the requested device, and makes it meet the options there.
pub(super) fn satisfy<'py>(
    object: &Bound<'py, PyAny>,
    imported: Imported,
    options: &ImportOptions,
    streams: Streams<'_, 'py>,
) -> PyResult<Imported> {
    match options.device.is_some() || options.copy == Some(true) {
        true => settle(options, moved(object, imported, options, streams)?),
        false => settle(options, imported),
    }
}

/// Makes a tensor meet the options on its device, and records why its elements were copied: the first reason counts.
#[inline(always)]
pub(crate) fn settle(options: &ImportOptions, imported: Imported) -> PyResult<Imported> {
    let is_met =
        options.device.is_none() && ImportOptions { protocol: None, ..*options }.is_plain();
    if is_met { Ok(imported) } else { satisfied(imported, options) }
}

fn satisfied(mut imported: Imported, options: &ImportOptions) -> PyResult<Imported> {
    if options.assume_writable {
        imported.protocol = assume_writable(imported.protocol, &imported.tensor)?;
    }
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

/// The protocol of a tensor whose memory may be written, as the caller says. Refuses memory that its producer marks.
pub(crate) fn assume_writable(protocol: Protocol, tensor: &Tensor) -> PyResult<Protocol> {
    match (tensor.is_read_only(), protocol) {
        (true, _) => Err(PyBufferError::new_err(
            "the data is marked as read-only, and assume_writable=True is for producers that cannot mark theirs; pass \
             writable=True, which copies it",
        )),
        (false, Protocol::LegacyDlpack) => Ok(Protocol::AssumedWritable),
        (false, protocol) => Ok(protocol),
    }
}

/// Copies an imported tensor to the requested device, or on its own, if the CUDA driver can; otherwise returns it
/// unchanged.
fn moved<'py>(
    object: &Bound<'py, PyAny>,
    imported: Imported,
    options: &ImportOptions,
    streams: Streams<'_, 'py>,
) -> PyResult<Imported> {
    let (found, is_copy) = (imported.tensor.device(), imported.reason.is_some());
    let Some((to, reason)) = driver_copy(options, found, is_copy) else { return Ok(imported) };
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

/// The device to which the CUDA driver must copy a tensor to meet the options, and why; `None` if it need not or cannot.
pub(crate) fn driver_copy(
    options: &ImportOptions,
    found: Device,
    is_copy: bool,
) -> Option<(Device, CopyReason)> {
    let to = options.device.unwrap_or(found);
    let reason = match to == found {
        true if options.copy == Some(true) && !is_copy => CopyReason::Requested,
        true => return None,
        false => CopyReason::Device,
    };
    (is_possible(found, to) && options.copy != Some(false)).then_some((to, reason))
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
