//! The format npy: a header in Python's notation, and the elements of one array.

mod header;

use std::io::{self, Read, Seek};

use crate::format::{Format, NPY as NAME, invalid, unsupported};
use crate::index::packed;
use crate::{Entry, Fault, Index, Place};

/// NumPy's format [npy](https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), versions 1.0 to 3.0.
///
/// A file has one array, and no name for it: the tensor's name is the empty string. Python objects, text, dates,
/// structures and numbers wider than C's `double` are refused. Bytes after the elements are ignored, as NumPy does.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlbridge_files::{Format, Npy};
///
/// let header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
/// let len = (header.len() as u16).to_le_bytes();
/// let file = [&b"\x93NUMPY\x01\x00"[..], &len, header, &[0; 8]].concat();
/// let index = Npy.index(&mut std::io::Cursor::new(&file), file.len() as u64)?;
/// assert_eq!(index.tensors[""].shape, [2]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Npy;

/// The first bytes of a file.
const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header that is read, in bytes. NumPy itself reads no more than 10 000 of a file that is not trusted.
pub(crate) const MAX_HEADER: u64 = 1 << 20;

impl Format for Npy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn matches(&self, start: &[u8]) -> bool {
        start.starts_with(MAGIC)
    }

    fn index<R: Read + Seek>(&self, file: &mut R, len: u64) -> Result<Index, Fault> {
        let mut index = Index { is_single: true, ..Index::default() };
        let (entry, _) = entry(file, len)?;
        index.tensors.insert(String::new(), entry);
        Ok(index)
    }
}

/// Reads the header of an array of `len` bytes, and returns its description and the header's length.
pub(crate) fn entry(file: &mut impl Read, len: u64) -> Result<(Entry, u64), Fault> {
    let mut start = [0; 8];
    read(file, &mut start)?;
    if !start.starts_with(MAGIC) {
        return Err(invalid(NAME, "the first bytes are not \\x93NUMPY"));
    }
    let mut length = [0; 4];
    let width = match start[6..] {
        [1, 0] => 2,
        [2 | 3, 0] => 4,
        [major, minor, ..] => {
            let reason =
                format!("its version is {major}.{minor}, and only 1.0, 2.0 and 3.0 are known");
            return Err(unsupported(NAME, reason));
        }
        _ => unreachable!("two bytes"),
    };
    read(file, &mut length[..width])?;
    let header_len = u64::from(u32::from_le_bytes(length));
    let begin = (start.len() + width) as u64 + header_len;
    if header_len > MAX_HEADER {
        let reason =
            format!("the header has {header_len} bytes, and at most {MAX_HEADER} are allowed");
        return Err(invalid(NAME, reason));
    }
    if begin > len {
        let reason = format!("the header ends at byte {begin}, and the file has {len} bytes");
        return Err(invalid(NAME, reason));
    }
    let mut text = vec![0; header_len as usize];
    read(file, &mut text)?;
    let header = header::parse(&text)?;
    let (dtype, is_swapped) = header::dtype(header.descr)?;
    // Up to one dimension both orders are the same.
    let is_fortran = header.is_fortran && header.shape.len() > 1;
    let strides = is_fortran.then(|| packed(header.shape.iter().copied()));
    let entry = Entry { strides, is_swapped, ..Entry::stored(dtype, header.shape, begin) };
    let nbytes = entry.nbytes().ok_or_else(|| {
        invalid(NAME, format!("no memory holds the shape {:?} of {dtype}", entry.shape))
    })?;
    if nbytes > len - begin {
        let reason = format!(
            "the shape {:?} of {dtype} needs {nbytes} bytes, and {} follow the header",
            entry.shape,
            len - begin
        );
        return Err(invalid(NAME, reason));
    }
    debug_assert_eq!(entry.place, Place::Stored { offset: begin });
    Ok((entry, begin))
}

/// Fills bytes of the header.
fn read(file: &mut impl Read, bytes: &mut [u8]) -> Result<(), Fault> {
    file.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => invalid(NAME, "the file ends within the header"),
        // Of a deflated stream.
        io::ErrorKind::InvalidData => invalid(NAME, error.to_string()),
        _ => Fault::Io(error),
    })
}
