//! The Arrow PyCapsule interface: one-dimensional arrays of numbers, fixed-size lists as tensors of more dimensions, and
//! lists as offsets and values; import and export.
//!
//! Source: "The Arrow PyCapsule Interface" in the format documentation of Apache Arrow.

mod abi;
mod array;
pub(crate) mod columns;
mod concatenate;
mod elements;
mod export;
mod export_lists;
mod exported;
mod fixed_shape;
mod format;
mod import;
mod lists;
pub(crate) mod offsets;
mod stream;

pub(crate) use export::{export, export_schema};
pub(crate) use export_lists::{export_lists, export_lists_schema};
pub(crate) use import::{chunks, import, import_times, is_supported, next_chunk};
pub(crate) use lists::{Lists, import_lists};
pub(crate) use stream::Chunks;
