//! Names of borrows.

use std::fmt;

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
