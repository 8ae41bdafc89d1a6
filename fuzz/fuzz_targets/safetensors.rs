//! Files that claim to be in the safetensors format: loaded tensors lie within the file, and survive being written and
//! loaded again. `dlbridge-files` finds the same tensors as the format's own library, or refuses the file.
#![no_main]

use std::collections::BTreeMap;
use std::hint::black_box;

use std::io::Cursor;

use dlbridge::{Tensor, TensorRef, safetensors};
use dlbridge_files::{Format, Index, Place, Safetensors};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else { return };
    if kind % 4 == 0 {
        run(data.to_vec());
    } else if let Some((&zeros, header)) = data.split_first() {
        // A header with the right length, and some data.
        let len = (header.len() as u64).to_le_bytes();
        run([&len[..], header, &vec![1; usize::from(zeros)]].concat());
    }
});

fn compare(index: &Index, tensors: &BTreeMap<String, Tensor>, begin: usize) {
    assert_eq!(index.tensors.len(), tensors.len());
    for (name, entry) in &index.tensors {
        let tensor = &tensors[name];
        assert_eq!(entry.dtype, tensor.dtype());
        assert!(entry.shape.iter().map(|&extent| extent as i64).eq(tensor.shape().iter().copied()));
        let Place::Stored { offset } = entry.place else { panic!("safetensors does not deflate") };
        if !tensor.is_empty() {
            assert_eq!(begin + offset as usize, tensor.data().addr());
        }
    }
}

fn run(file: Vec<u8>) {
    let memory = file.as_ptr_range();
    let memory = memory.start.addr()..memory.end.addr();
    let text = safetensors::load_metadata(&file);
    let index = Safetensors.index(&mut Cursor::new(&file), file.len() as u64);
    let tensors = match safetensors::load(file) {
        Ok(tensors) => tensors,
        // It multiplies extents in their order, and so refuses some shapes without elements.
        Err(_) => {
            return assert!(
                index.is_err() || index.unwrap().tensors.values().any(|x| x.shape.contains(&0))
            );
        }
    };
    if let Ok(index) = index {
        compare(&index, &tensors, memory.start);
    }
    let text = text.expect("the same header");
    for tensor in tensors.values() {
        let bytes = TensorRef::from(tensor).as_bytes().unwrap();
        black_box(bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>());
        if !bytes.is_empty() {
            assert!(memory.contains(&bytes.as_ptr().addr()));
            assert!(bytes.as_ptr().addr() + bytes.len() <= memory.end);
        }
        assert!(tensor.is_read_only());
    }
    let again = safetensors::to_bytes(&tensors, &text).expect("loaded tensors can be written");
    let again = safetensors::load(again).expect("a written file can be loaded");
    assert_eq!(tensors.len(), again.len());
    for (name, tensor) in &tensors {
        let same = |other: &Tensor| {
            (other.dtype(), other.shape()) == (tensor.dtype(), tensor.shape())
                && TensorRef::from(other).as_bytes() == TensorRef::from(tensor).as_bytes()
        };
        assert!(same(&again[name]), "{name}");
    }
}
