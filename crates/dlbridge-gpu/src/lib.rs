//! The drivers of CUDA and ROCm for tensors: events between streams, copies, and memory that is released after a
//! stream's work.
//!
//! The crate opens the drivers' libraries when it first needs them. Every function makes the device current on the
//! thread and restores the previous one, also if the driver fails. Before a call that would spoil the capture of a
//! graph it checks for a capture.
//!
//! A stream is a number: its handle. 0 is the default stream of a device. On CUDA, 1 is the legacy default stream and 2
//! that of each thread.
//!
//! | | |
//! | --- | --- |
//! | `driver` | the functions of a driver |
//! | `entered` | the current device of a thread |
//! | `stream` | the promise that a stream lives |
//! | `event` | order between streams, and captures |
//! | `release` | memory that is released when a stream's pending work is done |
//! | `staging` | pinned memory between the CPU and a device |
//! | `copy` | copies |

mod copy;
mod driver;
mod entered;
mod event;
mod release;
mod staging;
mod stream;

pub use copy::{Place, copied};
pub use driver::{Driver, Failure, Result, StreamHandle};
pub use event::{order, wait};
pub use release::after_stream;

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
