//! What the C program in `main.c` does with its tensors: Rust takes them over, reads them, frees
//! them.
//!
//! A function that takes a managed tensor owns it from then on, whatever it returns: on an error too
//! the deleter has run. Errors are text in the caller's buffer.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::thread;

use dlbridge::sys::{DLManagedTensor, DLManagedTensorVersioned};
use dlbridge::{Result, Tensor};

/// Adds up a float32 tensor of any shape and strides.
fn sum(tensor: &Tensor) -> Result<f64> {
    Ok(tensor.view::<f32>()?.iter().copied().map(f64::from).sum())
}

/// Writes a result into the caller's memory: 0 and the number, or 1 and the text.
///
/// # Safety
/// `out` is valid for a write, `message` for `size` bytes, if that is not 0.
unsafe fn answer(result: Result<f64>, out: *mut f64, message: *mut c_char, size: usize) -> c_int {
    match result {
        Ok(number) => {
            // SAFETY: by contract.
            unsafe { out.write(number) };
            0
        }
        Err(error) => {
            let text = error.to_string();
            if let Some(room) = size.checked_sub(1) {
                let len = text.len().min(room);
                // SAFETY: by contract, with room for the terminating zero.
                unsafe {
                    ptr::copy_nonoverlapping(text.as_ptr().cast(), message, len);
                    message.add(len).write(0);
                }
            }
            1
        }
    }
}

/// Takes a tensor over, adds up its float32 elements, and frees it.
///
/// # Safety
/// `managed` is NULL or the caller's to give, and keeps the specification. `out` is valid for a
/// write, `message` for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn take_and_sum(
    managed: *mut DLManagedTensorVersioned,
    out: *mut f64,
    message: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: by contract; nobody writes the data meanwhile.
    let result = unsafe { Tensor::from_raw(managed) }.and_then(|tensor| sum(&tensor));
    // SAFETY: by contract.
    unsafe { answer(result, out, message, size) }
}

/// The same for a managed tensor of the legacy ABI.
///
/// # Safety
/// Those of [`take_and_sum`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn take_and_sum_legacy(
    managed: *mut DLManagedTensor,
    out: *mut f64,
    message: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: by contract; nobody writes the data meanwhile.
    let result = unsafe { Tensor::from_raw_legacy(managed) }.and_then(|tensor| sum(&tensor));
    // SAFETY: by contract.
    unsafe { answer(result, out, message, size) }
}

/// Takes a tensor over to keep it; NULL if it cannot be. [`free_on_a_thread`] frees it.
///
/// # Safety
/// `managed` is NULL or the caller's to give, and keeps the specification.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keep(managed: *mut DLManagedTensorVersioned) -> *mut Tensor {
    // SAFETY: by contract.
    let tensor = unsafe { Tensor::from_raw(managed) };
    tensor.map_or(ptr::null_mut(), |tensor| Box::into_raw(Box::new(tensor)))
}

/// Frees a kept tensor on a thread of Rust's, and waits for it. Returns 0 if that was done.
///
/// # Safety
/// `tensor` came out of [`keep`], is not NULL, and is freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_on_a_thread(tensor: *mut Tensor) -> c_int {
    // SAFETY: by contract `keep` made it of a box.
    let tensor = unsafe { Box::from_raw(tensor) };
    c_int::from(thread::spawn(move || drop(tensor)).join().is_err())
}
