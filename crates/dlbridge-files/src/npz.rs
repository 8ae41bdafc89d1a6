//! The format npz: a zip archive of npy files.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};

use flate2::{Decompress, FlushDecompress, Status};
use zip::read::{ArchiveOffset, Config, ZipFileEntry};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::format::{Format, NPZ as NAME, invalid, unsupported};
use crate::npy::{self, MAX_HEADER};
use crate::{Entry, Fault, Index, Place};

/// NumPy's format [npz](https://numpy.org/doc/stable/reference/generated/numpy.savez.html): a zip archive of npy files.
///
/// Members that end in `.npy` are tensors, named without that suffix; other members are ignored. A member is stored or
/// deflated, as `numpy.savez` and `numpy.savez_compressed` write them. Encrypted members and other methods of
/// compression are refused, and two members of one name. Members of a dtype that no tensor has, such as text, are refused when
/// they are asked for, unless all are. The checksums of members are not compared.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlbridge_files::{Format, Npz};
///
/// // The end of an archive without members.
/// let file = [&b"PK\x05\x06"[..], &[0; 18]].concat();
/// let index = Npz.index(&mut std::io::Cursor::new(&file), file.len() as u64)?;
/// assert!(index.tensors.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Npz;

/// The end of the names of members that are tensors.
const SUFFIX: &str = ".npy";

/// The first bytes of the header of a member.
const MEMBER: &[u8] = b"PK\x03\x04";

/// The first bytes of an archive without members.
const NO_MEMBER: &[u8] = b"PK\x05\x06";

/// The number of bytes of a member's header before its name.
const MEMBER_LEN: u64 = 30;

/// One read covers the headers of a member: that of zip, with its name, and that of npy.
const READ: usize = 1024;

/// The largest number of bytes that one byte of a deflated stream stands for: two bits repeat 258 bytes.
const MAX_RATIO: u64 = 1032;

/// The largest number of bytes of all arrays' headers together, as a multiple of the file's. A list can name the same
/// bytes many times, and a header can inflate to a thousand times its bytes.
const MAX_HEADERS: u64 = 4;

impl Format for Npz {
    fn name(&self) -> &'static str {
        NAME
    }

    fn matches(&self, start: &[u8]) -> bool {
        start.starts_with(MEMBER) || start.starts_with(NO_MEMBER)
    }

    fn index<R: Read + Seek>(&self, file: &mut R, len: u64) -> Result<Index, Fault> {
        index(open(file, len, NAME)?, len)
    }
}

/// The index of an archive.
pub(crate) fn index(archive: Zip<impl Read + Seek>, len: u64) -> Result<Index, Fault> {
    let members = archive.metadata();
    let file = archive.into_inner().into_inner();
    let mut index = Index::default();
    let mut archive = Archive {
        file: BufReader::with_capacity(READ, file),
        len,
        inflater: Decompress::new(false),
        headers: 0,
    };
    for nth in 0..members.len() {
        let member = members.entry(nth).map_err(|error| fault(error, len, NAME))?;
        let name = member.name().map_err(|error| fault(error, len, NAME))?;
        let Some(name) = name.strip_suffix(SUFFIX) else { continue };
        let entry = archive.entry(&member);
        index.add(NAME, name.to_owned(), entry).map_err(|fault| of_member(name, fault))?;
        check_headers(archive.headers, len)?;
    }
    if index.tensors.is_empty() && index.refused.is_empty() && !members.is_empty() {
        return Err(unsupported(
            NAME,
            "none of its members is an .npy file, or the data.pkl of torch.save",
        ));
    }
    if index.tensors.is_empty()
        && let Some((name, reason)) = index.refused.first_key_value()
    {
        return Err(of_member(name, unsupported(NAME, reason.as_str())));
    }
    Ok(index)
}

/// Checks the number of bytes of all headers together.
fn check_headers(headers: u64, len: u64) -> Result<(), Fault> {
    if headers > len.saturating_mul(MAX_HEADERS).saturating_add(MAX_HEADER) {
        let reason =
            format!("the headers of its arrays have more than {MAX_HEADERS} times its {len} bytes");
        return Err(invalid(NAME, reason));
    }
    Ok(())
}

/// An archive of any format.
pub(crate) type Zip<R> = ZipArchive<BufReader<R>>;

/// Reads the list of members at the end of an archive.
pub(crate) fn open<R: Read + Seek>(
    file: R,
    len: u64,
    format: &'static str,
) -> Result<Zip<R>, Fault> {
    // The archive begins with the file, so that no search for its begin reads the whole file.
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let archive = ZipArchive::with_config(config, BufReader::new(file));
    let archive = archive.map_err(|error| fault(error, len, format))?;
    if archive.has_duplicate_names() {
        return Err(invalid(format, "two members have the same name"));
    }
    Ok(archive)
}

/// An archive whose members are read one after the other.
struct Archive<R> {
    file: BufReader<R>,
    len: u64,
    inflater: Decompress,
    /// The bytes of all arrays' headers that were read.
    headers: u64,
}

/// Counts the bytes that are read.
struct Counted<'a, R> {
    inner: R,
    count: &'a mut u64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(bytes)?;
        *self.count += read as u64;
        Ok(read)
    }
}

