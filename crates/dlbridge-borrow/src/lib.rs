//! A registry of borrowed tensor memory: any number of readers of a byte, or one writer.
//!
//! Rust's compiler proves that mutable borrows do not overlap where it sees the owner. Memory that
//! came from Python may be reached from anywhere, so the proof is made when the program runs: whoever is
//! about to hand out a view says which bytes it covers, and is refused if somebody else's view is in
//! the way.
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
//! - [`Region`]: which bytes a strided view covers, and whether two of them share one
//! - [`Registry`]: the borrows of this moment
//! - [`LabelWords`]: a label that is stored often
#![forbid(unsafe_code)]

mod label;
mod overlap;
mod readers;
mod region;
mod registry;

pub use label::{Label, LabelWords};
pub use region::Region;
pub use registry::{Conflict, Held, Mode, Registry, Ticket};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
