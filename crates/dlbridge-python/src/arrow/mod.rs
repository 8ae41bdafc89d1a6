//! The Arrow PyCapsule interface: one-dimensional arrays of numbers, fixed-size lists as tensors of more dimensions, and
//! lists as offsets and values; import and export.
//!
//! Source: "The Arrow PyCapsule Interface" in the format documentation of Apache Arrow.

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

mod abi;
mod array;
mod elements;
mod export;
mod format;
mod import;
mod lists;
mod table;

pub(crate) use export::{export, export_schema};
pub(crate) use import::{Chunks, chunks, import, next_chunk};
pub(crate) use lists::{Lists, export_lists, export_lists_schema, import_lists, offsets_range};
pub(crate) use table::{Part, Parts, Table};

/// Two capsules: the schema and the array.
pub(crate) type Capsules<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyCapsule>);
