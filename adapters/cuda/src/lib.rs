//! Memory of CUDA as tensors, and tensors as memory of CUDA, without a copy, for [cudarc] 0.19.
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
//! let slice: CudaSlice<f32> = tensor.try_into_slice().unwrap(); // the very slice
//! let column = to_device(&[[1.0_f32], [2.0]], &stream)?; // a copy
//! # drop((slice, column));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **This crate has been run on a stand-in for the driver alone, over memory of the host, and not on a GPU.**
//!
//! | | |
//! | --- | --- |
//! | [`SliceExt`] | memory of cudarc into tensors: of the device, managed, pinned |
//! | [`LendExt`], [`LendMutExt`] | slices and views as borrowed tensors, for the length of a call |
//! | [`TensorExt`] | tensors as memory of cudarc, copied to the host, or to another device |
//! | [`CudaTensor`] | a tensor in use as memory of cudarc |
//! | [`to_device`] | a tensor of the host copied to a device |
//! | [`context`], [`device_of`], [`is_present`] | what panics with cudarc where there is no driver |
//!
//! # What such a tensor says
//!
//! - Its **data** is the address. The owner is the slice itself, which comes back whole:
//!   [`TensorExt::try_into_slice`].
//! - Its **device** is what the driver says of the address: `cuda` or `cuda_managed` and the number of the device, or
//!   `cuda_host`, which the CPU can read, and whose number is 0.
//! - It is **exclusive**, since a slice that was moved has no other holder. A foreign tensor that is shared may be written all
//!   the same, [but for managed memory](CudaTensor::view_mut); one that is read-only may not.
//! - cudarc has **no strides**. A tensor that is not in C order cannot be memory of cudarc; [`TensorExt::to_host`] and
//!   [`TensorExt::copy_to`] take any.
//! - The **context** is the primary one of the device, which is that of all other libraries. Others are refused.
//!
//! A foreign tensor is believed: that there is memory as it says, until its deleter runs.
//!
//! # Order
//!
//! A tensor has no stream. One that is on CUDA is *in the order of the legacy default stream* of its device, as `stream=None` of
//! DLPack's protocol means it:
//!
//! - [`into_tensor`](SliceExt::into_tensor) makes the default stream wait for what is under way with the slice, on whatever streams
//!   of its context cudarc has noted it.
//! - [`into_cuda`](TensorExt::into_cuda) makes the stream that it is given wait for the default stream.
//! - When a [`CudaTensor`] goes, or is a tensor again, the default stream waits for what was done with it; only then the
//!   producer's deleter runs.
//! - When a tensor goes that owns a slice, the slice's stream waits for the default stream, and frees the memory after that.
//! - Copies are made on the stream that is named, in the same order. [`to_device`] and
//!   [`to_host`](TensorExt::to_host) are done when they return.
//!
//! The host waits for nothing in all this but where it reads or frees what it can reach, which is pinned and managed memory, and
//! in those two copies. `..._on` names another stream than the default one, where two parties agree on it.
//!
//! A drop may happen on any thread, and leaves it the context that it had. What goes wrong there waits in the `CudaContext` of the
//! memory for the next call, as with cudarc's own drops. Where a stream cannot be made to wait, the host does. Where
//! the host cannot wait either, memory is not freed, nor given back to its producer.
//!
//! Three things are the program's:
//!
//! - **Another object.** cudarc does not note uses on streams of another `CudaContext` than the memory's, also if both
//!   objects are of one device. The order stream alone may be of another object.
//! - **No notes**, where `disable_event_tracking` was called.
//! - **Copies from the elements of pinned memory.** `memcpy_htod` takes a slice of Rust, and returns before it is
//!   copied if the memory is pinned; cudarc has that with its own `PinnedHostSlice::as_slice`, too. The end of a tensor that
//!   owns a `PinnedHostSlice` waits for all that is under way in its context, and so does its return. Nothing waits
//!   before elements are *written*, for copies on *other devices*, nor with *another producer's* pinned memory: there the
//!   program synchronises the stream.
//!
//! # Without CUDA
//!
//! The library is opened when it is first used. Where there is none, cudarc panics, and [`context`] and [`device_of`] return
//! [`Error::NoDriver`]; what needs a stream cannot be called.
//!
//! # Features
//!
//! - `cuda-11040` (default): cudarc is built for CUDA 11.4, the oldest version it has. It takes no more than one, so who wants
//!   another turns this one off and names that on cudarc itself: best the version of the driver, since cudarc knows no
//!   errors that are newer than its version.

mod copy;
mod cuda_tensor;
mod driver;
mod error;
mod lend;
mod order;
mod owner;
mod slice;
mod staging;
mod tensor;

pub use copy::to_device;
pub use cuda_tensor::CudaTensor;
pub use driver::{context, device_of, is_present};
pub use error::{Error, Result};
pub use lend::{LendExt, LendMutExt};
pub use slice::SliceExt;
pub use tensor::TensorExt;

/// Keeps the extension traits closed, so that they can grow.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
