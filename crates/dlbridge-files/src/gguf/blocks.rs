//! The numbers of quantised blocks.
//!
//! Each type is a function from a block, and the number of sixteen elements in it, to a [`Sixteen`]. Integers are packed
//! in one way in all types, which [`packed`] describes; the layouts are those of ggml's `block_q4_0` and so on. The order
//! of the operations is that of gguf-py, so that the numbers have the same bits.

use std::{array, iter};

use dlbridge::bits::{Bfloat16, Float16};
use dlbridge::{DataType, Tensor, TensorRef};

use super::types;
use crate::{Entry, Fault};

/// Reads blocks, and writes as many numbers as they have.
pub(super) type Read = fn(&[u8], &mut [f32]);

/// Converts numbers to the bits of floats of 16 bits.
type Narrow = fn(&[f32], &mut [u16]);

/// Sixteen elements: a scale, what is subtracted from each product, and integers, as `f32` if they are those of a table.
type Sixteen<Q = i8> = (f32, f32, [Q; 16]);

/// The largest number of elements of a block, and a multiple of that of each other type.
const PIECE: usize = 256;

/// The numbers of IQ4_NL and IQ4_XS.
const IQ4: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0,
    89.0, 113.0,
];

/// The numbers of MXFP4, twice those of `float4_e2m1fn`.
const E2M1: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// The numbers of a tensor of blocks, or of floats of 16 or 32 bits, as another dtype.
pub(crate) fn dequantized(
    name: &str,
    entry: &Entry,
    dtype: DataType,
    tensor: impl FnOnce() -> Result<Tensor, Fault>,
) -> Result<Tensor, Fault> {
    let refused = |reason| Fault::Refused { name: name.into(), reason };
    let narrow: Option<Narrow> = match dtype {
        DataType::FLOAT32 => None,
        DataType::FLOAT16 => Some(|numbers, to| each(numbers, to, |x| Float16::from_f32(x).0)),
        DataType::BFLOAT16 => Some(|numbers, to| each(numbers, to, |x| Bfloat16::from_f32(x).0)),
        _ => {
            let known = "float32, float16 or bfloat16";
            return Err(refused(format!("its numbers become {known}, not {dtype}")));
        }
    };
    let (read, len, size) = types::reader(entry).map_err(refused)?;
    let shape = entry.quantization.as_ref().map_or(&entry.shape, |blocks| &blocks.shape);
    let tensor = tensor()?;
    let write = || {
        let (tensor, _) = tensor.into_contiguous()?;
        let bytes = TensorRef::from(&tensor).as_bytes()?;
        let blocks = |begin: usize| &bytes[begin / len * size..];
        let Some(narrow) = narrow else {
            return Tensor::filled(dtype, shape, PIECE, &|begin, part| read(blocks(begin), part));
        };
        Tensor::filled(dtype, shape, PIECE, &|begin, part| {
            let mut numbers = [0.0; PIECE];
            let blocks = blocks(begin).chunks(PIECE / len * size);
            for (part, blocks) in iter::zip(part.chunks_mut(PIECE), blocks) {
                let numbers = &mut numbers[..part.len()];
                read(blocks, numbers);
                narrow(numbers, part);
            }
        })
    };
    write().map_err(|error| Fault::Tensor { name: name.into(), error })
}

/// Reads blocks of `BYTES` bytes and `16 * SIXTEENS` elements.
pub(super) fn read<const BYTES: usize, const SIXTEENS: usize, Q: Into<f32>>(
    blocks: &[u8],
    numbers: &mut [f32],
    sixteen: impl Fn(&[u8; BYTES], usize) -> Sixteen<Q>,
) {
    let (numbers, _) = numbers.as_chunks_mut::<16>();
    let (numbers, _) = numbers.as_chunks_mut::<SIXTEENS>();
    for (block, numbers) in iter::zip(blocks.as_chunks().0, numbers) {
        for (nth, numbers) in numbers.iter_mut().enumerate() {
            let (scale, less, integers) = sixteen(block, nth);
            *numbers = integers.map(|q| scale * q.into() - less);
        }
    }
}

