//! Files that claim to be in the npy format: the elements of an accepted array lie within the file.
#![no_main]

use dlbridge_files::{Place, TensorFile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else { return };
    if kind % 4 == 0 {
        run(data);
    } else if let Some((&zeros, header)) = data.split_first() {
        // A header with the right length, and some data.
        let version = [kind % 4, 0];
        let len = (header.len() as u32).to_le_bytes();
        let len = if kind % 4 == 1 { &len[..2] } else { &len };
        run(&[b"\x93NUMPY", &version[..], len, header, &vec![1; usize::from(zeros)]].concat());
    }
});

fn run(file: &[u8]) {
    let Ok(opened) = TensorFile::from_bytes(file.to_vec()) else { return };
    if !file.starts_with(b"\x93NUMPY") {
        return;
    }
    assert_eq!(opened.tensors().len(), 1);
    let entry = &opened.tensors()[""];
    let Place::Stored { offset } = entry.place else { panic!("an array is stored") };
    let end = offset.checked_add(entry.nbytes().expect("a number of bytes"));
    assert!(end.is_some_and(|end| end <= file.len() as u64));
    assert!(entry.alignment().is_power_of_two());
}
