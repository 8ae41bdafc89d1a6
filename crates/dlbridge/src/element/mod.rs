//! Rust types that are the elements of tensors.

pub(crate) mod items;
mod unaligned;

pub use items::Items;
pub use unaligned::Unaligned;

use crate::bits::{Bfloat16, Complex, Float16};
use crate::{DataType, DataTypeCode, Datetime64, TimeUnit, Timedelta64};

/// A Rust type with the layout of a DLPack dtype.
///
/// Implemented for the integers, the floats and `bool`, for `f16` and `bf16` of half (feature `half`), for complex
/// numbers of num-complex (feature `num-complex`), and for the floats of eight, six and four bits of microfloat
/// (feature `microfloat`), which take a byte each. `char` is not an element: DLPack lacks a dtype for it.
///
/// # Safety
/// - The size of the type is `DATA_TYPE.itemsize()`, it has no padding and no interior mutability, and
///   its bytes mean what the dtype says.
/// - Every bit pattern of that size is a valid value, or [`CHECK`](Element::CHECK) is set and returns true for valid
///   patterns only.
///
/// ```
/// use dlbridge::{DataType, Element};
///
/// /// Kelvin, stored as a plain float.
/// #[derive(Clone, Copy)]
/// #[repr(transparent)]
/// struct Kelvin(f32);
///
/// // SAFETY: a transparent wrapper around f32, and every bit pattern is valid.
/// unsafe impl Element for Kelvin {
///     const DATA_TYPE: DataType = DataType::FLOAT32;
/// }
///
/// let tensor = dlbridge::Tensor::from(vec![Kelvin(273.15)]);
/// assert_eq!(tensor.dtype(), DataType::FLOAT32);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type",
    label = "not an `Element`",
    note = "the integers, `f32`, `f64` and `bool` are elements; the features `half`, `num-complex` and `microfloat` of dlbridge add others"
)]
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The dtype of the type.
    ///
    /// ```
    /// use dlbridge::{DataType, Element};
    ///
    /// assert_eq!(i16::DATA_TYPE, DataType::INT16);
    /// ```
    const DATA_TYPE: DataType;

    /// Returns true if the bytes of an element are a valid value of the type. `None` if every bit pattern is valid. It
    /// runs once for each element before a view is made.
    ///
    /// ```
    /// use dlbridge::Element;
    ///
    /// assert!(f32::CHECK.is_none());
    /// assert!(!bool::CHECK.is_some_and(|is_valid| is_valid(&[2])));
    /// ```
    const CHECK: Option<fn(&[u8]) -> bool> = None;

    /// NumPy's dtype name for elements that count units of time; `DATA_TYPE` does not hold the unit.
    #[doc(hidden)]
    const TIME: Option<&'static str> = None;
}

macro_rules! elements {
    ($($type:ty = $dtype:expr;)*) => {$(
        // SAFETY: a number of this size (a primitive, a transparent wrapper around one, or two such
        // in a row), without padding, and every bit pattern is valid.
        unsafe impl Element for $type {
            const DATA_TYPE: DataType = $dtype;
        }
        const _: () = assert!(size_of::<$type>() == <$type as Element>::DATA_TYPE.itemsize());
    )*};
}

elements! {
    i8 = DataType::INT8;
    i16 = DataType::INT16;
    i32 = DataType::INT32;
    i64 = DataType::INT64;
    i128 = DataType::INT128;
    u8 = DataType::UINT8;
    u16 = DataType::UINT16;
    u32 = DataType::UINT32;
    u64 = DataType::UINT64;
    u128 = DataType::UINT128;
    f32 = DataType::FLOAT32;
    f64 = DataType::FLOAT64;
    isize = DataType::new(DataTypeCode::INT, isize::BITS as u8, 1);
    usize = DataType::new(DataTypeCode::UINT, usize::BITS as u8, 1);
    Float16 = DataType::FLOAT16;
    Bfloat16 = DataType::BFLOAT16;
    Complex<f32> = DataType::COMPLEX64;
    Complex<f64> = DataType::COMPLEX128;
}

macro_rules! times {
    ($($name:ident)*) => {$(
        // SAFETY: a transparent wrapper around an i64, and every bit pattern is valid.
        unsafe impl<U: TimeUnit> Element for $name<U> {
            const DATA_TYPE: DataType = DataType::new(DataTypeCode::OPAQUE_HANDLE, 64, 1);
            const TIME: Option<&'static str> = Some(Self::NAME);
        }
    )*};
}

times! { Datetime64 Timedelta64 }

#[cfg(feature = "half")]
elements! {
    half::f16 = DataType::FLOAT16;
    half::bf16 = DataType::BFLOAT16;
}

#[cfg(feature = "num-complex")]
elements! {
    num_complex::Complex<f32> = DataType::COMPLEX64;
    num_complex::Complex<f64> = DataType::COMPLEX128;
}

#[cfg(all(feature = "half", feature = "num-complex"))]
elements! {
    num_complex::Complex<half::f16> = DataType::COMPLEX32;
}

#[cfg(feature = "microfloat")]
elements! {
    microfloat::f8e3m4 = DataType::FLOAT8_E3M4;
    microfloat::f8e4m3 = DataType::FLOAT8_E4M3;
    microfloat::f8e4m3b11fnuz = DataType::FLOAT8_E4M3B11FNUZ;
    microfloat::f8e4m3fn = DataType::FLOAT8_E4M3FN;
    microfloat::f8e4m3fnuz = DataType::FLOAT8_E4M3FNUZ;
    microfloat::f8e5m2 = DataType::FLOAT8_E5M2;
    microfloat::f8e5m2fnuz = DataType::FLOAT8_E5M2FNUZ;
    microfloat::f8e8m0fnu = DataType::FLOAT8_E8M0FNU;
}

/// Floats of fewer than eight bits, each in its own byte. microfloat treats the higher bits as part of the number, so a
/// byte with any of them set is not a valid value, although the format does not define them.
#[cfg(feature = "microfloat")]
macro_rules! narrow_elements {
    ($($type:ty = $dtype:expr;)*) => {$(
        // SAFETY: a transparent wrapper around a byte; the check admits only bytes of the format.
        unsafe impl Element for $type {
            const DATA_TYPE: DataType = $dtype;
            const CHECK: Option<fn(&[u8]) -> bool> = Some(|bytes| bytes[0] >> $dtype.bits() == 0);
        }
        const _: () = assert!(size_of::<$type>() == <$type as Element>::DATA_TYPE.itemsize());
    )*};
}

#[cfg(feature = "microfloat")]
narrow_elements! {
    microfloat::f6e2m3fn = DataType::FLOAT6_E2M3FN;
    microfloat::f6e3m2fn = DataType::FLOAT6_E3M2FN;
    microfloat::f4e2m1fn = DataType::FLOAT4_E2M1FN;
}

// SAFETY: one byte without padding; the check admits only the two valid patterns.
unsafe impl Element for bool {
    const DATA_TYPE: DataType = DataType::BOOL;
    const CHECK: Option<fn(&[u8]) -> bool> = Some(|bytes| bytes[0] <= 1);
}

/// Fails to compile for a type whose size breaks the first promise of [`Element`].
pub(crate) const fn assert_layout<T: Element>() {
    assert!(size_of::<T>() != 0, "an element takes at least one byte");
    assert!(size_of::<T>() == T::DATA_TYPE.itemsize(), "an element has the size of its dtype");
}
