//! The Arrow PyCapsule interface: one-dimensional arrays of numbers, fixed-size lists as tensors of more dimensions, and
//! lists as offsets and values; import and export.
//!
//! Source: "The Arrow PyCapsule Interface" in the format documentation of Apache Arrow.

mod abi;
mod array;
pub(crate) mod columns;
mod elements;
mod export;
mod exported;
mod fixed_shape;
mod format;
mod import;
mod lists;

pub(crate) use export::{export, export_schema};
pub(crate) use exported::Chunks;
pub(crate) use import::{chunks, import, import_times, is_supported, next_chunk};
pub(crate) use lists::{Lists, export_lists, export_lists_schema, import_lists, offsets_range};