impl<R: Read + Seek> Archive<R> {
    /// Reads the headers of a member.
    fn entry(&mut self, member: &ZipFileEntry<'_>) -> Result<Entry, Fault> {
        if member.encrypted() {
            return Err(unsupported(NAME, "it is encrypted"));
        }
        let begin = self.go_to_data(member.header_start())?;
        let (stored, size) = (member.compressed_size(), member.size());
        if begin.checked_add(stored).is_none_or(|end| end > self.len) {
            let reason = format!(
                "it has {stored} bytes from byte {begin} on, and the file has {} bytes",
                self.len
            );
            return Err(invalid(NAME, reason));
        }
        let mut stream = self.file.by_ref().take(stored);
        let method = member.compression();
        if method == CompressionMethod::STORE {
            if stored != size {
                let reason = format!("it has {stored} bytes, and {size} when read");
                return Err(invalid(NAME, reason));
            }
            let mut stream = Counted { inner: &mut stream, count: &mut self.headers };
            let (entry, header) = npy::entry(&mut stream, size)?;
            let place = Place::Stored { offset: begin + header };
            return Ok(Entry { place, ..entry });
        }
        if method != CompressionMethod::DEFLATE {
            return Err(unsupported(
                NAME,
                format!(
                    "it is compressed by {}, and only deflated members can be read",
                    method_name(method)
                ),
            ));
        }
        if size > stored.saturating_mul(MAX_RATIO) {
            let reason = format!("its {stored} bytes cannot inflate to {size} bytes");
            return Err(invalid(NAME, reason));
        }
        let inflated = Inflated::new(stream, &mut self.inflater);
        let mut inflated = Counted { inner: inflated, count: &mut self.headers };
        let (entry, skip) = npy::entry(&mut inflated, size)?;
        let place = Place::Deflated { offset: begin, len: stored, skip };
        Ok(Entry { place, ..entry })
    }

    /// Reads the header of a member, and returns the first byte of its data, at which the file then is.
    fn go_to_data(&mut self, header: u64) -> Result<u64, Fault> {
        let none = || invalid(NAME, format!("no header of a member is at byte {header}"));
        if header.checked_add(MEMBER_LEN).is_none_or(|end| end > self.len) {
            return Err(none());
        }
        let mut bytes = [0; MEMBER_LEN as usize];
        self.file.seek(SeekFrom::Start(header))?;
        self.file.read_exact(&mut bytes)?;
        if !bytes.starts_with(MEMBER) {
            return Err(none());
        }
        // The lengths of the name and of the extra fields, which can differ from those in the list of members.
        let [.., name0, name1, extra0, extra1] = bytes;
        let skip = u64::from(u16::from_le_bytes([name0, name1]))
            + u64::from(u16::from_le_bytes([extra0, extra1]));
        self.file.seek_relative(skip as i64)?;
        Ok(header + MEMBER_LEN + skip)
    }
}

/// A fault of an archive of `len` bytes.
pub(crate) fn fault(error: ZipError, len: u64, format: &'static str) -> Fault {
    let damaged = |reason: String| {
        let advice = "if it is incomplete, download it again";
        let reason = format!(
            "the list of members at its end is damaged or missing{reason}; it has {len} bytes; {advice}"
        );
        invalid(format, reason)
    };
    match error {
        ZipError::Io(error) => match error.kind() {
            // Of positions in the list of members that the file does not have.
            ErrorKind::UnexpectedEof | ErrorKind::InvalidInput => damaged(String::new()),
            _ => Fault::Io(error),
        },
        ZipError::InvalidArchive(reason) => damaged(format!(" ({reason})")),
        error => unsupported(format, error.to_string()),
    }
}

/// A fault, with the member that has it.
fn of_member(name: &str, fault: Fault) -> Fault {
    let reason = |reason| format!("member {name:?}: {reason}");
    match fault {
        Fault::Format { reason: text, .. } => invalid(NAME, reason(text)),
        Fault::Unsupported { reason: text, .. } => unsupported(NAME, reason(text)),
        other => other,
    }
}

/// The name of a method of compression, for messages.
fn method_name(method: CompressionMethod) -> String {
    let names = [
        (CompressionMethod::DEFLATE64, "Deflate64"),
        (CompressionMethod::BZIP2, "bzip2"),
        (CompressionMethod::LZMA, "LZMA"),
        (CompressionMethod::ZSTD, "Zstandard"),
        (CompressionMethod::XZ, "XZ"),
    ];
    let name = names.iter().find(|(known, _)| *known == method);
    name.map_or_else(|| format!("an unknown method, {method:?}"), |(_, name)| (*name).to_owned())
}

/// The largest number of deflated bytes that are inflated at once. The inflater works as far ahead as its input allows,
/// and only the header is read.
const STEP: usize = 16;

/// Inflates a stream with a given inflater: a new one for each member would take longer than their headers.
struct Inflated<'a, B> {
    stream: B,
    inflater: &'a mut Decompress,
}

impl<'a, B: BufRead> Inflated<'a, B> {
    fn new(stream: B, inflater: &'a mut Decompress) -> Self {
        inflater.reset(false);
        Self { stream, inflater }
    }
}

impl<B: BufRead> Read for Inflated<'_, B> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let input = self.stream.fill_buf()?;
            let input = &input[..input.len().min(STEP)];
            let (read, written) = (self.inflater.total_in(), self.inflater.total_out());
            let status =
                self.inflater.decompress(input, bytes, FlushDecompress::None).map_err(|_| {
                    io::Error::new(io::ErrorKind::InvalidData, "the deflated bytes are damaged")
                })?;
            let read = (self.inflater.total_in() - read) as usize;
            let written = (self.inflater.total_out() - written) as usize;
            self.stream.consume(read);
            if written > 0 || read == 0 || status == Status::StreamEnd {
                return Ok(written);
            }
        }
    }
}
