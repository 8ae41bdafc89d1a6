//! Reads the bytes of a file, of memory or of a reader from any position, so that threads can do so at once, and inflates
//! them.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{process, thread};

use dlbridge::{Tensor, TensorRef, TensorRefMut};

/// The bytes of a file.
pub(crate) enum Bytes {
    #[cfg_attr(not(any(unix, windows)), expect(dead_code, reason = "others read it by `Reader`"))]
    File(File),
    /// A vector of bytes.
    Memory(Tensor),
    Reader(Turns),
}

/// A reader, which one thread at a time moves and reads.
pub(crate) struct Turns {
    reader: Mutex<Box<dyn ReadSeek>>,
    /// The thread that reads, by its process and its number in it; 0 for none.
    turn: AtomicU64,
}

/// How long a thread waits before it looks whether the other one has read.
const PAUSE: Duration = Duration::from_micros(50);

impl Turns {
    pub(crate) fn new(reader: impl ReadSeek + 'static) -> Self {
        Self { reader: Mutex::new(Box::new(reader)), turn: AtomicU64::new(0) }
    }

    /// Reads some bytes when it is this thread's turn.
    ///
    /// A thread that waits sees whose turn it is: its own, if `read` of the reader asks for a tensor, or that of a
    /// thread of another process, which a fork did not copy, never ends.
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        let process = u64::from(process::id()) << 32;
        let me = process | u64::from(NUMBER.with(|number| *number));
        while let Err(other) =
            self.turn.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        {
            if other == me {
                return Err(io::Error::other(
                    "the reader asks for a tensor of the file that it reads",
                ));
            }
            if other >> 32 != process >> 32 {
                let reason =
                    "another thread was reading when this process was forked; load the file again";
                return Err(io::Error::other(reason));
            }
            thread::sleep(PAUSE);
        }
        let _end = End(&self.turn);
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.seek(SeekFrom::Start(position))?;
        reader.read(bytes)
    }
}

/// The number of the last thread that has read.
static THREADS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static NUMBER: u32 = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// Ends the turn of a thread, also after a panic.
struct End<'a>(&'a AtomicU64);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
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
            Self::Reader(reader) => reader.read_at(bytes, position),
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
        if read == 0 && !bytes.is_empty() && self.position < self.len {
            let reason = format!("the file ended at byte {} of {}", self.position, self.len);
            return Err(io::Error::other(reason));
        }
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
