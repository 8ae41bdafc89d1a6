//! The format [GGUF](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) of ggml and llama.cpp, versions 2 and 3: a
//! header with metadata, the descriptions of tensors, and their data.

mod blocks;
mod reader;
mod types;

use std::io::Read;

use crate::formats::{GGUF as NAME, invalid, unsupported};
use crate::index::Index;
use crate::{Entry, Fault, Place, Value};
pub(crate) use blocks::dequantized;
use reader::Reader;

/// The first bytes of a file.
pub(crate) const MAGIC: &[u8; 4] = b"GGUF";

/// The first bytes of some files in big-endian order.
pub(crate) const SWAPPED_MAGIC: &[u8; 4] = b"FUGG";

/// The key of the alignment of data.
const ALIGNMENT: &str = "general.alignment";

/// The alignment of data in a file without that key.
const DEFAULT_ALIGNMENT: u64 = 32;

/// The largest number of dimensions of ggml's tensors.
const MAX_DIMENSIONS: u32 = 4;

/// The smallest number of bytes of an entry of metadata, and of the description of a tensor.
const MIN_ENTRY: (u64, u64) = (14, 24);

/// The index of a file of `len` bytes.
///
/// Shapes are in C order, so the extents of the file are reversed. Text of the metadata that is not UTF-8 has U+FFFD in
/// place of the damaged characters.
pub(crate) fn index(file: &mut impl Read, len: u64) -> Result<Index, Fault> {
    let mut reader = Reader::new(file, len);
    check_version(&mut reader)?;
    let (tensors, entries) = (reader.u64()?, reader.u64()?);
    let mut index = Index::default();
    let least = u128::from(entries) * u128::from(MIN_ENTRY.0)
        + u128::from(tensors) * u128::from(MIN_ENTRY.1);
    if least > reader.remaining().into() {
        let reason = format!(
            "{entries} entries of metadata and {tensors} tensors exceed the {} bytes that follow",
            reader.remaining()
        );
        return Err(invalid(NAME, reason));
    }
    for nth in 0..entries {
        let key = reader.name(|| format!("the key {nth} of the metadata"))?;
        let kind = reader.u32()?;
        let value = reader.value(&key, kind)?;
        if index.metadata.contains_key(&key) {
            return Err(invalid(NAME, format!("the metadata has the key {key:?} twice")));
        }
        index.metadata.insert(key, value);
    }
    for nth in 0..tensors {
        let name = reader.name(|| format!("the name of the tensor {nth}"))?;
        let entry = description(&mut reader, &name);
        // A type that is newer than this crate hides only its own tensors, not the metadata.
        index.add(NAME, name, entry)?;
    }
    let alignment = alignment(&index)?;
    place(&mut index, alignment, reader.position().next_multiple_of(alignment), len)?;
    Ok(index)
}

/// Reads the first bytes and the version.
fn check_version(reader: &mut Reader<impl Read>) -> Result<(), Fault> {
    let magic: [u8; 4] = reader.bytes()?;
    let version = reader.u32()?;
    let is_swapped = magic == *SWAPPED_MAGIC || (version & 0xffff == 0 && version != 0);
    match version {
        _ if is_swapped => Err(unsupported(
            NAME,
            "it is in big-endian order; convert it with gguf_convert_endian.py of llama.cpp",
        )),
        2 | 3 => Ok(()),
        _ => {
            Err(unsupported(NAME, format!("its version is {version}, and only 2 and 3 are known")))
        }
    }
}

/// Reads the description of a tensor. Its place is relative to the start of the data.
fn description(reader: &mut Reader<impl Read>, name: &str) -> Result<Entry, Fault> {
    let ndim = reader.u32()?;
    if ndim > MAX_DIMENSIONS {
        let reason = format!(
            "tensor {name:?} has {ndim} dimensions, and at most {MAX_DIMENSIONS} are allowed"
        );
        return Err(invalid(NAME, reason));
    }
    let mut shape = Vec::with_capacity(ndim as usize);
    for _ in 0..ndim {
        let extent = reader.u64()?;
        shape.push(usize::try_from(extent).map_err(|_| types::too_large(name))?);
    }
    shape.reverse();
    let number = reader.u32()?;
    let offset = reader.u64()?;
    types::entry(name, number, shape, offset)
}

/// The alignment of data, which is of a type with 32 bits.
fn alignment(index: &Index) -> Result<u64, Fault> {
    let found = match index.metadata.get(ALIGNMENT) {
        None => return Ok(DEFAULT_ALIGNMENT),
        Some(&Value::Uint(alignment)) => {
            if alignment.is_power_of_two() && (8..=u32::MAX.into()).contains(&alignment) {
                return Ok(alignment);
            }
            alignment.to_string()
        }
        Some(_) => "of another type".into(),
    };
    let reason = format!(
        "{ALIGNMENT} is {found}, and must be a power of two from 8 to 2^31, of type uint32"
    );
    Err(invalid(NAME, reason))
}

/// Places the tensors in a file of `len` bytes, whose data begins at byte `begin`, and checks that they are apart.
fn place(index: &mut Index, alignment: u64, begin: u64, len: u64) -> Result<(), Fault> {
    let mut ranges = Vec::with_capacity(index.tensors.len());
    for (nth, (name, entry)) in index.tensors.iter_mut().enumerate() {
        let Place::Stored { offset: relative } = entry.place else { continue };
        if !relative.is_multiple_of(alignment) {
            let reason = format!(
                "tensor {name:?} is at byte {relative} of the data, which is not a multiple of {alignment}"
            );
            return Err(invalid(NAME, reason));
        }
        let nbytes = entry.nbytes().ok_or_else(|| types::too_large(name))?;
        let offset = begin.saturating_add(relative);
        if nbytes == 0 {
            // The file may end before the padding that would follow.
            entry.place = Place::Stored { offset: offset.min(len) };
            continue;
        }
        let end = offset.saturating_add(nbytes);
        if end > len {
            let reason =
                format!("tensor {name:?} ends at byte {end}, and the file has {len} bytes");
            return Err(invalid(NAME, reason));
        }
        entry.place = Place::Stored { offset };
        ranges.push((offset, end, nth));
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let [(_, end, first), (offset, _, second)] = *pair else { continue };
        if offset < end {
            let name = |nth| index.tensors.get_index(nth).map_or("", |(name, _)| name);
            let reason = format!("tensors {:?} and {:?} overlap", name(first), name(second));
            return Err(invalid(NAME, reason));
        }
    }
    Ok(())
}
