//! Reads a file from a position of its own, so that threads can read one file at once, and inflates what it reads.

use std::fs::File;
use std::io::{self, Read};

/// A reader at a position in a file.
pub(crate) struct At<'a> {
    file: &'a File,
    position: u64,
}

impl<'a> At<'a> {
    pub(crate) fn new(file: &'a File, position: u64) -> Self {
        Self { file, position }
    }
}

impl Read for At<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(self.file, bytes, self.position)?;
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(self.file, bytes, self.position)?;
        #[cfg(not(any(unix, windows)))]
        let read = read_at(self.file, bytes, self.position)?;
        self.position += read as u64;
        Ok(read)
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
    Err(io::ErrorKind::Unsupported.into())
}

/// Reads at a position where the standard library lacks a function for it, as in WASI: moves the file's own position
/// and reads, which one thread does at a time.
#[cfg(any(test, not(any(unix, windows))))]
fn read_at(mut file: &File, bytes: &mut [u8], position: u64) -> io::Result<usize> {
    use std::io::{Seek, SeekFrom};
    use std::sync::{Mutex, PoisonError};

    static MOVED: Mutex<()> = Mutex::new(());
    let _moved = MOVED.lock().unwrap_or_else(PoisonError::into_inner);
    file.seek(SeekFrom::Start(position))?;
    file.read(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    #[cfg_attr(miri, ignore = "Miri isolates a program from files")]
    fn read_at_moved_position_reads_the_same_bytes() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(b"0123456789").expect("ten bytes are written");
        for position in [0, 7, 3, 9, 10, 11] {
            let (mut moved, mut given) = ([0; 4], [0; 4]);
            let expected = At::new(&file, position).read(&mut given).expect("a read");
            let read = read_at(&file, &mut moved, position).expect("a seek and a read");
            assert_eq!((read, moved), (expected, given), "at {position}");
        }
    }
}
