//! The Arrow PyCapsule interface: one-dimensional arrays of numbers, and fixed-size lists as tensors of
//! more dimensions; import and export.
//!
//! Source: "The Arrow PyCapsule Interface" in the format documentation of Apache Arrow.

mod abi;
mod elements;
mod export;
mod fixed_shape;
mod format;
mod import;
mod stream;

pub(crate) use export::{export, export_schema};
pub(crate) use import::{described, import, import_times};
