//! Dtypes, as NumPy writes them: the byte order, the kind and the number of bytes.

use dlbridge::DataType;

use crate::Fault;
use crate::format::{NPY as NAME, invalid, unsupported};

/// The dtypes that tensors have, without the byte order.
const DTYPES: [(&[u8], DataType); 14] = [
    (b"b1", DataType::BOOL),
    (b"i1", DataType::INT8),
    (b"i2", DataType::INT16),
    (b"i4", DataType::INT32),
    (b"i8", DataType::INT64),
    (b"u1", DataType::UINT8),
    (b"u2", DataType::UINT16),
    (b"u4", DataType::UINT32),
    (b"u8", DataType::UINT64),
    (b"f2", DataType::FLOAT16),
    (b"f4", DataType::FLOAT32),
    (b"f8", DataType::FLOAT64),
    (b"c8", DataType::COMPLEX64),
    (b"c16", DataType::COMPLEX128),
];

/// The dtype that a text stands for, and true if the byte order is the one that this machine does not have.
pub(super) fn parse(descr: &[u8]) -> Result<(DataType, bool), Fault> {
    let (order, name) = match descr {
        [order @ (b'<' | b'>' | b'=' | b'|'), name @ ..] => (*order, name),
        // NumPy reads this as the order of the machine.
        _ => (b'=', descr),
    };
    let known = DTYPES.iter().find(|(known, _)| *known == name);
    let &(_, dtype) = known.ok_or_else(|| refused(descr, name))?;
    let foreign = if cfg!(target_endian = "little") { b'>' } else { b'<' };
    Ok((dtype, order == foreign && dtype.itemsize() > 1))
}

/// The fault that no tensor has a dtype.
fn refused(descr: &[u8], name: &[u8]) -> Fault {
    let reason = match name {
        [b'V', ..] if matches!(name, b"V1" | b"V2") => {
            "which no tensor has; NumPy writes bfloat16 and float8 like this, so save the array as safetensors"
        }
        [b'V', ..] => {
            "which is bytes of no known kind; view the array as numbers and save it again"
        }
        [b'O', ..] => "which is Python objects; convert the array to numbers and save it again",
        [b'S' | b'U' | b'a', ..] => {
            "which is text; no tensor has it, so convert the array to numbers"
        }
        [b'M' | b'm', ..] => "which is dates or times; view the array as int64 and save it again",
        [b'f' | b'c', ..] => "which no tensor has; convert the array to float64 or complex128",
        _ => return invalid(NAME, format!("the dtype \"{}\" is unknown", descr.escape_ascii())),
    };
    unsupported(NAME, format!("the dtype is \"{}\", {reason}", descr.escape_ascii()))
}
