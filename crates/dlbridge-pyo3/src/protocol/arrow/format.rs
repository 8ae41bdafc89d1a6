//! Types of Arrow: what a schema says of one level of an array.
//!
//! Source: "Data type description" in the Arrow C data interface.

use std::ffi::CStr;
use std::slice;

use dlbridge::DataType;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::abi::ArrowSchema;

/// One level of an array.
pub(super) enum Level {
    /// Numbers.
    Numbers(DataType),
    /// Truth values, eight to a byte.
    Bits,
    /// Lists, each of so many items.
    Lists(i64),
}

impl Level {
    /// What the format of a schema says.
    ///
    /// # Safety
    /// A valid schema.
    pub(super) unsafe fn of(schema: &ArrowSchema) -> PyResult<Self> {
        if schema.format.is_null() {
            return Err(PyBufferError::new_err("the Arrow schema has no format"));
        }
        // SAFETY: by contract a string.
        let format = unsafe { CStr::from_ptr(schema.format) }.to_string_lossy();
        if !schema.dictionary.is_null() {
            return Err(unfit(&format, "dictionary_decode() it"));
        }
        let numbers = match &*format {
            "c" => DataType::INT8,
            "C" => DataType::UINT8,
            "s" => DataType::INT16,
            "S" => DataType::UINT16,
            "i" => DataType::INT32,
            "I" => DataType::UINT32,
            "l" => DataType::INT64,
            "L" => DataType::UINT64,
            "e" => DataType::FLOAT16,
            "f" => DataType::FLOAT32,
            "g" => DataType::FLOAT64,
            "b" => return Ok(Self::Bits),
            _ => {
                if let Some(items) = format.strip_prefix("+w:").and_then(|n| n.parse().ok()) {
                    return Ok(Self::Lists(items));
                }
                return Err(unfit(&format, remedy(&format)));
            }
        };
        Ok(Self::Numbers(numbers))
    }
}

fn unfit(format: &str, remedy: &str) -> PyErr {
    PyBufferError::new_err(format!(
        "the Arrow format '{format}' is no tensor of integers, floats or booleans, or of fixed-size \
         lists of them; {remedy} first"
    ))
}

fn remedy(format: &str) -> &'static str {
    match format.as_bytes() {
        [b'+', b's', ..] => "take one column of it",
        [b'+', ..] => "flatten it, or cast it to fixed-size lists",
        [b't', ..] => "cast it to integers",
        [b'd', ..] => "cast it to floats",
        [b'n', ..] => "fill it, since it holds nothing but nulls,",
        _ => "convert it to numbers",
    }
}

/// The format of a dtype, if Arrow has the same.
pub(super) fn of_dtype(dtype: DataType) -> Option<&'static CStr> {
    Some(match dtype {
        DataType::INT8 => c"c",
        DataType::UINT8 => c"C",
        DataType::INT16 => c"s",
        DataType::UINT16 => c"S",
        DataType::INT32 => c"i",
        DataType::UINT32 => c"I",
        DataType::INT64 => c"l",
        DataType::UINT64 => c"L",
        DataType::FLOAT16 => c"e",
        DataType::FLOAT32 => c"f",
        DataType::FLOAT64 => c"g",
        _ => return None,
    })
}

/// The value of a key in the metadata of a schema.
///
/// # Safety
/// A valid schema.
pub(super) unsafe fn metadata(schema: &ArrowSchema, key: &str) -> Option<Vec<u8>> {
    let mut place = schema.metadata.cast::<u8>();
    if place.is_null() {
        return None;
    }
    // SAFETY: by contract: a number of pairs, and for each pair two lengths, each before its bytes.
    unsafe {
        for _ in 0..number(&mut place) {
            let length = number(&mut place);
            let found = bytes(&mut place, length) == key.as_bytes();
            let length = number(&mut place);
            let value = bytes(&mut place, length);
            if found {
                return Some(value.to_vec());
            }
        }
    }
    None
}

/// # Safety
/// A number is at the place.
unsafe fn number(place: &mut *const u8) -> usize {
    // SAFETY: by contract.
    let number = unsafe { place.cast::<i32>().read_unaligned() };
    *place = place.wrapping_add(4);
    usize::try_from(number).unwrap_or_default()
}

/// # Safety
/// So many bytes are at the place, which nobody writes.
unsafe fn bytes<'a>(place: &mut *const u8, length: usize) -> &'a [u8] {
    // SAFETY: by contract.
    let bytes = unsafe { slice::from_raw_parts(*place, length) };
    *place = place.wrapping_add(length);
    bytes
}
