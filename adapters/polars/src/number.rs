//! Polars' numeric types, and their dtypes.

use dlbridge::{DataType, Element};
use polars_arrow::types::NativeType;
use polars_core::datatypes::DataType as Type;
use polars_utils::float16::pf16;

use crate::{Error, Result};

/// A numeric type of Polars that has a dtype.
///
/// # Safety
/// `Element` is the type itself, or a transparent wrapper around it, and any bytes are a value of both.
pub(crate) unsafe trait Number: NativeType {
    /// The element type of a tensor of these numbers.
    type Element: Element;
}

/// Polars' 16-bit float as an element.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Float16(pf16);

// SAFETY: two transparent wrappers around `f16`, and any bytes are a valid `f16`.
unsafe impl Element for Float16 {
    const DATA_TYPE: DataType = DataType::FLOAT16;
}

// SAFETY: `Float16` is a transparent wrapper around `pf16`, and any bytes are a value of both.
unsafe impl Number for pf16 {
    type Element = Float16;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        // SAFETY: the type itself, a primitive number.
        unsafe impl Number for $type {
            type Element = Self;
        }
    )*};
}

numbers! { i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 }

/// Evaluates an expression with `$numbers` as Polars' numeric type for the type that `$is` matches, or `$other` for
/// other types.
macro_rules! with_number {
    ($value:expr, $is:ident, $numbers:ident => $then:expr, $other:pat => $else:expr) => {{
        use polars_core::datatypes::*;
        macro_rules! of {
            ($type:ty) => {{
                type $numbers = $type;
                $then
            }};
        }
        match $value {
            $is!(Int8) => of!(Int8Type),
            $is!(Int16) => of!(Int16Type),
            $is!(Int32) => of!(Int32Type),
            $is!(Int64) => of!(Int64Type),
            $is!(Int128) => of!(Int128Type),
            $is!(UInt8) => of!(UInt8Type),
            $is!(UInt16) => of!(UInt16Type),
            $is!(UInt32) => of!(UInt32Type),
            $is!(UInt64) => of!(UInt64Type),
            $is!(UInt128) => of!(UInt128Type),
            $is!(Float16) => of!(Float16Type),
            $is!(Float32) => of!(Float32Type),
            $is!(Float64) => of!(Float64Type),
            $other => $else,
        }
    }};
}
pub(crate) use with_number;

/// The pattern of a Polars type, for [`with_number`].
macro_rules! of_series {
    ($name:ident) => {
        polars_core::datatypes::DataType::$name
    };
}
pub(crate) use of_series;

/// The pattern of a dtype, for [`with_number`].
macro_rules! of_tensor {
    (Int8) => {
        dlbridge::DataType::INT8
    };
    (Int16) => {
        dlbridge::DataType::INT16
    };
    (Int32) => {
        dlbridge::DataType::INT32
    };
    (Int64) => {
        dlbridge::DataType::INT64
    };
    (Int128) => {
        dlbridge::DataType::INT128
    };
    (UInt8) => {
        dlbridge::DataType::UINT8
    };
    (UInt16) => {
        dlbridge::DataType::UINT16
    };
    (UInt32) => {
        dlbridge::DataType::UINT32
    };
    (UInt64) => {
        dlbridge::DataType::UINT64
    };
    (UInt128) => {
        dlbridge::DataType::UINT128
    };
    (Float16) => {
        dlbridge::DataType::FLOAT16
    };
    (Float32) => {
        dlbridge::DataType::FLOAT32
    };
    (Float64) => {
        dlbridge::DataType::FLOAT64
    };
}
pub(crate) use of_tensor;

/// Selects whether dates, times, decimals and other numbers with a meaning may become plain numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    Numbers,
    Storage,
}

/// Returns the numeric type that stores the values of a type.
pub(crate) fn stored(data_type: &Type, take: Take) -> Result<Type> {
    if data_type.is_primitive_numeric() {
        return Ok(data_type.clone());
    }
    if data_type.is_bool() {
        return Err(Error::Bits);
    }
    match (data_type.is_temporal() || data_type.is_decimal(), take) {
        (false, _) => Err(Error::Unsupported { data_type: data_type.clone() }),
        (true, Take::Numbers) => Err(Error::Meaning { data_type: data_type.clone() }),
        (true, Take::Storage) => Ok(data_type.to_physical()),
    }
}
