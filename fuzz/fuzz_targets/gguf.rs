//! Files that claim to be in the GGUF format: accepted tensors lie within the file, and do not overlap, and blocks become
//! as many numbers as the file says.
#![no_main]

use dlbridge::DataType;
use dlbridge_files::{Fault, Place, TensorFile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else { return };
    match data {
        // Few tensors and entries of metadata, and some data.
        [tensors, entries, header @ ..] if kind % 2 == 1 => {
            let counts = [u64::from(tensors % 8), u64::from(entries % 8)].map(u64::to_le_bytes);
            let start = [&b"GGUF\x03\x00\x00\x00"[..], counts.as_flattened()].concat();
            run(&[&start[..], header, &[1; 256]].concat());
        }
        _ => run(data),
    }
});

fn run(bytes: &[u8]) {
    if !bytes.starts_with(b"GGUF") {
        return;
    }
    let Ok(file) = TensorFile::from_bytes(bytes.to_vec()) else { return };
    let mut ranges = Vec::new();
    for entry in file.tensors().values() {
        let Place::Stored { offset } = entry.place else { panic!("a tensor is stored") };
        let len = entry.nbytes().expect("a number of bytes");
        assert!(offset.checked_add(len).is_some_and(|end| end <= bytes.len() as u64));
        if len > 0 {
            ranges.push(offset..offset + len);
        }
        let Some(blocks) = &entry.quantization else { continue };
        let numbers: u128 = blocks.shape.iter().map(|&extent| extent as u128).product();
        assert_eq!(numbers / blocks.block_len as u128 * blocks.block_bytes as u128, len.into());
    }
    ranges.sort_unstable_by_key(|range| range.start);
    assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
    for (name, entry) in file.tensors() {
        let shape = entry.quantization.as_ref().map_or(&entry.shape, |blocks| &blocks.shape);
        for dtype in [DataType::FLOAT32, DataType::FLOAT16, DataType::BFLOAT16] {
            match file.dequantize(name, dtype) {
                Ok(numbers) => {
                    assert!(shape.iter().map(|&n| n as i64).eq(numbers.shape().to_vec()))
                }
                // The other extents of a tensor without elements may be too large for numbers of four bytes.
                Err(error) => assert!(
                    shape.contains(&0) || matches!(error.fault(), Fault::Refused { .. }),
                    "{error}"
                ),
            }
        }
    }
}
