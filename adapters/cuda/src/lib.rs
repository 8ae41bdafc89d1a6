//! CUDA memory of [cudarc] 0.19 as tensors, and tensors as CUDA memory, without a copy.
//!
//! ```no_run
//! use cudarc::driver::CudaSlice;
//! use dlbridge_cuda::{SliceExt, TensorExt, context, to_device};
//!
//! let stream = context(0)?.new_stream()?;
//! let slice = stream.clone_htod(&[1.0_f32, 2.0, 3.0, 4.0])?;
//! let tensor = slice.into_tensor([2, 2])?;               // the same memory, for any consumer of DLPack
//! let mut memory = tensor.into_cuda::<f32>(&stream)?;    // the same memory, for a kernel
//! stream.memset_zeros(&mut memory.view_mut()?.slice_mut(..1))?;
//! let tensor = memory.into_tensor();
//! assert_eq!(tensor.to_host(&stream)?.view::<f32>()?.to_vec(), [0.0, 2.0, 3.0, 4.0]); // a copy
//! let slice: CudaSlice<f32> = tensor.try_into_slice().unwrap(); // the original slice
//! let column = to_device(&[[1.0_f32], [2.0]], &stream)?; // a copy
//! # drop((slice, column));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **This crate has been tested only on a stand-in for the driver that uses host memory, and not on a GPU.**
//!
//! | | |
//! | --- | --- |
//! | [`SliceExt`] | memory of cudarc into tensors: device, managed, pinned |
//! | [`BorrowExt`], [`BorrowMutExt`] | slices and views as borrowed tensors, during a call |
//! | [`TensorExt`] | tensors as memory of cudarc, copies to the host or to another device |
//! | [`CudaTensor`] | a tensor in use as memory of cudarc |
//! | [`to_device`] | copies a host tensor to a device |
//! | [`context`], [`device_of`], [`is_present`] | work without a driver, where cudarc panics: an error or `false` |
//!
//! # Fields of the tensors
//!
//! - The **data** pointer is the device address. The tensor owns the slice itself, and
//!   [`TensorExt::try_into_slice`] returns it whole.
//! - The driver reports the **device** of the address: `cuda` or `cuda_managed` with the number of the device, or
//!   `cuda_host` with the number 0, which the CPU can read.
//! - The tensor is **exclusive**, because nothing else refers to a slice that was moved. A foreign shared tensor may be
//!   written, [except in managed memory](CudaTensor::view_mut); a read-only tensor may not.
//! - cudarc has **no strides**. Only a tensor in C order can become memory of cudarc. [`TensorExt::to_host`] and
//!   [`TensorExt::copy_to`] accept any strides.
//! - The **context** must be the primary context of the device, which all other libraries use. Others are refused.
//!
//! The crate trusts a foreign tensor: its memory must stay valid, as described, until its deleter runs.
//!
//! # Stream order
//!
//! A tensor does not name a stream. A CUDA tensor is synchronised with the *legacy default stream* of its device, which
//! `stream=None` in the DLPack protocol means: work queued on that stream runs after pending writes to the tensor.
//!
//! - [`into_tensor`](SliceExt::into_tensor) makes the default stream wait for pending work on the slice, on every
//!   stream of its context whose use cudarc has recorded.
//! - [`into_cuda`](TensorExt::into_cuda) makes its `stream` argument wait for the default stream.
//! - When a [`CudaTensor`] is dropped or becomes a tensor again, the default stream waits for the work on it. The
//!   producer's deleter runs only after that.
//! - When a tensor that owns a slice is dropped, the slice's stream waits for the default stream, and then frees the
//!   memory.
//! - Copies run on the stream that the caller names, with the same synchronisation. [`to_device`] and
//!   [`to_host`](TensorExt::to_host) return after the copy.
//!
//! The host waits only in those two copies, and where it reads or frees pinned or managed memory. The `..._on`
//! functions use another stream than the default one, on which producer and consumer have agreed.
//!
//! A tensor may be dropped on any thread; the drop restores the thread's current context. An error in a drop is stored
//! in the `CudaContext` of the memory for the next call, as in cudarc's own drops. If a stream cannot be made to wait,
//! the host waits. If the host cannot wait either, the memory is neither freed nor returned to its producer.
//!
//! The program must take care of three cases:
//!
//! - **Several `CudaContext` objects.** cudarc does not record uses on streams of a `CudaContext` other than the
//!   memory's, even if both objects belong to one device. Only the stream passed to `..._on` may belong to another
//!   object.
//! - **No records**, after `disable_event_tracking`.
//! - **Copies from the elements of pinned memory.** `memcpy_htod` takes a Rust slice, and returns before the copy ends
//!   if the memory is pinned; cudarc's own `PinnedHostSlice::as_slice` has the same problem. Dropping a tensor that
//!   owns a `PinnedHostSlice`, or converting it back, waits for all pending work of its context. Nothing waits before
//!   elements are *written*, for copies on *other devices*, or for *another producer's* pinned memory: the program must
//!   synchronise the stream in these cases.
//!
//! # Without CUDA
//!
//! The crate opens the driver's library on first use. Without it cudarc panics, and [`context`] and [`device_of`]
//! return [`Error::NoDriver`]. Functions that need a stream cannot be called then.
//!
//! # Features
//!
//! - `cuda-11040` (default): builds cudarc for CUDA 11.4, its oldest version. cudarc supports one version per build. To
//!   use another, turn this feature off and name the version on cudarc. Prefer the version of your driver, because
//!   cudarc does not know errors that are newer than its version.

mod borrow;
mod copy;
mod cuda_tensor;
mod driver;
mod error;
mod order;
mod owner;
mod slice;
mod tensor;

pub use borrow::{BorrowExt, BorrowMutExt};
pub use copy::to_device;
pub use cuda_tensor::CudaTensor;
pub use driver::{context, device_of, is_present};
pub use error::{Error, Result};
pub use slice::SliceExt;
pub use tensor::TensorExt;

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
