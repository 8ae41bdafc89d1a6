//! The values of an array and their dtype, and the array type for a dtype.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::{DataType, IntervalUnit};

use crate::{Error, Result};

/// Selects whether dates, times, decimals and other numbers with a meaning may become plain numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    Numbers,
    Storage,
}

/// Returns the dtype of the values of an array that is neither nested nor boolean.
pub(crate) fn dtype(data_type: &DataType, take: Take) -> Result<dlbridge::DataType> {
    use dlbridge::DataType as Dtype;
    let storage = match data_type {
        DataType::Int8 => return Ok(Dtype::INT8),
        DataType::Int16 => return Ok(Dtype::INT16),
        DataType::Int32 => return Ok(Dtype::INT32),
        DataType::Int64 => return Ok(Dtype::INT64),
        DataType::UInt8 => return Ok(Dtype::UINT8),
        DataType::UInt16 => return Ok(Dtype::UINT16),
        DataType::UInt32 => return Ok(Dtype::UINT32),
        DataType::UInt64 => return Ok(Dtype::UINT64),
        DataType::Float16 => return Ok(Dtype::FLOAT16),
        DataType::Float32 => return Ok(Dtype::FLOAT32),
        DataType::Float64 => return Ok(Dtype::FLOAT64),
        DataType::Date32
        | DataType::Time32(_)
        | DataType::Interval(IntervalUnit::YearMonth)
        | DataType::Decimal32(..) => Dtype::INT32,
        DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_)
        | DataType::Decimal64(..) => Dtype::INT64,
        DataType::Decimal128(..) => Dtype::INT128,
        _ => return Err(Error::Unsupported { data_type: data_type.clone() }),
    };
    match take {
        Take::Storage => Ok(storage),
        Take::Numbers => Err(Error::Meaning { data_type: data_type.clone() }),
    }
}

/// The values of an array without nulls, and their shape.
pub(crate) struct Values {
    pub(crate) shape: Vec<usize>,
    pub(crate) elements: Elements,
}

/// The innermost values.
pub(crate) enum Elements {
    Numbers(Buffer, dlbridge::DataType),
    Bits(BooleanBuffer),
}

/// Finds the values inside lists of fixed sizes.
pub(crate) fn values(mut array: &dyn Array, take: Take) -> Result<Values> {
    let mut shape = vec![array.len()];
    loop {
        if array.null_count() != 0 {
            return Err(Error::Nulls { count: array.null_count() });
        }
        let Some(list) = array.as_fixed_size_list_opt() else { break };
        // A size is never negative.
        shape.push(list.value_length() as usize);
        array = list.values().as_ref();
    }
    if let Some(booleans) = array.as_boolean_opt() {
        return Ok(Values { shape, elements: Elements::Bits(booleans.values().clone()) });
    }
    let dtype = dtype(array.data_type(), take)?;
    let (data, itemsize) = (array.to_data(), dtype.itemsize());
    let buffer =
        data.buffers()[0].slice_with_length(data.offset() * itemsize, data.len() * itemsize);
    Ok(Values { shape, elements: Elements::Numbers(buffer, dtype) })
}

/// Evaluates an expression with `$numbers` as Arrow's array type for a dtype; returns an error if Arrow has none. The
/// caller must handle booleans first.
macro_rules! with_array_type {
    ($dtype:expr, $numbers:ident => $value:expr) => {{
        use arrow_array::types::*;
        use dlbridge::DataType as Dtype;
        macro_rules! of {
            ($type:ty) => {{
                type $numbers = $type;
                $value
            }};
        }
        match $dtype {
            Dtype::INT8 => of!(Int8Type),
            Dtype::INT16 => of!(Int16Type),
            Dtype::INT32 => of!(Int32Type),
            Dtype::INT64 => of!(Int64Type),
            Dtype::UINT8 => of!(UInt8Type),
            Dtype::UINT16 => of!(UInt16Type),
            Dtype::UINT32 => of!(UInt32Type),
            Dtype::UINT64 => of!(UInt64Type),
            Dtype::FLOAT16 => of!(Float16Type),
            Dtype::FLOAT32 => of!(Float32Type),
            Dtype::FLOAT64 => of!(Float64Type),
            Dtype::BOOL => return Err($crate::Error::Bits),
            dtype => return Err($crate::Error::NoArrowType { dtype }),
        }
    }};
}

pub(crate) use with_array_type;
