//! The options of a caller, satisfied by a copy where the tensor is otherwise.

use std::sync::Arc;

use dlbridge::{Device, DeviceType, Tensor, TensorRef};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::borrow::Guard;
use crate::copies;
use crate::gpu::{self, Driver};
use crate::protocol::dlpack::is_on_device;
use crate::protocol::memory::normalized;
use crate::protocol::moved::copied;
use crate::protocol::stream::has_streams;
use crate::protocol::{DataStream, Imported, Streams};
use crate::receipt::CopyReason;
use crate::wanted::{Order, Wanted};

/// What is asked of a producer instead, which does not give its data where it is wanted: the data where it is.
/// `None` if it would be of no use there.
pub(super) fn wherever_it_is(
    object: &Bound<'_, PyAny>,
    wanted: &Wanted,
    refusal: &PyErr,
) -> Option<Wanted> {
    // The CPU's memory is copied to and on it by others.
    let is_on_device = || is_on_device(object);
    let by_driver = match wanted.device {
        Some(Device::CPU) => is_on_device(),
        Some(device) => has_streams(device),
        None => wanted.copy == Some(true) && is_on_device(),
    };
    let is_final = wanted.copy == Some(false)
        || object.is_instance_of::<PyCapsule>()
        || !refusal.is_instance_of::<PyBufferError>(object.py());
    let has_driver = || Driver::of(DeviceType::CUDA).is_ok();
    (by_driver && !is_final && has_driver()).then_some(Wanted {
        device: None,
        copy: None,
        ..*wanted
    })
}

/// Imports data from where it is: the caller's stream is of the device that it goes to, if that has streams.
pub(super) fn from_source<'py>(
    wanted: &Wanted,
    streams: &Streams<'_, 'py>,
    import: impl FnOnce(&Streams<'_, 'py>) -> PyResult<Option<Imported>>,
) -> PyResult<Option<Imported>> {
    match wanted.device.is_some_and(has_streams) {
        true => import(&Streams::default()),
        false => import(streams),
    }
}

/// Whether the driver of CUDA can make what is wanted of a tensor.
pub(super) fn is_within_reach(tensor: &Tensor, wanted: &Wanted) -> bool {
    let found = tensor.device();
    gpu::is_possible(found, wanted.device.unwrap_or(found))
}

/// Copies what was imported to the device where it is wanted, or on its own, if the driver of CUDA can; what it cannot is
/// left as it is.
pub(super) fn moved<'py>(
    object: &Bound<'py, PyAny>,
    imported: Imported,
    wanted: &Wanted,
    streams: &Streams<'_, 'py>,
) -> PyResult<Imported> {
    let found = imported.tensor.device();
    let to = wanted.device.unwrap_or(found);
    let copied_here = wanted.copy == Some(true) && imported.reason.is_none();
    let reason = match to == found {
        true if copied_here => CopyReason::Requested,
        true => return Ok(imported),
        false => CopyReason::Device,
    };
    if !gpu::is_possible(found, to) || wanted.copy == Some(false) {
        return Ok(imported);
    }
    // The producer has put its data in order with this one already.
    let on = if to == Device::CPU { found } else { to };
    let passed = match has_streams(found) {
        true => streams.on_source(found, wanted)?,
        false => DataStream::Unsynchronized,
    };
    let source = Arc::new(imported.tensor);
    let tensor = copied(object.py(), &source, &passed, to, &streams.on(on)?)?;
    let (tensor, _) = normalized(tensor, None)?;
    Ok(Imported { tensor, reason: Some(reason), ..imported })
}

/// Why a tensor is not as wanted, so that it must be copied.
fn unmet(wanted: &Wanted, tensor: &Tensor, read_only: bool) -> PyResult<Option<CopyReason>> {
    use dlbridge::CopyReason as Core;
    let found = tensor.device();
    if let Some(device) = wanted.device.filter(|&device| device != found) {
        if device != Device::CPU || !found.device_type().is_host_accessible() {
            return Err(PyBufferError::new_err(format!(
                "the data is on {found} and cannot be imported on {device}; move it first"
            )));
        }
        return Ok(Some(CopyReason::Device));
    }
    let address = tensor.data().addr();
    let misaligned = wanted.align.filter(|&required| !address.is_multiple_of(required));
    Ok(match wanted.contiguous {
        Some(Order::C) if !tensor.is_c_contiguous() => Some(CopyReason::Core(Core::NotContiguous)),
        Some(Order::Fortran) if !tensor.is_f_contiguous() => Some(CopyReason::NotFortranContiguous),
        _ if misaligned.is_some() => {
            misaligned.map(|required| CopyReason::Core(Core::Misaligned { address, required }))
        }
        _ if wanted.writable == Some(true) && read_only => Some(CopyReason::Core(Core::ReadOnly)),
        _ => None,
    })
}

/// A copy of the tensor that is as wanted; `None` if the tensor is so already.
pub(crate) fn copy_of(
    wanted: &Wanted,
    tensor: &Tensor,
    read_only: bool,
    already_copied: bool,
) -> PyResult<Option<(Tensor, CopyReason)>> {
    let unmet = unmet(wanted, tensor, read_only)?;
    if let (Some(reason), Some(false)) = (unmet, wanted.copy) {
        return Err(PyBufferError::new_err(format!(
            "a copy would be needed, since {reason}, and copy=False forbids it; leave that out, \
             or give a tensor that is as asked for"
        )));
    }
    // What was copied on its way is not copied again, unless it is in another order and the CPU can do that.
    let in_order = wanted.contiguous.is_some()
        || tensor.is_c_contiguous()
        || !tensor.device().device_type().is_host_accessible();
    let done = already_copied && in_order;
    let requested = wanted.copy == Some(true) && !done;
    let Some(reason) = unmet.or(requested.then_some(CopyReason::Requested)) else {
        return Ok(None);
    };
    let _reading = Guard::reading(tensor, "tensor that is copied")?;
    let source = TensorRef::from(tensor);
    let alignment = wanted.align.unwrap_or(1);
    let copy = match wanted.contiguous {
        Some(Order::Fortran) => copies::copied(&source.transpose(), alignment)?.transpose(),
        _ => copies::copied(&source, alignment)?,
    };
    Ok(Some((copy, reason)))
}

/// Whether a tensor is as wanted as it comes.
fn is_content(wanted: &Wanted) -> bool {
    let Wanted { protocol: _, copy, device, align, contiguous, writable } = wanted;
    copy.is_none()
        && device.is_none()
        && align.is_none()
        && contiguous.is_none()
        && writable.is_none()
}

/// Makes what was imported as wanted.
#[inline]
pub(crate) fn settle(wanted: &Wanted, imported: Imported) -> PyResult<Imported> {
    match is_content(wanted) {
        true => Ok(imported),
        false => settled(wanted, imported),
    }
}

fn settled(wanted: &Wanted, mut imported: Imported) -> PyResult<Imported> {
    let (read_only, copied) = (imported.is_read_only(), imported.reason.is_some());
    if let Some((tensor, reason)) = copy_of(wanted, &imported.tensor, read_only, copied)? {
        imported.tensor = tensor;
        imported.reason.get_or_insert(reason);
    }
    if wanted.writable == Some(false) {
        imported.tensor = imported.tensor.into_read_only();
    }
    Ok(imported)
}
