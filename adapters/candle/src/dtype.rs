//! The elements of candle's storages, and their dtypes.

use core::ffi::c_void;

use candle_core::{CpuStorage, DType};
use dlbridge::{DataType, Element};

use crate::{Error, Result};

/// Candle's 8-bit float: e4m3fn, without infinities. Candle's own type does not implement [`Element`].
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct E4m3fn(pub(crate) u8);

// SAFETY: one byte, and every byte is a valid e4m3fn.
unsafe impl Element for E4m3fn {
    const DATA_TYPE: DataType = DataType::FLOAT8_E4M3FN;
}

/// An 8-bit power of two, which candle stores as a byte.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct E8m0fnu(pub(crate) u8);

// SAFETY: one byte, and every byte is a valid e8m0fnu.
unsafe impl Element for E8m0fnu {
    const DATA_TYPE: DataType = DataType::FLOAT8_E8M0FNU;
}

/// The elements of a storage: address, number and dtype.
pub(crate) struct Elements {
    pub(crate) first: *mut c_void,
    pub(crate) len: usize,
    pub(crate) dtype: DataType,
}

impl Elements {
    /// Takes the address from the vector itself, not from a borrowed slice, so that it stays valid when code writes
    /// the elements through the vector.
    pub(crate) fn of(storage: &CpuStorage) -> Result<Self> {
        macro_rules! of_storage {
            ($($variant:ident = $dtype:expr;)*) => {
                match storage {
                    $(CpuStorage::$variant(elements) => {
                        (elements.as_ptr().cast_mut().cast(), elements.len(), $dtype)
                    })*
                    CpuStorage::F4(_) => return Err(Error::DType { dtype: DType::F4 }),
                    CpuStorage::F6E2M3(_) => return Err(Error::DType { dtype: DType::F6E2M3 }),
                    CpuStorage::F6E3M2(_) => return Err(Error::DType { dtype: DType::F6E3M2 }),
                }
            };
        }
        let (first, len, dtype) = of_storage! {
            U8 = DataType::UINT8;
            U32 = DataType::UINT32;
            I16 = DataType::INT16;
            I32 = DataType::INT32;
            I64 = DataType::INT64;
            F16 = DataType::FLOAT16;
            BF16 = DataType::BFLOAT16;
            F32 = DataType::FLOAT32;
            F64 = DataType::FLOAT64;
            F8E4M3 = E4m3fn::DATA_TYPE;
            F8E8M0 = E8m0fnu::DATA_TYPE;
        };
        Ok(Self { first, len, dtype })
    }
}
