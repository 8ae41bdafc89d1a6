//! NumPy's arrays as tensors, made from the heads that [`numpy_array`](crate::numpy::array) reads.

use dlbridge::{Access, RawParts, Tensor};
use pyo3::prelude::*;

use super::source::Source;
use crate::imported::{Imported, Protocol};
use crate::interpreter::PyOwner;
use crate::keepalive::address_range;
use crate::numpy::array::{Described, NumpyArray};

/// Imports an array, which is of the type that `head` is of; `None` if `__dlpack__` must be asked.
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
            // SAFETY: the memory of the array's elements, as `describe` found it; the owner keeps it (Within of `keepalive.rs`).
            let tensor = unsafe { Tensor::from_raw_parts(owner, parts, shape, strides) };
            return Ok(tensor.ok().map(imported));
        }
    };
    // SAFETY: as above; the owner keeps the array, or the memory (Within).
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, shape, strides) };
    Ok(tensor.ok().map(imported))
}
