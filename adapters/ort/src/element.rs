//! Element types of ort, and their dtypes.

use dlbridge::{DataType, DataTypeCode};
use ort::value::TensorElementType;

const TYPES: [(TensorElementType, DataType); 25] = [
    (TensorElementType::Float32, DataType::FLOAT32),
    (TensorElementType::Float64, DataType::FLOAT64),
    (TensorElementType::Float16, DataType::FLOAT16),
    (TensorElementType::Bfloat16, DataType::BFLOAT16),
    (TensorElementType::Int8, DataType::INT8),
    (TensorElementType::Int16, DataType::INT16),
    (TensorElementType::Int32, DataType::INT32),
    (TensorElementType::Int64, DataType::INT64),
    (TensorElementType::Uint8, DataType::UINT8),
    (TensorElementType::Uint16, DataType::UINT16),
    (TensorElementType::Uint32, DataType::UINT32),
    (TensorElementType::Uint64, DataType::UINT64),
    (TensorElementType::Bool, DataType::BOOL),
    (TensorElementType::Complex64, DataType::COMPLEX64),
    (TensorElementType::Complex128, DataType::COMPLEX128),
    (TensorElementType::Float8E4M3FN, DataType::FLOAT8_E4M3FN),
    (TensorElementType::Float8E4M3FNUZ, DataType::FLOAT8_E4M3FNUZ),
    (TensorElementType::Float8E5M2, DataType::FLOAT8_E5M2),
    (TensorElementType::Float8E5M2FNUZ, DataType::FLOAT8_E5M2FNUZ),
    (TensorElementType::Float8E8M0, DataType::FLOAT8_E8M0FNU),
    (TensorElementType::Float4E2M1, DataType::FLOAT4_E2M1FN),
    (TensorElementType::Int4, DataType::INT4),
    (TensorElementType::Uint4, DataType::UINT4),
    (TensorElementType::Int2, DataType::INT2),
    (TensorElementType::Uint2, DataType::UINT2),
];

/// Returns the dtype of ort's elements; `None` for strings.
pub(crate) fn dtype(element: TensorElementType) -> Option<DataType> {
    TYPES.iter().find(|pair| pair.0 == element).map(|pair| pair.1)
}

/// Returns ort's element type for a dtype.
pub(crate) fn element_type(dtype: DataType) -> Option<TensorElementType> {
    TYPES.iter().find(|pair| pair.1 == dtype).map(|pair| pair.0)
}

/// Returns the alignment in bytes that a slice of such elements needs.
pub(crate) fn alignment(dtype: DataType) -> usize {
    match dtype.code() {
        DataTypeCode::COMPLEX => dtype.itemsize() / 2,
        _ => dtype.itemsize(),
    }
}
