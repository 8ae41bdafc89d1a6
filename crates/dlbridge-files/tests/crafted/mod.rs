//! Files that a test makes byte by byte.

use std::fs;
use std::io::Cursor;

use dlbridge::Tensor;
use dlbridge_files::{Fault, Format, Index, TensorFile};

use crate::common::Folder;

/// The index that a format reads from the bytes of a file.
pub(crate) fn index_of(format: &impl Format, file: &[u8]) -> Result<Index, Fault> {
    format.index(&mut Cursor::new(file), file.len() as u64)
}

/// Reads a file with these bytes from the disk; under Miri, which isolates a program from it, from memory.
pub(crate) fn read(bytes: &[u8]) -> TensorFile {
    if cfg!(miri) {
        // A copy is aligned, so elements are too, as those that are read.
        return TensorFile::from_bytes(Tensor::from(bytes.to_vec()).to_copy().unwrap()).unwrap();
    }
    let folder = Folder::new();
    let path = folder.join("crafted");
    fs::write(&path, bytes).unwrap();
    TensorFile::read(&path).unwrap()
}

/// Asserts that a format refuses a file under its own name, with a message that ends with `message`.
#[track_caller]
pub(crate) fn assert_refused_by(format: &impl Format, file: &[u8], message: &str) {
    let fault = index_of(format, file).unwrap_err();
    let (Fault::Format { format: name, .. } | Fault::Unsupported { format: name, .. }) = &fault
    else {
        panic!("{fault:?}")
    };
    assert_eq!(*name, format.name(), "{fault:?}");
    assert!(fault.to_string().ends_with(message), "{fault}");
}
