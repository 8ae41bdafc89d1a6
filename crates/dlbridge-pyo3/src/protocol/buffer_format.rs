//! Formats of the buffer protocol, which describe one element in the notation of Python's `struct` module.
//!
//! Source: PEP 3118 and the documentation of the `struct` module.

use dlbridge::{DataType, DataTypeCode};
use pyo3::PyErr;

use crate::python::error::beyond_tensors;

/// Why a format lacks a dtype.
#[derive(Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Not a number. The letter is the kind in a typestr: text, an object, a structure, a pointer, several numbers,
    /// or anything else.
    NoNumber(char),
    /// The format and the buffer disagree on the size; holds the format's size in bytes.
    Size(usize),
}

/// The dtype of a format, for elements of `itemsize` bytes; true if the bytes of each number are not in this
/// machine's order.
pub fn parse(format: &[u8], itemsize: usize) -> Result<(DataType, bool), Unfit> {
    let (order, letters) = match format {
        [order @ (b'@' | b'=' | b'<' | b'>' | b'!'), letters @ ..] => (*order, letters),
        letters => (b'@', letters),
    };
    let native = order == b'@';
    use DataTypeCode as Code;
    let long = if native { size_of::<std::ffi::c_long>() } else { 4 };
    let (code, size) = match letters {
        b"?" => (Code::BOOL, 1),
        b"b" => (Code::INT, 1),
        b"B" | b"c" => (Code::UINT, 1),
        b"h" => (Code::INT, 2),
        b"H" => (Code::UINT, 2),
        b"i" => (Code::INT, 4),
        b"I" => (Code::UINT, 4),
        b"l" => (Code::INT, long),
        b"L" => (Code::UINT, long),
        b"q" => (Code::INT, 8),
        b"Q" => (Code::UINT, 8),
        b"n" if native => (Code::INT, size_of::<isize>()),
        b"N" if native => (Code::UINT, size_of::<usize>()),
        b"e" => (Code::FLOAT, 2),
        b"f" => (Code::FLOAT, 4),
        b"d" => (Code::FLOAT, 8),
        // The first is NumPy's, the second that of `struct` from Python 3.14 on.
        b"Zf" | b"F" => (Code::COMPLEX, 8),
        b"Zd" | b"D" => (Code::COMPLEX, 16),
        // MLX writes the name of a type without a letter.
        b"bfloat16" => (Code::BFLOAT, 2),
        _ => return Err(Unfit::NoNumber(kind_of(letters))),
    };
    let swapped = match order {
        b'>' | b'!' => cfg!(target_endian = "little"),
        b'<' => cfg!(target_endian = "big"),
        _ => false,
    };
    if size != itemsize {
        return Err(Unfit::Size(size));
    }
    // The largest size is 128 bits.
    Ok((DataType::new(code, (size * 8) as u8, 1), swapped && size > 1))
}

/// The typestr's letter for the elements of a format without a dtype.
fn kind_of(letters: &[u8]) -> char {
    let digits = letters.iter().take_while(|letter| letter.is_ascii_digit()).count();
    match &letters[digits..] {
        b"O" => 'O',
        b"s" | b"p" | b"w" | b"u" => 'U',
        b"g" => 'g',
        b"Zg" | b"G" => 'c',
        [b'T', b'{', ..] => 'r',
        _ => '?',
    }
}

/// The format of a dtype, if it has one that every consumer supports.
pub fn of_dtype(dtype: DataType) -> Option<&'static std::ffi::CStr> {
    use DataTypeCode as Code;
    if dtype.lanes() != 1 {
        return None;
    }
    Some(match (dtype.code(), dtype.bits()) {
        (Code::BOOL, 8) => c"?",
        (Code::INT, 8) => c"b",
        (Code::UINT, 8) => c"B",
        (Code::INT, 16) => c"h",
        (Code::UINT, 16) => c"H",
        (Code::INT, 32) => c"i",
        (Code::UINT, 32) => c"I",
        (Code::INT, 64) => c"q",
        (Code::UINT, 64) => c"Q",
        (Code::FLOAT, 16) => c"e",
        (Code::FLOAT, 32) => c"f",
        (Code::FLOAT, 64) => c"d",
        (Code::COMPLEX, 64) => c"Zf",
        (Code::COMPLEX, 128) => c"Zd",
        _ => return None,
    })
}

/// The refusal of elements of a kind that tensors lack a dtype for; `field` is the name of a record's field.
pub fn no_dtype(element_type: &str, kind: char, field: Option<String>) -> PyErr {
    let advice = match (kind, field) {
        ('O', _) => "the elements are Python objects, whose values are not in the array's memory; \
                     convert them to numbers first, for example with a.astype('float64')"
            .to_owned(),
        ('M' | 'm', _) => {
            "the elements are dates or durations; take their counts first, with numpy.asarray(x).view('int64'), \
             where NaT is -2**63"
                .to_owned()
        }
        ('U' | 'S' | 'T' | 'a', _) => {
            "the elements are text; convert digits with numpy.asarray(x).astype('float64'), or pass other text to \
             dlbridge.ragged(pyarrow.array(numpy.asarray(x).ravel())), for its bytes and offsets"
                .to_owned()
        }
        ('V', Some(field)) => {
            format!("the elements are records; take one field first, for example a['{field}']")
        }
        ('r', _) => "the elements are records; take one field first, for example a['y']".to_owned(),
        ('V', None) => "the elements are raw bytes; view them as numbers first, for example with \
                        a.view('u1')"
            .to_owned(),
        ('c', _) => "the complex numbers are wider than 128 bits, or of a width without a dtype; \
                     convert them first, for example with \
                     a.astype('complex128')"
            .to_owned(),
        ('f' | 'g', _) => "the floats are wider than 64 bits, or of a width without a dtype; \
                                 convert them first, for example with a.astype('float64')"
            .to_owned(),
        _ => "only booleans, integers, floats of 16, 32 and 64 bits, and complex numbers of 64 and 128 \
              bits are supported; convert the elements first"
            .to_owned(),
    };
    beyond_tensors(format!("{element_type} is not supported: {advice}"))
}
