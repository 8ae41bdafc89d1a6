//! NumPy's arrays as tensors, made from the heads that [`numpy_array`](crate::numpy::array) reads.

use dlbridge::{Access, RawParts, Tensor};
use pyo3::prelude::*;

use super::source::Source;
use crate::imported::{Imported, Protocol};
use crate::interpreter::PyOwner;
use crate::keepalive::address_range;
use crate::numpy::array::{Described, NumpyArray};

/// Imports an array of `head`'s type; `None` if `__dlpack__` is needed.
pub(crate) fn import(head: NumpyArray, array: &Bound<'_, PyAny>) -> PyResult<Option<Imported>> {
    let Some(described) = head.describe(array) else { return Ok(None) };
    let Described { tensor, dtype, read_only, data } = described;
    let access = if read_only { Access::ReadOnly } else { Access::Shared };
    let parts = RawParts { access, ..RawParts::new(data.cast(), dtype) };
    let (shape, strides) = (tensor.shape(), Some(tensor.strides()));
    let base = NumpyArray::base(array);
    let source = base.and_then(|base| Source::of(&base, &address_range(&tensor)));
    let imported = |tensor: Tensor| Imported {
        version: head.version(),
        ..Imported::new(tensor, Protocol::Dlpack)
    };
    let owner = match source {
        None => PyOwner::new(array)?,
        Some(Source::Object(owner)) => owner,
        Some(Source::Tensor(owner)) => {
            // SAFETY: `describe` found the memory of the array's elements; the owner keeps it (Within of
            // `keepalive.rs`).
            let tensor = unsafe { Tensor::from_raw_parts(owner, parts, shape, strides) };
            return Ok(tensor.ok().map(imported));
        }
    };
    // SAFETY: `describe` found the memory of the array's elements. The owner keeps the array itself, or the Python
    // object that keeps the memory which they lie within (Within of `keepalive.rs`). The program promises that no code
    // writes while a view is alive (see the crate documentation).
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, shape, strides) };
    Ok(tensor.ok().map(imported))
}
