//! The format of a file, by its first bytes.

use std::io::{Read, Seek, SeekFrom};

#[cfg(feature = "npz")]
use crate::Npz;
use crate::{Fault, Format, Gguf, Index, Npy, Safetensors};

/// The number of bytes that tell every format from the others.
const START: u64 = 16;

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
        return Npz.index(file, len);
    }
    if Gguf.matches(&start) {
        return Gguf.index(file, len);
    }
    // Last, because any eight bytes may be the length of its header.
    if Safetensors.matches(&start) {
        return Safetensors.index(file, len);
    }
    Err(Fault::Unknown)
}