/// Converts each of some elements.
pub(super) fn each<T: Copy, U>(from: &[T], to: &mut [U], convert: impl Fn(T) -> U) {
    iter::zip(from, to).for_each(|(&from, to)| *to = convert(from));
}

pub(super) fn float16(bytes: [u8; 2]) -> f32 {
    Float16(u16::from_ne_bytes(bytes)).to_f32()
}

pub(super) fn bfloat16(bytes: [u8; 2]) -> f32 {
    Bfloat16(u16::from_ne_bytes(bytes)).to_f32()
}

/// The float of 16 bits at a byte of a block.
fn half(block: &[u8], at: usize) -> f32 {
    Float16(u16::from_le_bytes([block[at], block[at + 1]])).to_f32()
}

/// Integers `16 * nth` to `16 * nth + 15` of those with `BITS` bits each: `span` bytes have the next `span` integers in
/// their lowest bits, then again as many in the bits above, and so on.
#[inline(always)]
fn packed<const BITS: usize>(bytes: &[u8], span: usize, nth: usize) -> [i8; 16] {
    let (first, layers) = (16 * nth, 8 / BITS);
    let begin = first / (span * layers) * span + first % span;
    let shift = BITS * (first / span % layers);
    let bytes = &bytes[begin..begin + 16];
    array::from_fn(|i| ((bytes[i] >> shift) & (u8::MAX >> (8 - BITS))) as i8)
}

/// Integers with further bits above those of `low`.
#[inline(always)]
fn joined(low: [i8; 16], high: [i8; 16], bits: usize, less: i8) -> [i8; 16] {
    array::from_fn(|i| (low[i] | high[i] << bits) - less)
}

/// Sixteen integers of five bits: Q5_0 and Q5_1 have the highest ones side by side.
fn fives(high: &[u8], low: &[u8], nth: usize, less: i8) -> [i8; 16] {
    let high: [i8; 16] = array::from_fn(|i| ((high[2 * nth + i / 8] >> (i % 8)) & 1) as i8);
    joined(packed::<4>(low, 16, nth), high, 4, less)
}

/// The scale and the minimum of 32 elements of Q4_K and Q5_K, of six bits each.
fn scales(block: &[u8], nth: usize) -> (f32, f32) {
    let (s, n) = (&block[4..16], nth % 4);
    let (scale, min) = match nth {
        0..4 => (s[n] & 63, s[n + 4] & 63),
        _ => (s[n + 8] & 15 | s[n] >> 2 & 48, s[n + 8] >> 4 | s[n + 4] >> 2 & 48),
    };
    (half(block, 0) * f32::from(scale), half(block, 2) * f32::from(min))
}

pub(super) fn q4_0(b: &[u8; 18], nth: usize) -> Sixteen {
    (half(b, 0), 0.0, packed::<4>(&b[2..], 16, nth).map(|q| q - 8))
}

pub(super) fn q4_1(b: &[u8; 20], nth: usize) -> Sixteen {
    (half(b, 0), -half(b, 2), packed::<4>(&b[4..], 16, nth))
}

pub(super) fn q5_0(b: &[u8; 22], nth: usize) -> Sixteen {
    (half(b, 0), 0.0, fives(&b[2..6], &b[6..], nth, 16))
}

pub(super) fn q5_1(b: &[u8; 24], nth: usize) -> Sixteen {
    (half(b, 0), -half(b, 2), fives(&b[4..8], &b[8..], nth, 0))
}

pub(super) fn q8_0(b: &[u8; 34], nth: usize) -> Sixteen {
    (half(b, 0), 0.0, packed::<8>(&b[2..], 16, nth))
}

pub(super) fn q2_k(b: &[u8; 84], nth: usize) -> Sixteen {
    let (scale, min) = (f32::from(b[nth] & 15), f32::from(b[nth] >> 4));
    (half(b, 80) * scale, half(b, 82) * min, packed::<2>(&b[16..80], 32, nth))
}

