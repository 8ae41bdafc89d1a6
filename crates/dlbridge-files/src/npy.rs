//! NumPy's format [npy](https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), versions 1.0 to 3.0: a header
//! in Python's notation, and the elements of one array.

mod header;

pub(crate) use header::DTYPES;

use std::io::{self, Read};

use crate::formats::{NPY as NAME, invalid, unsupported};
use crate::index::Index;
use crate::index::packed;
use crate::{Entry, Fault, Place};

/// The first bytes of a file.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header that is read, in bytes. NumPy itself reads no more than 10 000 of a file that is not trusted.
pub(crate) const MAX_HEADER: u64 = 1 << 20;

/// The index of a file of `len` bytes: one array, whose name is the empty string. Bytes after the elements are ignored, as
/// NumPy does.
pub(crate) fn index(file: &mut impl Read, len: u64) -> Result<Index, Fault> {
    let mut index = Index { is_single: true, ..Index::default() };
    index.tensors.insert(String::new(), entry(file, len)?.0);
    Ok(index)
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
        io::ErrorKind::InvalidInput => invalid(NAME, error.to_string()),
        _ => Fault::Io(error),
    })
}
