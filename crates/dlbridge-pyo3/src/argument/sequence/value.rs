//! Numbers of NumPy, read from their bytes.

use dlbridge::bits::{Bfloat16, Float16};
use dlbridge::{DataType, DataTypeCode as Code};

/// A number that is not a Python object.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Complex(f64, f64),
}

/// Reads an element from its bytes; `None` for integers that do not fit 64 signed bits.
pub(super) type Read = fn(&[u8]) -> Option<Value>;

/// The function that reads elements of a dtype; `None` for dtypes that are not read from bytes.
pub(super) fn reader(dtype: DataType) -> Option<Read> {
    macro_rules! read {
        ($type:ty, $value:ident => $made:expr) => {
            |bytes| {
                let $value = <$type>::from_ne_bytes(bytes.try_into().ok()?);
                Some($made)
            }
        };
    }
    macro_rules! parts {
        ($type:ty) => {
            |bytes| {
                let (re, im) = bytes.split_at_checked(size_of::<$type>())?;
                let part =
                    |bytes: &[u8]| Some(<$type>::from_ne_bytes(bytes.try_into().ok()?).into());
                Some(Value::Complex(part(re)?, part(im)?))
            }
        };
    }
    Some(match (dtype.code(), dtype.bits()) {
        (Code::FLOAT, 64) => read!(f64, value => Value::Float(value)),
        (Code::FLOAT, 32) => read!(f32, value => Value::Float(value.into())),
        (Code::FLOAT, 16) => read!(u16, bits => Value::Float(Float16(bits).to_f32().into())),
        (Code::BFLOAT, 16) => read!(u16, bits => Value::Float(Bfloat16(bits).to_f32().into())),
        (Code::INT, 64) => read!(i64, value => Value::Integer(value)),
        (Code::INT, 32) => read!(i32, value => Value::Integer(value.into())),
        (Code::INT, 16) => read!(i16, value => Value::Integer(value.into())),
        (Code::INT, 8) => read!(i8, value => Value::Integer(value.into())),
        (Code::UINT, 64) => read!(u64, value => Value::Integer(value.try_into().ok()?)),
        (Code::UINT, 32) => read!(u32, value => Value::Integer(value.into())),
        (Code::UINT, 16) => read!(u16, value => Value::Integer(value.into())),
        (Code::UINT, 8) => read!(u8, value => Value::Integer(value.into())),
        (Code::BOOL, 8) => read!(u8, value => Value::Bool(value != 0)),
        (Code::COMPLEX, 64) => parts!(f32),
        (Code::COMPLEX, 128) => parts!(f64),
        _ => return None,
    })
}
