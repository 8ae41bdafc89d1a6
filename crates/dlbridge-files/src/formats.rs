//! The format of a file, by its first bytes.

use std::io::{Read, Seek, SeekFrom};

use crate::{Fault, Format, Gguf, Index, Npy, Safetensors};
#[cfg(feature = "npz")]
use crate::{Npz, checkpoint, npz};

/// The number of bytes that tell every format from the others.
const START: u64 = 32;

/// The first bytes of the files of PyTorch before 1.6, which are pickles that begin with a number, in lower case.
const LEGACY: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cf\xf9 j\xa8p\x19.";

/// Reads the index of a file of `len` bytes, whatever its format.
pub(crate) fn index<R: Read + Seek>(file: &mut R, len: u64) -> Result<Index, Fault> {
    let mut start = Vec::new();
    file.take(START).read_to_end(&mut start)?;
    file.seek(SeekFrom::Start(0))?;
    if Npy.matches(&start) {
        return Npy.index(file, len);
    }
    #[cfg(feature = "npz")]
    if Npz.matches(&start) {
        let archive = npz::open(file, len, "zip")?;
        return match checkpoint::folder(&archive) {
            Some(folder) => checkpoint::index(archive, len, &folder),
            None => npz::index(archive, len),
        };
    }
    if Gguf.matches(&start) {
        return Gguf.index(file, len);
    }
    // Last, because any eight bytes may be the length of its header.
    if Safetensors.matches(&start) {
        return Safetensors.index(file, len);
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
