//! Compares every bit pattern of the floats of microfloat with the definitions of the formats.
#![cfg(feature = "microfloat")]

use dlbridge::{DataType, Element, Error, Tensor};
use microfloat::*;

/// The meaning of the bit patterns that are not finite numbers.
#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// As IEEE 754: the highest exponent is infinity, or NaN with a mantissa.
    Ieee,
    /// All ones are NaN; infinity does not exist.
    AllOnes,
    /// Negative zero is NaN; infinity does not exist.
    NegativeZero,
    /// Every pattern is a number.
    None,
}

/// A format by its definition: the widths of sign, exponent and mantissa, the bias, and the special values.
struct Format {
    sign: bool,
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

impl Format {
    fn bits(&self) -> u32 {
        u32::from(self.sign) + self.exponent + self.mantissa
    }

    fn value(&self, bits: u8) -> f64 {
        let field = |low: u32, width: u32| u32::from(bits) >> low & ((1 << width) - 1);
        let mantissa = field(0, self.mantissa);
        let exponent = field(self.mantissa, self.exponent);
        let negative = self.sign && field(self.mantissa + self.exponent, 1) == 1;
        let highest = exponent == (1 << self.exponent) - 1;
        let all_ones = highest && mantissa == (1 << self.mantissa) - 1;
        let magnitude = match self.special {
            Special::Ieee if highest && mantissa == 0 => f64::INFINITY,
            Special::Ieee if highest => return f64::NAN,
            Special::AllOnes if all_ones => return f64::NAN,
            Special::NegativeZero if negative && exponent == 0 && mantissa == 0 => return f64::NAN,
            _ => {
                let fraction = f64::from(mantissa) / f64::from(1 << self.mantissa);
                // Without a mantissa, subnormal numbers do not exist: e8m0.
                let subnormal = exponent == 0 && self.mantissa > 0;
                let (one, exponent) = if subnormal { (0.0, 1) } else { (1.0, exponent as i32) };
                (one + fraction) * power_of_two(exponent - self.bias)
            }
        };
        if negative { -magnitude } else { magnitude }
    }
}

/// Returns an exact power of two; `powi` need not be exact.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

macro_rules! formats {
    ($($type:ident, $name:literal, $sign:literal $exponent:literal $mantissa:literal, $bias:literal, $special:ident;)*) => {
        #[test]
        fn every_pattern_has_its_defined_value() {
            $({
                let format = Format {
                    sign: $sign == 1,
                    exponent: $exponent,
                    mantissa: $mantissa,
                    bias: $bias,
                    special: Special::$special,
                };
                let dtype: DataType = $name.parse().unwrap();
                assert_eq!(<$type as Element>::DATA_TYPE, dtype);
                assert_eq!(u32::from(dtype.bits()), format.bits(), $name);
                let patterns: Vec<u8> = (0..1_u16 << format.bits()).map(|bits| bits as u8).collect();
                let values: Vec<$type> = patterns.iter().map(|&bits| $type::from_bits(bits)).collect();
                let tensor = Tensor::from(values);
                assert_eq!(tensor.is_subbyte_padded(), format.bits() < 8);
                for (&bits, value) in patterns.iter().zip(tensor.view::<$type>().unwrap()) {
                    let (found, expected) = (f64::from(value.to_f32()), format.value(bits));
                    let same = found == expected && found.is_sign_negative() == expected.is_sign_negative();
                    assert!(same || found.is_nan() && expected.is_nan(), "{} {bits:#x}: {found} {expected}", $name);
                }
            })*
        }

        #[test]
        fn patterns_round_trip_through_packed_bytes() {
            $({
                let dtype = <$type as Element>::DATA_TYPE;
                let bytes: Vec<u8> = (0..96).map(|n: u8| n.wrapping_mul(37)).collect();
                if dtype.is_subbyte() {
                    let count = 96 * 8 / usize::from(dtype.bits());
                    let packed = Tensor::from_bytes(bytes.clone(), dtype, [count], 0).unwrap();
                    let unpacked = packed.to_unpacked().unwrap();
                    let view = unpacked.view::<$type>().unwrap();
                    let raw = packed.view_subbyte().unwrap();
                    assert!(view.iter().map(|x| u64::from(x.to_bits())).eq(raw.iter()));
                    let again = unpacked.to_packed().unwrap();
                    assert_eq!(dlbridge::TensorRef::from(&again).as_bytes().unwrap(), bytes);
                } else {
                    let tensor = Tensor::from_bytes(bytes.clone(), dtype, [96], 0).unwrap();
                    let view = tensor.view::<$type>().unwrap();
                    assert!(view.iter().map(|x| x.to_bits()).eq(bytes));
                }
            })*
        }
    };
}

formats! {
    f8e3m4, "float8_e3m4", 1 3 4, 3, Ieee;
    f8e4m3, "float8_e4m3", 1 4 3, 7, Ieee;
    f8e4m3b11fnuz, "float8_e4m3b11fnuz", 1 4 3, 11, NegativeZero;
    f8e4m3fn, "float8_e4m3fn", 1 4 3, 7, AllOnes;
    f8e4m3fnuz, "float8_e4m3fnuz", 1 4 3, 8, NegativeZero;
    f8e5m2, "float8_e5m2", 1 5 2, 15, Ieee;
    f8e5m2fnuz, "float8_e5m2fnuz", 1 5 2, 16, NegativeZero;
    f8e8m0fnu, "float8_e8m0fnu", 0 8 0, 127, AllOnes;
    f6e2m3fn, "float6_e2m3fn", 1 2 3, 1, None;
    f6e3m2fn, "float6_e3m2fn", 1 3 2, 3, None;
    f4e2m1fn, "float4_e2m1fn", 1 2 1, 1, None;
}

/// The crate reads the bits above the format as a part of the number.
#[test]
fn bits_above_a_narrow_format_are_refused() {
    let padded =
        |byte| Tensor::from_padded_bytes(vec![1, byte], DataType::FLOAT4_E2M1FN, [2], 0).unwrap();
    assert_eq!(padded(0xf).view::<f4e2m1fn>().unwrap()[[1]].to_f32(), -6.0);
    for byte in [0x12, 0x80, 0xff] {
        let refused = padded(byte).view::<f4e2m1fn>().unwrap_err();
        assert_eq!(refused, Error::InvalidElement { dtype: DataType::FLOAT4_E2M1FN });
        let bits = padded(byte);
        assert_eq!(bits.view_subbyte().unwrap().get(&[1]), Some(u64::from(byte & 0xf)));
    }
    let six = Tensor::from_padded_bytes(vec![0x40_u8], DataType::FLOAT6_E2M3FN, [1], 0).unwrap();
    assert!(six.view::<f6e2m3fn>().is_err());
}