pub(super) fn q3_k(b: &[u8; 110], nth: usize) -> Sixteen {
    let low = (b[96 + nth % 8] >> (nth / 8 * 4)) & 15;
    let scale = low | ((b[104 + nth % 4] >> (nth / 4 * 2)) & 3) << 4;
    let integers = (packed::<2>(&b[32..96], 32, nth), packed::<1>(&b[..32], 32, nth));
    (half(b, 108) * (f32::from(scale) - 32.0), 0.0, joined(integers.0, integers.1, 2, 4))
}

pub(super) fn q4_k(b: &[u8; 144], nth: usize) -> Sixteen {
    let (scale, min) = scales(b, nth / 2);
    (scale, min, packed::<4>(&b[16..], 32, nth))
}

pub(super) fn q5_k(b: &[u8; 176], nth: usize) -> Sixteen {
    let (scale, min) = scales(b, nth / 2);
    let integers = (packed::<4>(&b[48..], 32, nth), packed::<1>(&b[16..48], 32, nth));
    (scale, min, joined(integers.0, integers.1, 4, 0))
}

pub(super) fn q6_k(b: &[u8; 210], nth: usize) -> Sixteen {
    let integers = (packed::<4>(&b[..128], 64, nth), packed::<2>(&b[128..192], 32, nth));
    let scale = half(b, 208) * f32::from(b[192 + nth] as i8);
    (scale, 0.0, joined(integers.0, integers.1, 4, 32))
}

pub(super) fn iq4_nl(b: &[u8; 18], nth: usize) -> Sixteen<f32> {
    (half(b, 0), 0.0, packed::<4>(&b[2..], 16, nth).map(|q| IQ4[q as usize]))
}

pub(super) fn iq4_xs(b: &[u8; 136], nth: usize) -> Sixteen<f32> {
    let pair = nth / 2;
    let low = (b[4 + pair / 2] >> (pair % 2 * 4)) & 15;
    let scale = low | ((b[2 + pair / 4] >> (pair % 4 * 2)) & 3) << 4;
    let integers = packed::<4>(&b[8..], 16, nth).map(|q| IQ4[q as usize]);
    (half(b, 0) * (f32::from(scale) - 32.0), 0.0, integers)
}

pub(super) fn mxfp4(b: &[u8; 17], nth: usize) -> Sixteen<f32> {
    // Half of a power of two, which may be subnormal.
    let scale = match u32::from(b[0]) {
        exponent @ 0..2 => 0x0020_0000 << exponent,
        exponent => (exponent - 1) << 23,
    };
    let integers = packed::<4>(&b[1..], 16, nth).map(|q| E2M1[q as usize]);
    (f32::from_bits(scale), 0.0, integers)
}

pub(super) fn tq1_0(b: &[u8; 54], nth: usize) -> Sixteen {
    // A byte has five digits of base 3, as a fraction of 256. The product drops those above the one that is read.
    const POWERS: [u16; 5] = [1, 3, 9, 27, 81];
    let (bytes, powers): (&[u8], [u16; 16]) = match nth {
        0..10 => (&b[nth % 2 * 16..][..16], [POWERS[nth / 2]; 16]),
        10..15 => (&b[32..48], [POWERS[nth - 10]; 16]),
        _ => (&array::from_fn::<_, 16, _>(|i| b[48 + i % 4]), array::from_fn(|i| POWERS[i / 4])),
    };
    let rest = |i: usize| (u16::from(bytes[i]) * powers[i]) & 0xff;
    (half(b, 52), 0.0, array::from_fn(|i| ((rest(i) * 3) >> 8) as i8 - 1))
}

pub(super) fn tq2_0(b: &[u8; 66], nth: usize) -> Sixteen {
    (half(b, 64), 0.0, packed::<2>(&b[..64], 32, nth).map(|q| q - 1))
}
