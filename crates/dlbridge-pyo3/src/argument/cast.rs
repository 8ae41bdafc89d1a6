//! Conversions by NumPy's casting rules: `AllowCast` and `AllowSafeCast`.

use dlbridge::bits::{Bfloat16, Complex, Float16};
use dlbridge::{DataType, DataTypeCode as Code, Element, Tensor};
use pyo3::PyResult;

use super::accepts::Accepts;
use super::convert::{OutOfRange, Source, accepts, converted, converted_bool};

/// Makes a copy in C order with elements of one of the given dtypes; `None` if the rule allows none of them.
///
/// An element that the chosen dtype cannot hold is stored in the last argument.
pub(super) type Cast =
    fn(&Source<'_>, &[DataType], &mut Option<OutOfRange>) -> PyResult<Option<Tensor>>;

/// Converts by the rule `safe`.
pub(super) fn safe<A: Accepts>(
    source: &Source<'_>,
    dtypes: &[DataType],
    _: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    match first(source.dtype(), dtypes, is_safe) {
        Some(dtype) => cast::<A>(source, dtype),
        None => Ok(None),
    }
}

/// Converts by the rule `same_kind`. Prefers a dtype that `safe` allows, if there is one.
pub(super) fn same_kind<A: Accepts>(
    source: &Source<'_>,
    dtypes: &[DataType],
    _: &mut Option<OutOfRange>,
) -> PyResult<Option<Tensor>> {
    let from = source.dtype();
    match first(from, dtypes, is_safe).or_else(|| first(from, dtypes, is_same_kind)) {
        Some(dtype) => cast::<A>(source, dtype),
        None => Ok(None),
    }
}

fn first(
    from: DataType,
    dtypes: &[DataType],
    is_allowed: fn(DataType, DataType) -> bool,
) -> Option<DataType> {
    dtypes.iter().copied().find(|&dtype| is_allowed(from, dtype))
}

/// The rank of a kind in NumPy's conversion order.
fn rank(dtype: DataType) -> u8 {
    match dtype.code() {
        Code::BOOL => 0,
        Code::UINT => 1,
        Code::INT => 2,
        Code::FLOAT | Code::BFLOAT => 3,
        _ => 4,
    }
}

/// Returns true if NumPy's rule `same_kind` allows the cast. Only for dtypes that `cast` supports.
fn is_same_kind(from: DataType, to: DataType) -> bool {
    // ml_dtypes registers no cast from bfloat16 to float16, which has fewer exponents.
    rank(from) <= rank(to) && (from.code(), to) != (Code::BFLOAT, DataType::FLOAT16)
}

/// The largest integers, in bits, that a float holds exactly or that NumPy counts as safe; `None` for other dtypes.
fn integer_bits(dtype: DataType) -> Option<u8> {
    match (dtype.code(), dtype.bits()) {
        (Code::FLOAT, 16) | (Code::BFLOAT, 16) => Some(8),
        (Code::FLOAT, 32) | (Code::COMPLEX, 64) => Some(16),
        (Code::FLOAT, 64) | (Code::COMPLEX, 128) => Some(64),
        _ => None,
    }
}

/// Returns true if NumPy's rule `safe` allows the cast. Only for dtypes that `cast` supports.
pub(super) fn is_safe(from: DataType, to: DataType) -> bool {
    // For a complex number, the bits of one component.
    let bits = |dtype: DataType| match dtype.code() {
        Code::COMPLEX => dtype.bits() / 2,
        _ => dtype.bits(),
    };
    match (from.code(), to.code()) {
        (Code::BOOL, _) => true,
        (Code::UINT, Code::UINT) | (Code::INT, Code::INT) => from.bits() <= to.bits(),
        (Code::UINT, Code::INT) => from.bits() < to.bits(),
        (Code::UINT | Code::INT, _) => integer_bits(to).is_some_and(|bits| from.bits() <= bits),
        // Each of float16 and bfloat16 has numbers that the other lacks.
        (Code::FLOAT | Code::BFLOAT, Code::FLOAT | Code::BFLOAT) => bits(from) < bits(to),
        (Code::FLOAT | Code::BFLOAT | Code::COMPLEX, Code::COMPLEX) => bits(from) <= bits(to),
        _ => false,
    }
}

/// The conversion of an element to another type.
trait Become<T> {
    fn become_(self) -> T;
}

/// Numbers that `as` converts.
macro_rules! by_as {
    ($($from:ty => $($to:ty),+;)+) => {$($(
        impl Become<$to> for $from {
            #[inline(always)]
            fn become_(self) -> $to {
                self as $to
            }
        }
    )+)+};
}

by_as! {
    u8 => u16, u32, u64, i8, i16, i32, i64, f32, f64;
    u16 => u8, u32, u64, i8, i16, i32, i64, f32, f64;
    u32 => u8, u16, u64, i8, i16, i32, i64, f32, f64;
    u64 => u8, u16, u32, i8, i16, i32, i64, f32, f64;
    i8 => i16, i32, i64, f32, f64;
    i16 => i8, i32, i64, f32, f64;
    i32 => i8, i16, i64, f32, f64;
    i64 => i8, i16, i32, f32, f64;
    f32 => f64;
    f64 => f32;
}

/// Numbers that are converted through a third type.
macro_rules! by_way {
    ($($from:ty, $value:ident: $by:expr => $($to:ty),+;)+) => {$($(
        impl Become<$to> for $from {
            #[inline(always)]
            fn become_(self) -> $to {
                let $value = self;
                Become::<$to>::become_($by)
            }
        }
    )+)+};
}

by_way! {
    Float16, value: value.to_f32() => f64, Bfloat16;
    Bfloat16, value: value.to_f32() => f64;
    u8, value: value as f32 => Float16, Bfloat16;
    u16, value: value as f32 => Float16, Bfloat16;
    u32, value: value as f32 => Float16, Bfloat16;
    u64, value: value as f32 => Float16, Bfloat16;
    i8, value: value as f32 => Float16, Bfloat16;
    i16, value: value as f32 => Float16, Bfloat16;
    i32, value: value as f32 => Float16, Bfloat16;
    i64, value: value as f32 => Float16, Bfloat16;
    f32, value: f64::from(value) => Float16, Bfloat16;
}

impl Become<u8> for bool {
    #[inline(always)]
    fn become_(self) -> u8 {
        u8::from(self)
    }
}

impl Become<f32> for Float16 {
    #[inline(always)]
    fn become_(self) -> f32 {
        self.to_f32()
    }
}

impl Become<f32> for Bfloat16 {
    #[inline(always)]
    fn become_(self) -> f32 {
        self.to_f32()
    }
}

impl Become<Float16> for f64 {
    fn become_(self) -> Float16 {
        Float16::from_f64(self)
    }
}

impl Become<Bfloat16> for f64 {
    fn become_(self) -> Bfloat16 {
        Bfloat16::from_f64(self)
    }
}

/// Real numbers get the imaginary part 0.
macro_rules! as_complex {
    ($($from:ty),+) => {$(
        impl Become<Complex<f32>> for $from {
            #[inline(always)]
            fn become_(self) -> Complex<f32> {
                Complex { re: Become::become_(self), im: 0.0 }
            }
        }

        impl Become<Complex<f64>> for $from {
            #[inline(always)]
            fn become_(self) -> Complex<f64> {
                Complex { re: Become::become_(self), im: 0.0 }
            }
        }
    )+};
}

as_complex!(u8, u16, u32, u64, i8, i16, i32, i64, Float16, Bfloat16);

macro_rules! between_complex {
    ($($from:ty, $value:ident => $re:expr, $im:expr, $to:ty;)+) => {$(
        impl Become<Complex<$to>> for $from {
            #[inline(always)]
            fn become_(self) -> Complex<$to> {
                let $value = self;
                Complex { re: $re as $to, im: $im as $to }
            }
        }
    )+};
}

between_complex! {
    f32, value => value, 0.0, f32;
    f32, value => value, 0.0, f64;
    f64, value => value, 0.0, f32;
    f64, value => value, 0.0, f64;
    Complex<f32>, value => value.re, value.im, f64;
    Complex<f64>, value => value.re, value.im, f32;
}

/// A copy in C order with elements of another dtype; `None` for unsupported dtypes.
fn cast<A: Accepts>(source: &Source<'_>, dtype: DataType) -> PyResult<Option<Tensor>> {
    macro_rules! pairs {
        ($($from:ty => $($to:ty),+;)+) => {
            $(if source.dtype() == <$from>::DTYPE {
                $(if const { accepts::<A>(<$to>::DTYPE) } && dtype == <$to>::DTYPE {
                    return converted(source, <$from as Become<$to>>::become_).map(Some);
                })+
            })+
        };
    }
    macro_rules! from_bool {
        ($($way:ty => $($to:ty),+;)+) => {$($(
            if const { accepts::<A>(<$to>::DTYPE) }
                && (source.dtype(), dtype) == (DataType::BOOL, <$to>::DTYPE)
            {
                let convert = |value| <$way as Become<$to>>::become_(<$way as From<bool>>::from(value));
                return converted_bool(source, convert).map(Some);
            }
        )+)+};
    }
    from_bool! {
        u8 => u16, u32, u64, i8, i16, i32, i64, f32, Float16, Bfloat16, Complex<f32>, Complex<f64>;
        bool => u8;
        i32 => f64;
    }
    pairs! {
        u8 => u16, u32, u64, i8, i16, i32, i64, f32, f64, Float16, Bfloat16, Complex<f32>, Complex<f64>;
        u16 => u8, u32, u64, i8, i16, i32, i64, f32, f64, Float16, Bfloat16, Complex<f32>, Complex<f64>;
        u32 => u8, u16, u64, i8, i16, i32, i64, f32, f64, Float16, Bfloat16, Complex<f32>, Complex<f64>;
        u64 => u8, u16, u32, i8, i16, i32, i64, f32, f64, Float16, Bfloat16, Complex<f32>, Complex<f64>;
        i8 => i16, i32, i64, f32, f64, Float16, Bfloat16, Complex<f32>, Complex<f64>;
        i16 => i8, i32, i64, f32, f64, Float16, Bfloat16, Complex<f32>, Complex<f64>;
        i32 => i8, i16, i64, f32, f64, Float16, Bfloat16, Complex<f32>, Complex<f64>;
        i64 => i8, i16, i32, f32, f64, Float16, Bfloat16, Complex<f32>, Complex<f64>;
        Float16 => f32, f64, Bfloat16, Complex<f32>, Complex<f64>;
        Bfloat16 => f32, f64, Complex<f32>, Complex<f64>;
        f32 => f64, Float16, Bfloat16, Complex<f32>, Complex<f64>;
        f64 => f32, Float16, Bfloat16, Complex<f32>, Complex<f64>;
        Complex<f32> => Complex<f64>;
        Complex<f64> => Complex<f32>;
    }
    Ok(None)
}
