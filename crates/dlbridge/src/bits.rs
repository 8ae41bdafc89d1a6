//! Element types that Rust's standard library lacks, for code without half or num-complex.
//!
//! Hidden from the documentation: for the crates of dlbridge alone.

/// An IEEE 754 float of 16 bits, as its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Float16(pub u16);

/// A bfloat16, as its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bfloat16(pub u16);

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

impl Float16 {
    /// The nearest 16-bit float; ties go to even.
    pub fn from_f64(value: f64) -> Self {
        Self(narrowed(value, 10, 5))
    }

    /// As [`from_f64`](Self::from_f64), for loops: without a branch, so that the compiler can vectorise them.
    #[inline]
    pub fn from_f32(value: f32) -> Self {
        let magnitude = value.abs().to_bits();
        let odd = magnitude >> 13 & 1;
        // Numbers from 65520 on become infinite by the carry; larger ones by `min`.
        let normal =
            (magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13).min(0x7c00);
        // The sum has the distance of subnormal numbers in its last bit.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
        let bits = match magnitude {
            0..0x3880_0000 => subnormal,
            0x3880_0000..=0x7f80_0000 => normal,
            _ => 0x7e00 | magnitude >> 13 & 0x1ff,
        };
        Self((value.to_bits() >> 16 & 0x8000 | bits) as u16)
    }

    /// The same number.
    #[inline]
    pub fn to_f32(self) -> f32 {
        let (sign, magnitude) = (u32::from(self.0 & 0x8000) << 16, u32::from(self.0 & 0x7fff));
        let moved = magnitude << 13;
        // Computes all three without a branch, so that the compiler can vectorise a loop over this.
        let subnormal = (magnitude as f32 * f32::from_bits((127 - 24) << 23)).to_bits();
        let normal = moved + ((127 - 15) << 23);
        let infinite_or_nan = moved | 0xff << 23;
        let bits = match magnitude {
            0..0x400 => subnormal,
            0x400..0x7c00 => normal,
            _ => infinite_or_nan,
        };
        f32::from_bits(sign | bits)
    }
}

impl Bfloat16 {
    /// The nearest bfloat16; ties go to even.
    pub fn from_f64(value: f64) -> Self {
        Self(narrowed(value, 7, 8))
    }

    /// As [`from_f64`](Self::from_f64), for loops: without a branch, so that the compiler can vectorise them.
    #[inline]
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        Self(if value.is_nan() { bits >> 16 | 0x40 } else { rounded } as u16)
    }

    /// The same number.
    #[inline]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

/// The nearest float of 16 bits: the sign, then `exponent` and `mantissa` bits. Ties go to even.
fn narrowed(value: f64, mantissa: u32, exponent: u32) -> u16 {
    /// Bits of the mantissa of an `f64`.
    const BITS: u32 = 52;
    let sign = (value.to_bits() >> 63 << 15) as u16;
    let magnitude = value.to_bits() & (u64::MAX >> 1);
    let fraction = magnitude & ((1 << BITS) - 1);
    let highest = (1_i64 << exponent) - 1;
    let infinity = (highest as u16) << mantissa;
    if value.is_nan() {
        let payload = (fraction >> (BITS - mantissa)) as u16;
        return sign | infinity | payload | 1 << (mantissa - 1);
    }
    // The exponent as the narrow format stores it.
    let biased = (magnitude >> BITS) as i64 - 1023 + (highest >> 1);
    if biased >= highest {
        return sign | infinity;
    }
    let (bits, shift) = match biased {
        1.. => ((biased as u64) << BITS | fraction, BITS - mantissa),
        // Less than half of the smallest number.
        _ if biased < -i64::from(mantissa) => return sign,
        _ => (1 << BITS | fraction, BITS - mantissa + (1 - biased) as u32),
    };
    // A carry out of the mantissa increments the exponent.
    let odd = bits >> shift & 1;
    let rounded = (bits + (1 << (shift - 1)) - 1 + odd) >> shift;
    sign | rounded as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All numbers; under Miri some of each sign and exponent, because the file has no unsafe code.
    const STEP: usize = if cfg!(miri) { 61 } else { 1 };

    #[test]
    fn float16_round_trip_keeps_every_number() {
        for bits in (0..=u16::MAX).step_by(STEP) {
            let back = Float16::from_f64(Float16(bits).to_f32().into()).0;
            // Rust does not promise the bits of a NaN that is converted.
            match Float16(bits).to_f32().is_nan() {
                true => assert!(back & 0x7fff > 0x7c00, "{bits:#x} became {back:#x}"),
                false => assert_eq!(back, bits),
            }
        }
    }

    #[test]
    fn from_f32_around_every_number_and_tie_is_from_f64() {
        for bits in (0..=u16::MAX).step_by(STEP) {
            for (exact, tie) in [(Float16(bits).to_f32(), 12), (Bfloat16(bits).to_f32(), 15)] {
                for near in [-1_i32, 0, 1].into_iter().flat_map(|n| [n, n + (1 << tie)]) {
                    let value = f32::from_bits(exact.to_bits().wrapping_add_signed(near));
                    let half = (Float16::from_f32(value).0, Float16::from_f64(value.into()).0);
                    let brain = (Bfloat16::from_f32(value).0, Bfloat16::from_f64(value.into()).0);
                    match value.is_nan() {
                        true => assert!(half.0 & 0x7fff > 0x7c00 && brain.0 & 0x7fff > 0x7f80),
                        false => assert_eq!((half.0, brain.0), (half.1, brain.1), "{value:e}"),
                    }
                }
            }
        }
    }

    #[test]
    fn bfloat16_round_trip_keeps_every_number() {
        for bits in (0..=u16::MAX).step_by(STEP) {
            let back = Bfloat16::from_f64(Bfloat16(bits).to_f32().into()).0;
            match Bfloat16(bits).to_f32().is_nan() {
                true => assert!(back & 0x7fff > 0x7f80, "{bits:#x} became {back:#x}"),
                false => assert_eq!(back, bits),
            }
        }
    }

    #[test]
    fn float16_between_two_numbers_rounds_to_nearest_even() {
        for bits in (0..0x7bff_u16).step_by(STEP) {
            let (low, high) = (Float16(bits).to_f32(), Float16(bits + 1).to_f32());
            let middle = (f64::from(low) + f64::from(high)) / 2.0;
            let even = bits + (bits & 1);
            assert_eq!(Float16::from_f64(middle).0, even);
            assert_eq!(Float16::from_f64(middle.next_up()).0, bits + 1);
            assert_eq!(Float16::from_f64(-middle.next_down()).0, bits | 0x8000);
        }
    }

    #[test]
    fn float16_beyond_largest_number_is_infinite() {
        assert_eq!(Float16::from_f64(65519.999).0, 0x7bff);
        assert_eq!(Float16::from_f64(65520.0).0, 0x7c00);
        assert_eq!(Bfloat16::from_f64(f64::MAX).0, 0x7f80);
        assert_eq!(Bfloat16::from_f64(f64::NEG_INFINITY).0, 0xff80);
        assert_eq!(Float16::from_f64(f64::MIN_POSITIVE).0, 0);
    }
}
