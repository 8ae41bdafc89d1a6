//! Files that claim to be in the format Arrow IPC: accepted columns lie within the file.
#![no_main]

use std::io::Cursor;

use dlbridge_files::{ArrowIpc, Format, Place};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(index) = ArrowIpc.index(&mut Cursor::new(data), data.len() as u64) else { return };
    for entry in index.tensors.values() {
        let Place::Stored { offset } = entry.place else { panic!("a tensor is stored") };
        let len = entry.nbytes().expect("a number of bytes");
        assert!(offset.checked_add(len).is_some_and(|end| end <= data.len() as u64));
    }
});
