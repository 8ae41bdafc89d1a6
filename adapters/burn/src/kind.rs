//! Kinds of burn's tensors, and their dtypes.

use burn_flex::{Flex, FlexTensor};
use burn_std::{BoolStore, DType};
use burn_tensor::{BackendPrimitive, Bool, Float, Int};
use dlbridge::DataType;

use crate::sealed::Sealed;
use crate::{Error, Result};

/// The kind of a tensor of burn: [`Float`], [`Int`] or [`Bool`].
///
/// ```
/// use burn_tensor::{Device, Int, Tensor};
/// use dlbridge_burn::{BurnExt, FlexKind};
///
/// fn address<const D: usize, K: FlexKind>(burn: Tensor<D, K>) -> usize {
///     burn.into_tensor().unwrap().data().addr()
/// }
/// assert_ne!(address(Tensor::<1, Int>::from_ints([1, 2], &Device::flex())), 0);
/// ```
pub trait FlexKind:
    Sealed + burn_tensor::kind::Basic + BackendPrimitive<Flex, Primitive = FlexTensor>
{
    /// The name of the kind.
    ///
    /// ```
    /// assert_eq!(<burn_tensor::Bool as dlbridge_burn::FlexKind>::NAME, "Bool");
    /// ```
    const NAME: &'static str;

    /// Returns whether elements of a dtype are of this kind.
    ///
    /// ```
    /// use dlbridge_burn::FlexKind;
    ///
    /// assert!(<burn_tensor::Int as FlexKind>::has(burn_std::DType::U8));
    /// ```
    fn has(dtype: DType) -> bool;
}

impl Sealed for Float {}
impl Sealed for Int {}
impl Sealed for Bool {}

impl FlexKind for Float {
    const NAME: &'static str = "Float";

    fn has(dtype: DType) -> bool {
        dtype.is_float()
    }
}

impl FlexKind for Int {
    const NAME: &'static str = "Int";

    fn has(dtype: DType) -> bool {
        dtype.is_int() || dtype.is_uint()
    }
}

impl FlexKind for Bool {
    const NAME: &'static str = "Bool";

    fn has(dtype: DType) -> bool {
        dtype.is_bool()
    }
}

pub(crate) fn to_dlpack(dtype: DType) -> Result<DataType> {
    Ok(match dtype {
        DType::F64 => DataType::FLOAT64,
        DType::F32 => DataType::FLOAT32,
        DType::F16 => DataType::FLOAT16,
        DType::BF16 => DataType::BFLOAT16,
        DType::I64 => DataType::INT64,
        DType::I32 => DataType::INT32,
        DType::I16 => DataType::INT16,
        DType::I8 => DataType::INT8,
        DType::U64 => DataType::UINT64,
        DType::U32 => DataType::UINT32,
        DType::U16 => DataType::UINT16,
        DType::U8 => DataType::UINT8,
        DType::Bool(BoolStore::Native | BoolStore::U8) => DataType::BOOL,
        DType::Bool(BoolStore::U32) | DType::Flex32 | DType::QFloat(_) => {
            return Err(Error::DType { dtype });
        }
    })
}

pub(crate) fn to_burn(dtype: DataType) -> Result<DType> {
    Ok(match dtype {
        DataType::FLOAT64 => DType::F64,
        DataType::FLOAT32 => DType::F32,
        DataType::FLOAT16 => DType::F16,
        DataType::BFLOAT16 => DType::BF16,
        DataType::INT64 => DType::I64,
        DataType::INT32 => DType::I32,
        DataType::INT16 => DType::I16,
        DataType::INT8 => DType::I8,
        DataType::UINT64 => DType::U64,
        DataType::UINT32 => DType::U32,
        DataType::UINT16 => DType::U16,
        DataType::UINT8 => DType::U8,
        DataType::BOOL => DType::Bool(BoolStore::Native),
        _ => return Err(Error::DataType { dtype }),
    })
}

/// Runs code for the Rust type of a dtype that burn has.
macro_rules! for_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::kind::for_type! {
            @$dtype, $T => $body; FLOAT64 f64, FLOAT32 f32, FLOAT16 half::f16, BFLOAT16 half::bf16,
            INT64 i64, INT32 i32, INT16 i16, INT8 i8, UINT64 u64, UINT32 u32, UINT16 u16, UINT8 u8, BOOL bool
        }
    };
    (@$dtype:expr, $T:ident => $body:expr; $($name:ident $type:ty),*) => {
        match $dtype {
            $(dlbridge::DataType::$name => {
                type $T = $type;
                $body
            })*
            dtype => Err($crate::Error::DataType { dtype }),
        }
    };
}
pub(crate) use for_type;
