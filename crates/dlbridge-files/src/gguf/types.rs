//! The types of tensors in GGUF files: those with an element for each number, and blocks of quantised numbers.

use dlbridge::DataType;

use super::blocks::{self, Read, bfloat16, each, float16};
use crate::formats::{GGUF as NAME, invalid, unsupported};
use crate::{Entry, Fault, Quantization};

/// Makes [`BLOCKS`] of the names of the functions in [`blocks`] that read one block, for types that this crate reads.
macro_rules! table {
    (@read $len:literal $bytes:literal) => { None };
    (@read $len:literal $bytes:literal $read:ident) => {
        Some(|all, to| blocks::read::<$bytes, { $len / 16 }, _>(all, to, blocks::$read))
    };
    ($($number:literal $name:literal $len:literal $bytes:literal $($read:ident)?;)*) => {
        &[$(($number, $name, $len, $bytes, table!(@read $len $bytes $($read)?))),*]
    };
}

/// The types whose elements are numbers.
const ELEMENTS: [(u32, DataType); 8] = [
    (0, DataType::FLOAT32),
    (1, DataType::FLOAT16),
    (24, DataType::INT8),
    (25, DataType::INT16),
    (26, DataType::INT32),
    (27, DataType::INT64),
    (28, DataType::FLOAT64),
    (30, DataType::BFLOAT16),
];

/// The quantised types: the number of the type, its name, the elements and bytes of a block, and what reads them.
const BLOCKS: &[(u32, &str, usize, usize, Option<Read>)] = table! {
    2 "Q4_0" 32 18 q4_0;
    3 "Q4_1" 32 20 q4_1;
    6 "Q5_0" 32 22 q5_0;
    7 "Q5_1" 32 24 q5_1;
    8 "Q8_0" 32 34 q8_0;
    9 "Q8_1" 32 36;
    10 "Q2_K" 256 84 q2_k;
    11 "Q3_K" 256 110 q3_k;
    12 "Q4_K" 256 144 q4_k;
    13 "Q5_K" 256 176 q5_k;
    14 "Q6_K" 256 210 q6_k;
    15 "Q8_K" 256 292;
    16 "IQ2_XXS" 256 66;
    17 "IQ2_XS" 256 74;
    18 "IQ3_XXS" 256 98;
    19 "IQ1_S" 256 50;
    20 "IQ4_NL" 32 18 iq4_nl;
    21 "IQ3_S" 256 110;
    22 "IQ2_S" 256 82;
    23 "IQ4_XS" 256 136 iq4_xs;
    29 "IQ1_M" 256 56;
    34 "TQ1_0" 256 54 tq1_0;
    35 "TQ2_0" 256 66 tq2_0;
    39 "MXFP4" 32 17 mxfp4;
    40 "NVFP4" 64 36;
    41 "Q1_0" 128 18;
    42 "Q2_0" 64 18;
};

/// The description of a tensor of the type with a number, and of the extents of its numbers in C order.
pub(super) fn entry(
    name: &str,
    number: u32,
    mut shape: Vec<usize>,
    offset: u64,
) -> Result<Entry, Fault> {
    if let Some(&(_, dtype)) = ELEMENTS.iter().find(|(known, _)| *known == number) {
        // Files of this byte order alone are read.
        let is_swapped = cfg!(target_endian = "big") && dtype.itemsize() > 1;
        return Ok(Entry { is_swapped, ..Entry::stored(dtype, shape, offset) });
    }
    let Some(&(_, kind, block_len, block_bytes, _)) =
        BLOCKS.iter().find(|(known, ..)| *known == number)
    else {
        return Err(unknown(number));
    };
    let quantization = Quantization { name: kind, block_len, block_bytes, shape: shape.clone() };
    let Some(last) = shape.last_mut().filter(|last| last.is_multiple_of(block_len)) else {
        let reason = format!(
            "tensor {name:?} has rows of {} numbers, and {kind} has blocks of {block_len}",
            quantization.shape.last().unwrap_or(&1)
        );
        return Err(invalid(NAME, reason));
    };
    *last = (*last / block_len).checked_mul(block_bytes).ok_or_else(|| too_large(name))?;
    let entry = Entry::stored(DataType::UINT8, shape, offset);
    Ok(Entry { quantization: Some(quantization), ..entry })
}

/// The function that reads the numbers of a tensor, with the elements and bytes of a block; or the reason why there is none.
pub(super) fn reader(entry: &Entry) -> Result<(Read, usize, usize), String> {
    let Some(blocks) = &entry.quantization else {
        return match entry.dtype {
            DataType::FLOAT32 => {
                Ok((|all, to| each(all.as_chunks().0, to, f32::from_ne_bytes), 1, 4))
            }
            DataType::FLOAT16 => Ok((|all, to| each(all.as_chunks().0, to, float16), 1, 2)),
            DataType::BFLOAT16 => Ok((|all, to| each(all.as_chunks().0, to, bfloat16), 1, 2)),
            dtype => Err(format!("its elements are {dtype}, not blocks; read them as they are")),
        };
    };
    let known = BLOCKS.iter().find(|(_, name, ..)| *name == blocks.name);
    let read = known.and_then(|&(_, _, len, bytes, read)| Some((read?, len, bytes)));
    let unread = "whose numbers this library does not compute; gguf-py does, of the bytes";
    read.ok_or_else(|| format!("it has blocks of the type {}, {unread}", blocks.name))
}

/// The fault that a type is not known.
fn unknown(number: u32) -> Fault {
    let reason = match number {
        4 | 5 | 31..=33 | 36..=38 => "the format no longer has; convert the model again",
        _ => "is unknown",
    };
    unsupported(NAME, format!("it has the type {number}, which {reason}"))
}

/// The fault that a tensor has too many elements.
pub(super) fn too_large(name: &str) -> Fault {
    invalid(NAME, format!("tensor {name:?} has more bytes than any file"))
}
