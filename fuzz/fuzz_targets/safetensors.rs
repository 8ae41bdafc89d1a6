//! Files that claim to be in the safetensors format: loaded tensors lie within the file, and survive being written and
//! loaded again. `dlbridge-files` finds the same tensors as the format's own library, or refuses the file.
#![no_main]

use std::hint::black_box;

use dlbridge::{Tensor, TensorRef};
use dlbridge_files::{SaveOptions, TensorFile, Value, to_bytes};
use libfuzzer_sys::fuzz_target;
use safetensors::SafeTensors;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else { return };
    if kind % 4 == 0 {
        run(data);
    } else if let Some((&zeros, header)) = data.split_first() {
        // A header with the right length, and some data.
        let len = (header.len() as u64).to_le_bytes();
        run(&[&len[..], header, &vec![1; usize::from(zeros)]].concat());
    }
});

fn bytes(tensor: &Tensor) -> &[u8] {
    TensorRef::from(tensor).as_bytes().unwrap()
}

fn run(bytes_of_file: &[u8]) {
    let theirs = SafeTensors::deserialize(bytes_of_file);
    // A zip archive may also be a safetensors file with a header of 64 MiB.
    if bytes_of_file.starts_with(b"PK") || bytes_of_file.get(8) != Some(&b'{') {
        return;
    }
    let Ok(file) = TensorFile::from_bytes(bytes_of_file.to_vec()) else { return };
    let tensors: Vec<(&str, Tensor)> = file
        .tensors()
        .keys()
        .map(|name| (name.as_str(), file.tensor(name).expect("its place was checked")))
        .collect();
    match theirs {
        Ok(theirs) => {
            assert_eq!(theirs.len(), tensors.len());
            for (name, tensor) in &tensors {
                let view = theirs.tensor(name).expect("the same names");
                let shape = view.shape().iter().map(|&extent| extent as i64);
                assert!(shape.eq(tensor.shape().iter().copied()), "{name}");
                assert_eq!(view.data(), bytes(tensor), "{name}");
            }
        }
        // It multiplies extents in their order, and so refuses some shapes without elements.
        Err(_) => assert!(tensors.iter().any(|(_, tensor)| tensor.shape().contains(&0))),
    }
    for (_, tensor) in &tensors {
        black_box(bytes(tensor).iter().map(|&byte| u64::from(byte)).sum::<u64>());
        assert!(tensor.is_read_only());
    }
    let metadata = file.metadata().iter().map(|(key, value)| match value {
        Value::Text(text) => (key.as_str(), text.as_str()),
        other => panic!("{other:?} is not text"),
    });
    let named = tensors.iter().map(|(name, tensor)| (*name, tensor));
    let again = to_bytes(named, &SaveOptions::default().metadata(metadata));
    let again = TensorFile::from_bytes(again.expect("loaded tensors can be written"));
    let again = again.expect("a written file can be loaded");
    assert_eq!((again.tensors().len(), again.metadata()), (tensors.len(), file.metadata()));
    for (name, tensor) in &tensors {
        let other = again.tensor(name).expect("the same names");
        assert_eq!((other.dtype(), other.shape()), (tensor.dtype(), tensor.shape()), "{name}");
        assert_eq!(bytes(&other), bytes(tensor), "{name}");
    }
}
