//! A registry of borrowed tensor memory: any number of readers of a byte, or one writer.
//!
//! Rust's compiler proves that mutable borrows do not overlap where it sees the owner. Any code may
//! reach memory that came from Python, so this registry checks when the program runs: before a caller
//! creates a view, it borrows the view's bytes here. The registry refuses if another view conflicts.
//!
//! ```
//! use dlbridge_borrow::{Label, Mode, Region, Registry};
//!
//! let registry = Registry::new();
//! let numbers = Region::new(0x1000, 8, [(10, 8)]);
//! let first = registry.acquire(numbers.clone(), Mode::Read, &Label::new(b"a")).unwrap();
//! let second = registry.acquire(numbers.clone(), Mode::Read, &Label::new(b"b")).unwrap();
//! assert!(registry.acquire(numbers.clone(), Mode::Write, &Label::new(b"c")).is_err());
//! registry.release(first);
//! registry.release(second);
//! assert!(registry.acquire(numbers.clone(), Mode::Write, &Label::new(b"c")).is_ok());
//! ```
//!
//! - [`Region`]: the bytes of a strided view, and a test for overlap
//! - [`Registry`]: the current borrows
//! - [`Label`]: the name of a borrow
#![forbid(unsafe_code)]

mod index;
mod label;
#[cfg(all(loom, test))]
mod loom_tests;
mod overlap;
mod readers;
mod region;
mod registry;

pub use label::{Label, Mode};
pub use region::Region;
pub use registry::{Conflict, Held, Registry};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
