//! Tensors made in Rust, for the C program in `main.c`.
//!
//! A function that makes a tensor returns a managed tensor, which the caller frees by its deleter.
//! Nothing here can panic, so nothing can cross into C; what could fail would return NULL.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use dlbridge::sys::{DLManagedTensor, DLManagedTensorVersioned, DLTensor};
use dlbridge::{Access, Owner, Tensor, TensorRefMut};

/// How many numbers were freed, so that the C program can see that its deleters did it.
static FREED: AtomicI32 = AtomicI32::new(0);

/// A vector that counts when it goes.
struct Numbers(Vec<f32>);

impl Drop for Numbers {
    fn drop(&mut self) {
        FREED.fetch_add(self.0.len() as i32, Ordering::SeqCst);
    }
}

// SAFETY: forwards to the vector, whose memory stays where it is and is its alone.
unsafe impl Owner for Numbers {
    type Item = f32;
    const ACCESS: Access = Access::Exclusive;

    fn items(&mut self) -> *mut [f32] {
        self.0.items()
    }
}

/// 0, 1, 2, 3, 4, 5 in two rows of three.
fn six() -> Option<Tensor> {
    Tensor::from_parts(Numbers((0..6_u8).map(f32::from).collect()), [2, 3]).ok()
}

/// How many numbers were freed so far.
#[unsafe(no_mangle)]
pub extern "C" fn freed() -> i32 {
    FREED.load(Ordering::SeqCst)
}

/// Two rows of three float32: 0 to 5.
#[unsafe(no_mangle)]
pub extern "C" fn make_rows() -> *mut DLManagedTensorVersioned {
    six().map_or(ptr::null_mut(), Tensor::into_raw)
}

/// The same in a managed tensor of the legacy ABI.
#[unsafe(no_mangle)]
pub extern "C" fn make_rows_legacy() -> *mut DLManagedTensor {
    six().and_then(|tensor| tensor.into_raw_legacy().ok()).unwrap_or(ptr::null_mut())
}

/// Three rows of two, the same memory read by columns, from the last to the first.
#[unsafe(no_mangle)]
pub extern "C" fn make_columns_reversed() -> *mut DLManagedTensorVersioned {
    let reversed = six().and_then(|tensor| tensor.transpose().flip(0).ok());
    reversed.map_or(ptr::null_mut(), Tensor::into_raw)
}

/// Three float32 that must not be written.
#[unsafe(no_mangle)]
pub extern "C" fn make_constants() -> *mut DLManagedTensorVersioned {
    static CONSTANTS: [f32; 3] = [2.5, 3.5, 4.5];
    Tensor::from(&CONSTANTS).into_raw()
}

/// One tensor lent twice, to be freed twice, in any order; the numbers go with the second.
///
/// # Safety
/// `out` has room for two pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lend_twice(out: *mut *mut DLManagedTensorVersioned) {
    let tensor = six().map(Arc::new);
    for nth in 0..2 {
        let lent = tensor.as_ref().map_or(ptr::null_mut(), Tensor::lend);
        // SAFETY: by contract.
        unsafe { out.add(nth).write(lent) };
    }
}

/// Lets a C kernel work on an array of Rust's for the length of the call, and returns what the last
/// of its four numbers is then.
///
/// # Safety
/// The kernel reads and writes the elements of the tensor it is given, and keeps no pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn run_kernel(kernel: unsafe extern "C" fn(*mut DLTensor)) -> f32 {
    let mut numbers = [[1.0_f32, 2.0], [3.0, 4.0]];
    let mut borrowed = TensorRefMut::from(&mut numbers);
    // SAFETY: valid for the length of the call, which by contract writes elements only.
    unsafe { kernel(&mut borrowed.dl_tensor()) };
    numbers[1][1]
}
