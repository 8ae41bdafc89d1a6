//! Files that claim to be checkpoints of PyTorch: accepted tensors lie within the file, and can be loaded.
#![no_main]

use std::hint::black_box;

use dlbridge_files::{Place, TensorFile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else { return };
    match kind % 4 {
        0 => run(data.to_vec()),
        1 => run(archive(&[("m/data.pkl", data), ("m/data/0", &[1; 64])])),
        2 => run(archive(&[("m/data.pkl", data), ("m/data/0", &[1; 64]), ("m/byteorder", b"big")])),
        // The pickle of a state dict, whose first tensor is described by the fuzzer.
        _ => {
            let pickle = [b"\x80\x02}X\x01\x00\x00\x00x", data, b"s."].concat();
            run(archive(&[("m/data.pkl", &pickle), ("m/data/0", &[1; 64])]));
        }
    }
});

/// An archive of stored members.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut list) = (Vec::new(), Vec::new());
    for (name, data) in members {
        let (begin, len) = (file.len() as u32, (data.len() as u32).to_le_bytes());
        let name_len = (name.len() as u32).to_le_bytes();
        let header = [&[20, 0][..], &[0; 12], &len, &len, &name_len].concat();
        file.extend([&b"PK\x03\x04"[..], &header, name.as_bytes(), data].concat());
        list.extend([&b"PK\x01\x02\x14\x00"[..], &header, &[0; 10], &begin.to_le_bytes()].concat());
        list.extend(name.as_bytes());
    }
    let (begin, len) = (file.len() as u32, list.len() as u32);
    file.extend(list);
    let count = [members.len() as u8, 0, members.len() as u8, 0];
    file.extend([&b"PK\x05\x06\x00\x00\x00\x00"[..], &count, &len.to_le_bytes()].concat());
    file.extend([&begin.to_le_bytes()[..], &[0; 2]].concat());
    file
}

fn run(bytes: Vec<u8>) {
    let len = bytes.len() as u64;
    let Ok(file) = TensorFile::from_bytes(bytes) else { return };
    for (name, entry) in file.tensors() {
        let Place::Stored { offset } = entry.place else { continue };
        assert!(offset <= len);
        if entry.strides.is_none() {
            assert!(offset + entry.nbytes().expect("a number of bytes") <= len);
        }
        let tensor = file.tensor(name).expect("its place was checked");
        if tensor.len() < 1 << 10 {
            black_box(tensor.to_copy().is_ok());
        }
    }
}
