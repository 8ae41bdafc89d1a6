//! The tests of the core's API, in one program, with one file per subject. `errors.rs` and `leaks.rs` beside this
//! folder replace the allocator, so they are programs of their own.

#[path = "../common/mod.rs"]
mod common;

mod access;
mod bytes;
mod chains;
mod compare;
mod convert;
mod copies;
mod devices;
mod dtype;
mod elements;
mod export;
mod image;
mod import;
mod import_odd;
mod large_copies;
mod layout_import;
mod layout_model;
mod memmap2;
mod microfloat;
mod ndarray;
mod owners;
mod reshape;
mod shared;
mod slices;
mod slices_odd;
mod slices_owned;
mod soundness;
mod subbyte;
mod tensor_ref;
mod threads;
mod unaligned;
mod views;
