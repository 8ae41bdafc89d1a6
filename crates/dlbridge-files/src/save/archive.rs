//! An archive of npy files that is written member by member.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::header::ALIGNMENT;
use crate::Fault;

/// The archive, in a file that does not have its name yet.
pub(super) struct Archive(ZipWriter<Target>);

/// The file of an archive. After a failed write it accepts everything: a dropped `ZipWriter` tries to end its archive, and
/// would print that it cannot.
struct Target {
    file: File,
    has_failed: bool,
    position: u64,
    end: u64,
}

impl Archive {
    pub(super) fn new(file: File) -> Self {
        Self(ZipWriter::new(Target { file, has_failed: false, position: 0, end: 0 }))
    }

    /// Begins the member of a tensor, whose data follows its header.
    pub(super) fn begin(&mut self, name: &str, header: &[u8]) -> Result<(), Fault> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .with_alignment(ALIGNMENT as u16)
            .large_file(true);
        self.0.start_file(format!("{name}.npy"), options).map_err(of_system)?;
        Ok(self.0.write_all(header)?)
    }

    pub(super) fn finish(self) -> Result<File, Fault> {
        let target = self.0.finish().map_err(of_system)?;
        Ok(target.file)
    }
}

impl Write for Archive {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Archive")
    }
}

impl Target {
    fn attempt<T>(
        &mut self,
        done: T,
        work: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.has_failed {
            return Ok(done);
        }
        let result = work(&mut self.file);
        self.has_failed =
            result.as_ref().is_err_and(|error| error.kind() != ErrorKind::Interrupted);
        result
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.attempt(bytes.len(), |file| file.write(bytes))?;
        self.position += written as u64;
        self.end = self.end.max(self.position);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt((), File::flush)
    }
}

impl Seek for Target {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        let position = match place {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(step) => self.position.checked_add_signed(step),
            SeekFrom::End(step) => self.end.checked_add_signed(step),
        };
        let position = position.ok_or(ErrorKind::InvalidInput)?;
        self.position = self.attempt(position, |file| file.seek(SeekFrom::Start(position)))?;
        Ok(position)
    }
}

/// The error of the system behind one of the archive, with its number.
fn of_system(error: ZipError) -> io::Error {
    match error {
        ZipError::Io(error) => error,
        error => error.into(),
    }
}
