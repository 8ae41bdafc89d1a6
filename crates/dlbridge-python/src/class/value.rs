//! The value of an element, decoded from its bytes.

use std::fmt;

use dlbridge::{DataType, DataTypeCode as Code};

/// The number in a lane of an element.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Bool(bool),
    Int(i128),
    Uint(u128),
    Float(f64, Single),
    Complex(f64, f64, Single),
}

/// True if the digits of an `f32` distinguish a float from its neighbours.
type Single = bool;

/// Floats of up to 16 bits: a sign, an exponent, a mantissa.
struct Small {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

/// The bit patterns of a small float that are not a finite number.
#[derive(PartialEq)]
enum Special {
    /// The highest exponent: infinities and NaN.
    Ieee,
    /// All bits except the sign: NaN.
    NanAtEnd,
    /// The sign bit alone: NaN.
    NanAtSign,
    /// Every pattern is finite.
    Finite,
}

impl Small {
    const fn new(exponent: u32, mantissa: u32, bias: i32, special: Special) -> Option<Self> {
        Some(Self { exponent, mantissa, bias, special })
    }

    fn of(dtype: DataType) -> Option<Self> {
        use Special::{Finite, Ieee, NanAtEnd, NanAtSign};
        match (dtype.code(), dtype.bits()) {
            (Code::FLOAT, 16) => Self::new(5, 10, 15, Ieee),
            (Code::BFLOAT, 16) => Self::new(8, 7, 127, Ieee),
            (Code::FLOAT8_E3M4, 8) => Self::new(3, 4, 3, Ieee),
            (Code::FLOAT8_E4M3, 8) => Self::new(4, 3, 7, Ieee),
            (Code::FLOAT8_E4M3B11FNUZ, 8) => Self::new(4, 3, 11, NanAtSign),
            (Code::FLOAT8_E4M3FN, 8) => Self::new(4, 3, 7, NanAtEnd),
            (Code::FLOAT8_E4M3FNUZ, 8) => Self::new(4, 3, 8, NanAtSign),
            (Code::FLOAT8_E5M2, 8) => Self::new(5, 2, 15, Ieee),
            (Code::FLOAT8_E5M2FNUZ, 8) => Self::new(5, 2, 16, NanAtSign),
            (Code::FLOAT6_E2M3FN, 6) => Self::new(2, 3, 1, Finite),
            (Code::FLOAT6_E3M2FN, 6) => Self::new(3, 2, 3, Finite),
            (Code::FLOAT4_E2M1FN, 4) => Self::new(2, 1, 1, Finite),
            _ => None,
        }
    }

    fn value(&self, bits: u32) -> f64 {
        let sign_bit = 1_u32 << (self.exponent + self.mantissa);
        let magnitude = bits & (sign_bit - 1);
        let sign = if bits & sign_bit != 0 { -1.0 } else { 1.0 };
        let mantissa = magnitude & ((1 << self.mantissa) - 1);
        let exponent = magnitude >> self.mantissa;
        let highest = exponent == (1 << self.exponent) - 1;
        match self.special {
            Special::Ieee if highest && mantissa == 0 => return sign * f64::INFINITY,
            Special::Ieee if highest => return f64::NAN,
            Special::NanAtEnd if magnitude == sign_bit - 1 => return f64::NAN,
            Special::NanAtSign if bits & (2 * sign_bit - 1) == sign_bit => return f64::NAN,
            _ => {}
        }
        // Subnormal numbers lack the leading one.
        let (leading, exponent) = match exponent {
            0 => (0, 1),
            exponent => (1 << self.mantissa, exponent as i32),
        };
        let fraction = f64::from(leading + mantissa);
        sign * fraction * 2.0_f64.powi(exponent - self.bias - self.mantissa as i32)
    }
}

impl Value {
    /// Returns true if Python has values for the elements of a dtype.
    pub(super) fn exists(dtype: DataType) -> bool {
        match dtype.code() {
            Code::INT | Code::UINT | Code::OPAQUE_HANDLE => dtype.bits() <= 128,
            Code::BOOL => true,
            Code::FLOAT => matches!(dtype.bits(), 16 | 32 | 64),
            Code::COMPLEX => matches!(dtype.bits(), 32 | 64 | 128),
            Code::FLOAT8_E8M0FNU => dtype.bits() == 8,
            _ => Small::of(dtype).is_some(),
        }
    }

    /// The number in a lane of an element whose dtype has values. Missing bits count as zero.
    pub(super) fn of_lane(dtype: DataType, bytes: &[u8], lane: usize) -> Self {
        let width = usize::from(dtype.bits());
        match dtype.code() {
            Code::COMPLEX => {
                let half = DataType::new(Code::FLOAT, dtype.bits() / 2, 1);
                let part =
                    |nth| float(half, bits_at(bytes, (2 * lane + nth) * width / 2, width / 2));
                Self::Complex(part(0), part(1), width <= 64)
            }
            code => {
                let bits = bits_at(bytes, lane * width, width);
                match code {
                    Code::BOOL => Self::Bool(bits != 0),
                    Code::INT => {
                        let unused = 128 - width as u32;
                        Self::Int((bits << unused).cast_signed() >> unused)
                    }
                    Code::UINT | Code::OPAQUE_HANDLE => Self::Uint(bits),
                    _ => Self::Float(float(dtype, bits), width <= 32),
                }
            }
        }
    }
}

/// `width` bits of the bytes, from bit `first` on; the first bit is the lowest, on this machine.
fn bits_at(bytes: &[u8], first: usize, width: usize) -> u128 {
    let whole = first.is_multiple_of(8) && width.is_multiple_of(8);
    if whole && let Some(number) = bytes.get(first / 8..(first + width) / 8) {
        let shift = |bits: u128, &byte: &u8| bits << 8 | u128::from(byte);
        return match cfg!(target_endian = "little") {
            true => number.iter().rev().fold(0, shift),
            false => number.iter().fold(0, shift),
        };
    }
    let bit = |nth: usize| bytes.get(nth / 8).is_some_and(|byte| byte >> (nth % 8) & 1 != 0);
    (0..width).fold(0, |bits, nth| bits | u128::from(bit(first + nth)) << nth)
}

fn float(dtype: DataType, bits: u128) -> f64 {
    match (dtype.code(), dtype.bits()) {
        (Code::FLOAT, 64) => f64::from_bits(bits as u64),
        (Code::FLOAT, 32) => f64::from(f32::from_bits(bits as u32)),
        (Code::FLOAT8_E8M0FNU, _) if bits == 0xff => f64::NAN,
        (Code::FLOAT8_E8M0FNU, _) => 2.0_f64.powi(bits as i32 - 127),
        _ => Small::of(dtype).map_or(f64::NAN, |small| small.value(bits as u32)),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::Float(value, single) => write_float(f, value, single),
            Self::Complex(real, imaginary, single) => {
                f.write_str("(")?;
                write_float(f, real, single)?;
                if !imaginary.is_sign_negative() || imaginary.is_nan() {
                    f.write_str("+")?;
                }
                write_float(f, imaginary, single)?;
                f.write_str("j)")
            }
        }
    }
}

/// Writes a float as Python does, with the digits of the dtype.
fn write_float(f: &mut fmt::Formatter<'_>, value: f64, single: Single) -> fmt::Result {
    match single {
        _ if value.is_nan() => f.write_str("nan"),
        true => write!(f, "{:?}", value as f32),
        false => write!(f, "{value:?}"),
    }
}
