//! The CUDA device and the stream of a call, from XLA's functions.

use std::mem::offset_of;
use std::ptr;

use super::buffers::failed;
use super::frame::{
    Api, CallFrame, DestroyArguments, Known, OrdinalArguments, StreamArguments, XlaError,
};
use crate::error::{Error, ErrorKind, Result};
use crate::on_cuda::OnCuda;

/// A function of XLA, or `None` if the release does not have it.
macro_rules! function {
    ($frame:ident, $field:ident) => {
        // SAFETY: the functions begin with their size.
        match unsafe { Api::knows($frame.api, offset_of!(Api, $field) + size_of::<usize>()) } {
            // SAFETY: `knows` found the functions to have this field.
            true => unsafe { (*$frame.api).$field },
            false => None,
        }
    };
}

/// The device and the stream of a call on CUDA.
///
/// # Safety
/// The frame is XLA's for a call that is under way, and its functions have all fields up to `create_error`.
pub(super) unsafe fn cuda(frame: &CallFrame) -> Result<OnCuda<'_>> {
    let context = frame.context;
    let mut stream = StreamArguments {
        struct_size: StreamArguments::NEEDED,
        extension: ptr::null_mut(),
        context,
        stream: ptr::null_mut(),
    };
    let mut ordinal = OrdinalArguments {
        struct_size: OrdinalArguments::NEEDED,
        extension: ptr::null_mut(),
        context,
        ordinal: 0,
    };
    let get = function!(frame, get_stream).ok_or_else(|| missing("XLA_FFI_Stream_Get"))?;
    // SAFETY: the function takes the struct of its interface, with the context of this call.
    unsafe { succeeded(frame, get(&raw mut stream), "stream") }?;
    let get = function!(frame, get_ordinal).ok_or_else(|| missing("XLA_FFI_DeviceOrdinal_Get"))?;
    // SAFETY: the function takes the struct of its interface, with the context of this call.
    unsafe { succeeded(frame, get(&raw mut ordinal), "device") }?;
    Ok(OnCuda::new(ordinal.ordinal, stream.stream))
}

fn missing(function: &str) -> Error {
    let message = format!(
        "XLA has no function {function}, which operators on CUDA need; install a newer jaxlib"
    );
    Error::of(ErrorKind::Missing, message)
}

/// Turns an error of XLA into one of the call.
///
/// # Safety
/// The contract of [`cuda`]; the error is NULL, or one that XLA made for this call.
unsafe fn succeeded(frame: &CallFrame, error: *mut XlaError, what: &str) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    if let Some(destroy) = function!(frame, destroy_error) {
        let mut arguments = DestroyArguments {
            struct_size: DestroyArguments::NEEDED,
            extension: ptr::null_mut(),
            error,
        };
        // SAFETY: the caller guarantees that XLA made the error, which is not used afterwards.
        unsafe { destroy(&raw mut arguments) };
    }
    Err(failed(format_args!(
        "XLA has no CUDA {what} for this call; register the operator for the platform CUDA"
    )))
}
