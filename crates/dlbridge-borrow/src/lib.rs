//! A registry of borrowed tensor memory: any number of readers of a byte, or one writer.
//!
//! Rust's compiler proves that mutable borrows do not overlap where it sees the owner. Any code may
//! reach memory that came from Python, so this registry checks when the program runs: before a caller
//! creates a view, it borrows the view's bytes here. The registry refuses if another view conflicts.
//!
//! ```
//! use dlbridge_borrow::{Mode, Region, Registry};
//!
//! let registry = Registry::new();
//! let numbers = Region::new(0x1000, 8, &[10], &[8]);
//! let first = registry.acquire(numbers.clone(), Mode::Read, "a").unwrap();
//! let second = registry.acquire(numbers.clone(), Mode::Read, "b").unwrap();
//! assert!(registry.acquire(numbers.clone(), Mode::Write, "c").is_err());
//! registry.release(first);
//! registry.release(second);
//! assert!(registry.acquire(numbers.clone(), Mode::Write, "c").is_ok());
//! ```
//!
//! - [`Region`]: the bytes of a strided view, and a test for overlap
//! - [`Registry`]: the current borrows
//! - [`LabelWords`]: a label in the form that a registry stores, to use many times
#![forbid(unsafe_code)]

mod index;
mod label;
mod mode;
mod overlap;
mod readers;
mod region;
mod registry;

pub use label::{Label, LabelWords};
pub use mode::Mode;
pub use region::Region;
pub use registry::{Conflict, Held, Registry, Ticket};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
