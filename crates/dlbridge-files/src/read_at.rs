//! Reads the bytes of a file, of memory or of a reader from any position, so that threads can do so at once, and inflates
//! them.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::sync::{Mutex, PoisonError};

use dlbridge::{Tensor, TensorRef, TensorRefMut};

/// The bytes of a file.
pub(crate) enum Bytes {
    #[cfg_attr(not(any(unix, windows)), expect(dead_code, reason = "others read it by `Reader`"))]
    File(File),
    /// A vector of bytes.
    Memory(Tensor),
    /// One thread at a time moves its position and reads.
    Reader(Mutex<Box<dyn ReadSeek>>),
}

/// A reader at any position.
pub(crate) trait ReadSeek: Read + Seek + Send {}

impl<R: Read + Seek + Send> ReadSeek for R {}

impl Bytes {
    /// Reads some bytes, not past the end.
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        match self {
            #[cfg(unix)]
            Self::File(file) => std::os::unix::fs::FileExt::read_at(file, bytes, position),
            #[cfg(windows)]
            Self::File(file) => std::os::windows::fs::FileExt::seek_read(file, bytes, position),
            #[cfg(not(any(unix, windows)))]
            Self::File(_) => unreachable!("a file is a reader"),
            // A copy, because a reference would exclude writes by other code.
            Self::Memory(all) => {
                let begin = usize::try_from(position).unwrap_or(usize::MAX).min(all.len());
                let len = bytes.len().min(all.len() - begin);
                let found = TensorRef::from(all).slice(0, begin..begin + len);
                found
                    .and_then(|found| TensorRefMut::from(&mut bytes[..len]).copy_from(&found))
                    .map_err(io::Error::other)?;
                Ok(len)
            }
            Self::Reader(reader) => {
                let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                reader.seek(SeekFrom::Start(position))?;
                reader.read(bytes)
            }
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bytes")
    }
}

/// A reader at a position of its own.
pub(crate) struct At<'a> {
    bytes: &'a Bytes,
    position: u64,
    len: u64,
}

impl<'a> At<'a> {
    pub(crate) fn new(bytes: &'a Bytes, position: u64, len: u64) -> Self {
        Self { bytes, position, len }
    }
}

impl Read for At<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read_at(bytes, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for At<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
        };
        self.position = position.ok_or(ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// Inflates a stream, skips some of its bytes, and fills a slice with those that follow.
#[cfg(feature = "npz")]
pub(crate) fn read_inflated(stream: impl Read, skip: u64, bytes: &mut [u8]) -> io::Result<()> {
    let mut inflated = flate2::read::DeflateDecoder::new(stream);
    io::copy(&mut inflated.by_ref().take(skip), &mut io::sink())?;
    inflated.read_exact(bytes)
}

/// Without the feature `npz` no format has deflated bytes.
#[cfg(not(feature = "npz"))]
pub(crate) fn read_inflated(_: impl Read, _: u64, _: &mut [u8]) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}
