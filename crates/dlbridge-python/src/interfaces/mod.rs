//! NumPy's array interface, as an attribute and as a C struct, and CUDA's; import and export. This file has their element
//! types: byte order, kind, size.
//!
//! Source: "The array interface protocol" in the manual of NumPy.

pub(crate) mod array_interface;
pub(crate) mod array_struct;
pub(crate) mod cuda_array_interface;

use dlbridge::{DataType, DataTypeCode};
use dlbridge_pyo3::python::error::beyond_tensors;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::frameworks::advice;

pub(crate) const NATIVE: char = if cfg!(target_endian = "little") { '<' } else { '>' };
const SWAPPED: char = if cfg!(target_endian = "little") { '>' } else { '<' };

/// The dtype of a kind and a size in bytes, and true for the other byte order; if the kind is ambiguous, by the dtype of
/// `object`.
fn element_type(
    object: &Bound<'_, PyAny>,
    order: char,
    kind: char,
    size: usize,
) -> PyResult<(DataType, bool)> {
    let dtype = match of_kind(kind, size) {
        Some(dtype) => Some(dtype),
        None => named(object, size)?,
    };
    let Some(dtype) = dtype else {
        // NumPy writes no size for objects.
        let size = if kind == 'O' { String::new() } else { size.to_string() };
        let element_type = format!("the array interface's element type '{order}{kind}{size}'");
        return Err(no_dtype(&element_type, &kind.to_string(), object));
    };
    Ok((dtype, order == SWAPPED && size > 1))
}

/// The refusal of elements that tensors lack a dtype for, of a kind of NumPy or a buffer's format.
pub(crate) fn no_dtype(element_type: &str, kind: &str, object: &Bound<'_, PyAny>) -> PyErr {
    match advice(object.py(), "no_dtype", (element_type, kind, object)) {
        Ok(text) => {
            beyond_tensors(text.unwrap_or_else(|| format!("{element_type} is not supported")))
        }
        Err(error) => error,
    }
}

/// Splits a typestr like `<f4`.
fn parse(object: &Bound<'_, PyAny>, typestr: &str) -> PyResult<(char, char, usize)> {
    let mut letters = typestr.chars();
    let (order, kind) = (letters.next(), letters.next());
    // Dates have a unit behind the size, and objects lack a size.
    let digits = letters.as_str().split('[').next().unwrap_or_default();
    let is_number = digits.bytes().all(|b| b.is_ascii_digit());
    let size = if digits.is_empty() { Some(0) } else { digits.parse().ok() };
    if let (Some(order @ ('<' | '>' | '|' | '=')), Some(kind), Some(size), true) =
        (order, kind, size, is_number)
    {
        return Ok((if order == '=' { NATIVE } else { order }, kind, size));
    }
    // NumPy's typestr for text of any length.
    if typestr.starts_with("StringDType") {
        let element_type = format!("the array interface's element type '{typestr}'");
        return Err(no_dtype(&element_type, "T", object));
    }
    Err(PyBufferError::new_err(format!(
        "the array interface's typestr is '{typestr}'; it must be a byte order, a kind and a number \
         of bytes, like '<f4'"
    )))
}

/// The letter and the size for the typestr of a dtype, if it has one.
fn kind_of(dtype: DataType) -> Option<(char, usize)> {
    let kind = match dtype.code() {
        DataTypeCode::BOOL => 'b',
        DataTypeCode::INT => 'i',
        DataTypeCode::UINT => 'u',
        DataTypeCode::FLOAT => 'f',
        DataTypeCode::COMPLEX => 'c',
        _ => return None,
    };
    let size = dtype.itemsize();
    (of_kind(kind, size) == Some(dtype)).then_some((kind, size))
}

/// The typestr of a dtype, if it has one.
pub(crate) fn of_dtype(dtype: DataType) -> Option<String> {
    let (kind, size) = kind_of(dtype)?;
    let order = if size == 1 { '|' } else { NATIVE };
    Some(format!("{order}{kind}{size}"))
}

/// The dtype of a kind of NumPy and a number of bytes.
pub(crate) fn of_kind(kind: char, size: usize) -> Option<DataType> {
    let code = match (kind, size) {
        ('b', 1) => DataTypeCode::BOOL,
        ('i', 1 | 2 | 4 | 8) => DataTypeCode::INT,
        ('u', 1 | 2 | 4 | 8) => DataTypeCode::UINT,
        ('f', 2 | 4 | 8) => DataTypeCode::FLOAT,
        ('c', 8 | 16) => DataTypeCode::COMPLEX,
        _ => return None,
    };
    // The largest size is 128 bits.
    Some(DataType::new(code, (size * 8) as u8, 1))
}

/// A dtype without a NumPy kind, such as those of `ml_dtypes`, by the name of the array's own dtype. NumPy's
/// `float128` is another format than DLPack's.
fn named(object: &Bound<'_, PyAny>, size: usize) -> PyResult<Option<DataType>> {
    let py = object.py();
    let Some(dtype) = object.getattr_opt(intern!(py, "dtype"))? else { return Ok(None) };
    let Some(name) = dtype.getattr_opt(intern!(py, "name"))? else { return Ok(None) };
    let Ok(name) = name.cast::<PyString>() else { return Ok(None) };
    let Ok(dtype) = name.to_cow()?.parse::<DataType>() else { return Ok(None) };
    let plain = matches!(dtype.code(), DataTypeCode::FLOAT | DataTypeCode::COMPLEX);
    // NumPy's own complex numbers are at least twice as wide.
    let plain = plain && dtype != DataType::COMPLEX32;
    Ok((!plain && dtype.lanes() == 1 && dtype.itemsize() == size).then_some(dtype))
}
