//! Names of borrows.

use std::fmt;

/// The name of a borrow in messages: the beginning of a text.
///
/// ```
/// let label = dlbridge_borrow::Label::new("numpy.ndarray");
/// assert_eq!(label.to_string(), "numpy.ndarray");
/// ```
#[derive(Clone, Copy)]
pub struct Label {
    text: [u8; Self::MAX],
    len: u8,
}

impl Label {
    /// The longest label, in bytes.
    ///
    /// ```
    /// let long = "x".repeat(100);
    /// assert_eq!(dlbridge_borrow::Label::new(&long).as_str().len(), dlbridge_borrow::Label::MAX);
    /// ```
    pub const MAX: usize = 63;

    /// Returns the beginning of a text, at most [`MAX`](Self::MAX) bytes. A text that is not UTF-8 is shown as empty.
    ///
    /// ```
    /// assert_eq!(dlbridge_borrow::Label::new("torch.Tensor").as_str(), "torch.Tensor");
    /// ```
    pub fn new(text: impl AsRef<[u8]>) -> Self {
        let (mut label, text) = (Self::EMPTY, text.as_ref());
        label.set(text);
        label
    }

    pub(crate) const EMPTY: Self = Self { text: [0; Self::MAX], len: 0 };

    pub(crate) fn set(&mut self, text: &[u8]) {
        let text = Self::fitting(text);
        self.text[..text.len()].copy_from_slice(text);
        self.len = text.len() as u8;
    }

    /// Returns the beginning of a text that fits into a label.
    #[inline]
    fn fitting(text: &[u8]) -> &[u8] {
        let mut len = text.len().min(Self::MAX);
        // Do not cut a character.
        while text.get(len).is_some_and(|byte| byte & 0xC0 == 0x80) {
            len = len.saturating_sub(1);
        }
        &text[..len]
    }

    /// The text.
    ///
    /// ```
    /// assert_eq!(dlbridge_borrow::Label::new("").as_str(), "");
    /// ```
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.text[..usize::from(self.len)]).unwrap_or_default()
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

pub(crate) const WORD: usize = size_of::<usize>();
pub(crate) const WORDS: usize = Label::MAX.div_ceil(WORD);

/// The words of a [`Label`], in the form that a registry stores. Keep them if you borrow often.
///
/// ```
/// use dlbridge_borrow::{LabelWords, Mode, Region, Registry};
///
/// let registry = Registry::new();
/// let _reader = registry.read(0x1000, 8, &LabelWords::new("a matrix")).unwrap();
/// let conflict = registry.acquire(Region::bytes(0x1000, 8), Mode::Write, "").unwrap_err();
/// assert_eq!(conflict.label.as_str(), "a matrix");
/// ```
#[derive(Clone, Debug)]
pub struct LabelWords {
    pub(crate) words: [usize; WORDS],
    /// The number of words that hold bytes of the text.
    pub(crate) used: usize,
    /// The length of the text in bytes.
    pub(crate) len: usize,
}

impl LabelWords {
    /// Returns the words of the beginning of a text, at most [`Label::MAX`] bytes.
    ///
    /// ```
    /// let words = dlbridge_borrow::LabelWords::new("numpy.ndarray");
    /// # assert!(dlbridge_borrow::Registry::new().read(0, 1, &words).is_some());
    /// ```
    #[inline]
    pub fn new(text: impl AsRef<[u8]>) -> Self {
        let text = Label::fitting(text.as_ref());
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(text.chunks(WORD)) {
            // By shifts: the processor waits when it reads a word that was written byte by byte.
            *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | usize::from(byte));
        }
        Self { words, used: text.len().div_ceil(WORD), len: text.len() }
    }

    /// As [`new`](Self::new), in a constant.
    ///
    /// # Panics
    /// If the text is longer than [`Label::MAX`] bytes.
    ///
    /// ```
    /// use dlbridge_borrow::{LabelWords, Registry};
    ///
    /// const WORDS: LabelWords = LabelWords::from_static("tensor that is copied");
    /// # assert!(Registry::new().read(0, 1, &WORDS).is_some());
    /// ```
    #[must_use]
    pub const fn from_static(text: &'static str) -> Self {
        let (bytes, mut words, mut nth) = (text.as_bytes(), [0; WORDS], 0);
        assert!(bytes.len() <= Label::MAX, "the label is too long");
        while nth < bytes.len() {
            words[nth / WORD] |= (bytes[nth] as usize) << (8 * (nth % WORD));
            nth += 1;
        }
        Self { words, used: bytes.len().div_ceil(WORD), len: bytes.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_words_in_a_constant_are_those_of_new() {
        const LONGEST: &str = "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-123456789";
        assert_eq!(LONGEST.len(), Label::MAX);
        for text in ["", "a", "tensor", "of eight", "tensor that is copied", "é", LONGEST] {
            let (found, expected) = (LabelWords::from_static(text), LabelWords::new(text));
            assert_eq!(found.words, expected.words, "{text}");
            assert_eq!((found.used, found.len), (expected.used, expected.len), "{text}");
        }
    }
}
