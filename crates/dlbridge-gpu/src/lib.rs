//! The drivers of CUDA and ROCm for tensors: events between streams, copies, and memory that is released when a stream has passed.
//!
//! The libraries of the drivers are opened when they are first needed. Every function makes the device current on the thread and
//! restores the previous one, also if the driver fails. Before a call that would spoil the capture of a graph it checks for a capture.
//!
//! A stream is its handle as a number. 0 is the default stream of a device; on CUDA 1 is the legacy one and 2 that of each thread.
//!
//! | | |
//! | --- | --- |
//! | `driver` | the functions of a driver |
//! | `entered` | the device that a thread works on |
//! | `stream` | the promise that a stream lives |
//! | `event` | order between streams, and captures |
//! | `release` | memory that is released when a stream has passed |
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
