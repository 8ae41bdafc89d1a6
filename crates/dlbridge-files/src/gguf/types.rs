//! The types of tensors in GGUF files: those with an element for each number, and blocks of quantised numbers.

use dlbridge::DataType;

use crate::format::{GGUF as NAME, invalid, unsupported};
use crate::{Entry, Fault, Quantization};

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

/// The quantised types: the number of the type, its name, and how many numbers and bytes a block has.
const BLOCKS: [(u32, &str, usize, usize); 27] = [
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (29, "IQ1_M", 256, 56),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
    (42, "Q2_0", 64, 18),
];

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
    let Some(&(_, kind, block_len, block_bytes)) =
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
