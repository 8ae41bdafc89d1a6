//! NumPy's format [npz](https://numpy.org/doc/stable/reference/generated/numpy.savez.html): a zip archive of npy files.

use std::io::{BufReader, ErrorKind, Read, Seek};

use flate2::read::DeflateDecoder;
use zip::read::{ArchiveOffset, Config, ZipFile};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::formats::{NPZ as NAME, invalid, unsupported};
use crate::index::Index;
use crate::npy::{self, MAX_HEADER};
use crate::{Entry, Fault, Place};

/// The end of the names of members that are tensors.
const SUFFIX: &str = ".npy";

/// The first bytes of the header of a member.
pub(crate) const MEMBER: &[u8] = b"PK\x03\x04";

/// The first bytes of an archive without members.
pub(crate) const NO_MEMBER: &[u8] = b"PK\x05\x06";

/// One read covers the headers of a member: that of zip, with its name, and that of npy.
const READ: usize = 1024;

/// The largest number of bytes that one byte of a deflated stream stands for: two bits repeat 258 bytes.
const MAX_RATIO: u64 = 1032;

/// The largest number of bytes of all arrays' headers together, as a multiple of the file's. A list can name the same
/// bytes many times, and a header can inflate to a thousand times its bytes.
const MAX_HEADERS: u64 = 4;

/// The index of an archive.
///
/// Members that end in `.npy` are tensors, named without that suffix. Those of a dtype that no tensor has are hidden, unless
/// all are. The checksums of members are not compared.
pub(crate) fn index(mut archive: Zip<impl Read + Seek>, len: u64) -> Result<Index, Fault> {
    let members = archive.metadata();
    let mut index = Index::default();
    let mut headers = 0;
    for nth in 0..members.len() {
        let name = members.entry(nth).and_then(|member| Ok(member.name()?.into_owned()));
        let name = name.map_err(|error| fault(error, len, NAME))?;
        let Some(name) = name.strip_suffix(SUFFIX) else { continue };
        let member = archive.by_index_raw(nth).map_err(|error| fault(error, len, NAME));
        let entry = member.and_then(|member| entry(member, len, &mut headers));
        index.add(NAME, name.to_owned(), entry).map_err(|fault| of_member(name, fault))?;
        if headers > len.saturating_mul(MAX_HEADERS).saturating_add(MAX_HEADER) {
            let reason = format!(
                "the headers of its arrays have more than {MAX_HEADERS} times its {len} bytes"
            );
            return Err(invalid(NAME, reason));
        }
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

/// An archive of any format.
pub(crate) type Zip<R> = ZipArchive<BufReader<R>>;

/// Reads the list of members at the end of an archive.
pub(crate) fn open<R: Read + Seek>(file: R, len: u64) -> Result<Zip<R>, Fault> {
    // The archive begins with the file, so that no search for its begin reads the whole file.
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let archive = ZipArchive::with_config(config, BufReader::with_capacity(READ, file));
    let archive = archive.map_err(|error| fault(error, len, "zip"))?;
    if archive.has_duplicate_names() {
        return Err(invalid("zip", "two members have the same name"));
    }
    Ok(archive)
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

/// Reads the header of a member's array, in an archive of `len` bytes, and counts its bytes.
fn entry(member: ZipFile<'_, impl Read>, len: u64, headers: &mut u64) -> Result<Entry, Fault> {
    if member.encrypted() {
        return Err(unsupported(NAME, "it is encrypted"));
    }
    let (begin, stored, size) =
        (member.data_start().unwrap_or(len), member.compressed_size(), member.size());
    if begin.checked_add(stored).is_none_or(|end| end > len) {
        let reason =
            format!("it has {stored} bytes from byte {begin} on, and the file has {len} bytes");
        return Err(invalid(NAME, reason));
    }
    match member.compression() {
        CompressionMethod::STORE if stored == size => {
            let mut counted = Counted { inner: member, count: headers };
            let (entry, header) = npy::entry(&mut counted, size)?;
            Ok(Entry { place: Place::Stored { offset: begin + header }, ..entry })
        }
        CompressionMethod::STORE => {
            Err(invalid(NAME, format!("it has {stored} bytes, and {size} when read")))
        }
        CompressionMethod::DEFLATE if size > stored.saturating_mul(MAX_RATIO) => {
            Err(invalid(NAME, format!("its {stored} bytes cannot inflate to {size} bytes")))
        }
        CompressionMethod::DEFLATE => {
            let inner = DeflateDecoder::new_with_buf(member, vec![0; STEP]);
            let (entry, skip) = npy::entry(&mut Counted { inner, count: headers }, size)?;
            Ok(Entry { place: Place::Deflated { offset: begin, len: stored, skip }, ..entry })
        }
        method => {
            let method = method_name(method);
            let advice = "only deflated members can be read";
            Err(unsupported(NAME, format!("it is compressed by {method}, and {advice}")))
        }
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
