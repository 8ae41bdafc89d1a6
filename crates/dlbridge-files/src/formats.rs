//! The formats of files: which one a file has, by its first bytes.

use std::io::{BufReader, Read, Seek, SeekFrom};

use crate::index::Index;
use crate::{Fault, gguf, npy, safetensors};
#[cfg(feature = "npz")]
use crate::{checkpoint, npz};

// The names of the formats, for messages.
pub(crate) const SAFETENSORS: &str = "safetensors";
pub(crate) const NPY: &str = "npy";
pub(crate) const NPZ: &str = "npz";
pub(crate) const GGUF: &str = "GGUF";

/// The number of bytes that tell every format from the others.
const START: u64 = 32;

/// The first bytes of the files of PyTorch before 1.6, which are pickles that begin with a number, in lower case.
const LEGACY: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cf\xf9 j\xa8p\x19.";

/// Reads the index of a file of `len` bytes, whatever its format.
///
/// It reads no data, and allocates no more memory than a small multiple of what it has read.
pub(crate) fn index<R: Read + Seek>(file: &mut R, len: u64) -> Result<Index, Fault> {
    let mut start = Vec::new();
    file.take(START).read_to_end(&mut start)?;
    file.seek(SeekFrom::Start(0))?;
    let begins = |magic: &[u8]| start.starts_with(magic);
    if begins(npy::MAGIC) {
        return npy::index(file, len);
    }
    #[cfg(feature = "npz")]
    if begins(npz::MEMBER) || begins(npz::NO_MEMBER) {
        let archive = npz::open(file, len)?;
        return match checkpoint::folder(&archive) {
            Some(folder) => checkpoint::index(archive, len, &folder),
            None => npz::index(archive, len),
        };
    }
    if begins(gguf::MAGIC) || begins(gguf::SWAPPED_MAGIC) {
        // The metadata is many small values; the other formats ask for a few ranges.
        return gguf::index(&mut BufReader::new(file), len);
    }
    // Last, because any eight bytes may be the length of its header.
    if start.get(8) == Some(&b'{') {
        return safetensors::index(file, len);
    }
    let reason = "the first bytes are not those of a safetensors, npy, npz, GGUF or PyTorch file, or of an index of shards";
    Err(not_downloaded(&start).unwrap_or(Fault::Unknown { reason }))
}

/// The fault of a file that a failed download left, by its first bytes.
pub(crate) fn not_downloaded(start: &[u8]) -> Option<Fault> {
    let is_empty = start.is_empty();
    let start = start.trim_ascii_start().to_ascii_lowercase();
    let reason = if is_empty {
        "the file is empty"
    } else if start.starts_with(b"version https://git-lfs") {
        "it is a pointer of Git LFS, not the file itself; get that with `git lfs pull`"
    } else if start.starts_with(b"<!doctype") || start.starts_with(b"<html") {
        "it is an HTML page, perhaps of a login or an error; download the file again"
    } else if start.starts_with(LEGACY) {
        "it is of PyTorch before 1.6; load it with torch.load, and save it again"
    } else {
        return None;
    };
    Some(Fault::Unknown { reason })
}

/// A fault of a file of a format.
pub(crate) fn invalid(format: &'static str, reason: impl Into<String>) -> Fault {
    Fault::Format { format, reason: reason.into() }
}

/// A fault of a valid file of a format.
pub(crate) fn unsupported(format: &'static str, reason: impl Into<String>) -> Fault {
    Fault::Unsupported { format, reason: reason.into() }
}
