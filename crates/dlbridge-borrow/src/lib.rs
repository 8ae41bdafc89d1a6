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

#[cfg(all(loom, test))]
mod loom_tests;

mod readers;
mod region;
mod registry;

use std::fmt;

pub use region::Region;
pub use registry::{Conflict, Held, Registry};

/// Reading, or reading and writing.
///
/// ```
/// use dlbridge_borrow::Mode;
///
/// assert_ne!(Mode::Read, Mode::Write);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A borrow that reads; others may read too.
    Read,
    /// A borrow that reads and writes; no other borrow may do either.
    Write,
}

/// The name of a borrow in messages: the beginning of a text.
///
/// ```
/// use dlbridge_borrow::Label;
///
/// static LABEL: Label = Label::new(b"numpy.ndarray");
/// assert_eq!(LABEL.to_string(), "numpy.ndarray");
/// ```
#[derive(Clone, Copy)]
pub struct Label {
    pub(crate) text: [u8; Self::MAX],
    pub(crate) len: usize,
}

impl Label {
    /// The longest label, in bytes.
    ///
    /// ```
    /// let long = "x".repeat(100);
    /// assert_eq!(dlbridge_borrow::Label::new(long.as_bytes()).as_str().len(), dlbridge_borrow::Label::MAX);
    /// ```
    pub const MAX: usize = 64;

    /// Returns the beginning of a text, at most [`MAX`](Self::MAX) bytes. A text that is not UTF-8 is shown as empty.
    ///
    /// ```
    /// assert_eq!(dlbridge_borrow::Label::new(b"torch.Tensor").as_str(), "torch.Tensor");
    /// ```
    pub const fn new(text: &[u8]) -> Self {
        let mut len = text.len();
        if len > Self::MAX {
            len = Self::MAX;
            // Do not cut a character.
            while len > 0 && text[len] & 0xC0 == 0x80 {
                len -= 1;
            }
        }
        let mut label = Self { text: [0; Self::MAX], len };
        label.text.split_at_mut(len).0.copy_from_slice(text.split_at(len).0);
        label
    }

    /// The bytes of the text.
    ///
    /// ```
    /// assert_eq!(dlbridge_borrow::Label::new(b"a").as_bytes(), b"a");
    /// ```
    pub fn as_bytes(&self) -> &[u8] {
        // A label that was read while another thread wrote it may be wrong; it is dropped afterwards.
        self.text.get(..self.len).unwrap_or_default()
    }

    /// The text.
    ///
    /// ```
    /// assert_eq!(dlbridge_borrow::Label::new(b"").as_str(), "");
    /// ```
    pub fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
