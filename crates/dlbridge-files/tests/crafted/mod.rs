//! Files that a test makes byte by byte.

use std::fs;

use dlbridge::Tensor;
use dlbridge_files::{Error, Fault, TensorFile};

use crate::common::Folder;

/// Opens a file in memory.
pub(crate) fn open(file: &[u8]) -> Result<TensorFile, Error> {
    TensorFile::from_bytes(file.to_vec())
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

/// Asserts that a file is refused as one of a format, with a message that ends with `message`.
#[track_caller]
pub(crate) fn assert_refused_by(format: &str, file: &[u8], message: &str) {
    let error = open(file).unwrap_err();
    let (Fault::Format { format: name, .. } | Fault::Unsupported { format: name, .. }) =
        error.fault()
    else {
        panic!("{error:?}")
    };
    assert_eq!(*name, format, "{error:?}");
    assert!(error.to_string().ends_with(message), "{error}");
}
