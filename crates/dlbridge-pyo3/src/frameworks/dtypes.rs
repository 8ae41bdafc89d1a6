//! Groups of dtypes that frameworks have.

use dlbridge::{DataType, DataTypeCode as Code};

/// Integers and floats that every CPU supports.
pub(super) fn is_plain(dtype: DataType) -> bool {
    let (code, bits) = (dtype.code(), dtype.bits());
    matches!((code, bits), (Code::INT | Code::UINT, 8 | 16 | 32 | 64) | (Code::FLOAT, 16 | 32 | 64))
}

pub(super) fn is_complex(dtype: DataType) -> bool {
    dtype.code() == Code::COMPLEX && matches!(dtype.bits(), 64 | 128)
}

/// Numbers of 128 bits, complex numbers of two 16-bit floats, and handles, which few libraries support.
pub(super) fn is_rare(dtype: DataType) -> bool {
    let wide = matches!(dtype.code(), Code::INT | Code::UINT | Code::FLOAT) && dtype.bits() > 64;
    wide || dtype == DataType::COMPLEX32 || dtype.code() == Code::OPAQUE_HANDLE
}

/// Returns true if the C functions of a framework certainly accept the dtype: if they fail, PyTorch and Paddle leak.
pub(crate) fn is_common(dtype: DataType) -> bool {
    dtype.lanes() == 1
        && matches!(
            (dtype.code(), dtype.bits()),
            (Code::INT, 8 | 16 | 32 | 64)
                | (Code::UINT | Code::BOOL, 8)
                | (Code::FLOAT, 16 | 32 | 64)
                | (Code::BFLOAT, 16)
                | (Code::COMPLEX, 64 | 128)
        )
}
