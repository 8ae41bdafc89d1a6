//! Request: the protocols that can express data that DLPack cannot.

use dlbridge::Device;
use pyo3::exceptions::{PyBufferError, PyException};
use pyo3::prelude::*;

use super::protocols;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::protocol::left_out::{self, is_left_out};
use crate::protocol::{Lacking, Method, TypeInfo, arrow, dlpack, typestr};
use crate::stream::Streams;

/// Requests data by another protocol if `__dlpack__` refused it because DLPack or the producer cannot express it: the
/// other byte order, strides that are not multiples of the element size, dtypes that NumPy does not know, and Arrow
/// columns that are not plain numbers. Any other refusal is final.
pub(super) fn instead_of_dlpack(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    lacking: Lacking,
    options: &ImportOptions,
    refusal: PyErr,
) -> PyResult<Imported> {
    let py = object.py();
    if !refusal.is_instance_of::<PyException>(py) {
        return Err(refusal);
    }
    // The other protocols cannot import from a device, or to one.
    if matches!(dlpack::is_on_host(object), Ok(false))
        || options.device.is_some_and(|device| device != Device::CPU)
    {
        return Err(refusal);
    }
    if Method::ArrowArray.of(object, lacking)?.is_some() {
        if Protocol::Arrow.missing_feature().is_some() {
            let left_out = left_out::refusal(Protocol::Arrow, object);
            left_out.set_cause(py, Some(refusal));
            return Err(left_out);
        }
        // Arrow's own exceptions are not a BufferError, and do not say what to do.
        return match arrow::import(object, type_info, lacking, options) {
            Ok(imported) => imported.ok_or(refusal),
            Err(error) => {
                error.set_cause(py, Some(refusal));
                Err(error)
            }
        };
    }
    if !refusal.is_instance_of::<PyBufferError>(py) {
        return Err(refusal);
    }
    let mut final_refusal = None;
    for other in [Protocol::ArrayInterface, Protocol::Buffer] {
        match protocols::import(other, object, type_info, lacking, options, &Streams::default()) {
            Ok(Some(imported)) if is_beyond_dlpack(&imported) => return Ok(imported),
            // A protocol that the extension lacks would give the same result.
            Ok(Some(_)) if Protocol::Buffer.missing_feature().is_some() => break,
            Ok(_) => {}
            Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
            // The next protocol may support it.
            Err(error) if is_left_out(&error) && final_refusal.is_none() => {
                final_refusal = Some(error);
            }
            Err(error) => {
                final_refusal = final_refusal.or(Some(error));
                break;
            }
        }
    }
    match final_refusal {
        // This refusal says more than DLPack's.
        Some(error) => {
            if error.is_instance_of::<PyBufferError>(py) {
                error.set_cause(py, Some(refusal));
            }
            Err(error)
        }
        None => Err(refusal),
    }
}

/// Returns true for a tensor that a producer could not have made through NumPy.
fn is_beyond_dlpack(imported: &Imported) -> bool {
    imported.reason.is_some() || typestr::of_dtype(imported.tensor.dtype()).is_none()
}
