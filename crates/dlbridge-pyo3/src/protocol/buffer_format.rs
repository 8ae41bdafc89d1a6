//! Formats of the buffer protocol: one element, as the `struct` module of Python writes it.
//!
//! Source: PEP 3118 and the documentation of the `struct` module.

use dlbridge::{DataType, DataTypeCode};

/// Why a format is no dtype.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// The bytes of each element are in the other order than this machine's.
    ByteOrder,
    /// No number: text, an object, a pointer, a structure, several numbers.
    NoNumber,
    /// The letter says another size than the buffer.
    Size(usize),
}

/// The dtype of a format, for elements of `itemsize` bytes.
pub(super) fn dtype(format: &str, itemsize: usize) -> Result<DataType, Unfit> {
    let (order, letters) = match format.as_bytes().first() {
        Some(b'@' | b'=' | b'<' | b'>' | b'!') => format.split_at(1),
        _ => format.split_at(0),
    };
    let native = matches!(order, "" | "@");
    use DataTypeCode as Code;
    let long = if native { size_of::<std::ffi::c_long>() } else { 4 };
    let (code, size) = match letters {
        "?" => (Code::BOOL, 1),
        "b" => (Code::INT, 1),
        "B" | "c" => (Code::UINT, 1),
        "h" => (Code::INT, 2),
        "H" => (Code::UINT, 2),
        "i" => (Code::INT, 4),
        "I" => (Code::UINT, 4),
        "l" => (Code::INT, long),
        "L" => (Code::UINT, long),
        "q" => (Code::INT, 8),
        "Q" => (Code::UINT, 8),
        "n" if native => (Code::INT, size_of::<isize>()),
        "N" if native => (Code::UINT, size_of::<usize>()),
        "e" => (Code::FLOAT, 2),
        "f" => (Code::FLOAT, 4),
        "d" => (Code::FLOAT, 8),
        // The first is NumPy's, the second that of `struct` from Python 3.14 on.
        "Zf" | "F" => (Code::COMPLEX, 8),
        "Zd" | "D" => (Code::COMPLEX, 16),
        _ => return Err(Unfit::NoNumber),
    };
    let swapped = match order {
        ">" | "!" => cfg!(target_endian = "little"),
        "<" => cfg!(target_endian = "big"),
        _ => false,
    };
    if swapped && size > 1 {
        return Err(Unfit::ByteOrder);
    }
    if size != itemsize {
        return Err(Unfit::Size(size));
    }
    // The largest is 128.
    Ok(DataType::new(code, (size * 8) as u8, 1))
}
