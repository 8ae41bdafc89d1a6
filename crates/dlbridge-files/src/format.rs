//! The formats of files, under one trait.

use std::io::{Read, Seek};

use crate::{Fault, Index};

// The names of the formats, for messages.
pub(crate) const SAFETENSORS: &str = "safetensors";
pub(crate) const NPY: &str = "npy";
pub(crate) const NPZ: &str = "npz";
pub(crate) const GGUF: &str = "GGUF";

/// A format of files with tensors: finds the tensors in a file.
///
/// [`TensorFile`](crate::TensorFile) opens a file of any of them; implement the trait to add another, and open its
/// files with [`TensorFile::read_as`](crate::TensorFile::read_as).
///
/// ```
/// use std::io::{Read, Seek};
///
/// use dlbridge::DataType;
/// use dlbridge_files::{Entry, Fault, Format, Index};
///
/// /// A file of bytes without a header.
/// struct Raw;
///
/// impl Format for Raw {
///     fn name(&self) -> &'static str {
///         "raw"
///     }
///
///     fn matches(&self, _start: &[u8]) -> bool {
///         true
///     }
///
///     fn index<R: Read + Seek>(&self, _file: &mut R, len: u64) -> Result<Index, Fault> {
///         let mut index = Index::default();
///         let bytes = Entry::stored(DataType::UINT8, vec![len as usize], 0);
///         index.tensors.insert("bytes".into(), bytes);
///         Ok(index)
///     }
/// }
/// assert!(Raw.matches(b"any"));
/// ```
pub trait Format {
    /// The name of the format, for messages.
    fn name(&self) -> &'static str;

    /// Returns true for the first bytes of a file of this format; 16, or the whole file if it is shorter.
    fn matches(&self, start: &[u8]) -> bool;

    /// Reads the index of a file of `len` bytes. It reads no data, and allocates no more memory than a small multiple
    /// of what it has read.
    ///
    /// # Errors
    /// [`Fault::Format`] if the file breaks the format; [`Fault::Unsupported`] if it has something that no tensor can
    /// hold; [`Fault::Io`].
    fn index<R: Read + Seek>(&self, file: &mut R, len: u64) -> Result<Index, Fault>
    where
        Self: Sized;
}

/// A fault of a file of a format.
pub(crate) fn invalid(format: &'static str, reason: impl Into<String>) -> Fault {
    Fault::Format { format, reason: reason.into() }
}

/// A fault of a valid file of a format.
pub(crate) fn unsupported(format: &'static str, reason: impl Into<String>) -> Fault {
    Fault::Unsupported { format, reason: reason.into() }
}
