//! NumPy's arrays as tensors, made from the heads that [`numpy_array`](crate::numpy::array) reads.

use dlbridge::{Access, Tensor};
use pyo3::prelude::*;

use super::source::Source;
use crate::imported::{Imported, Protocol};
use crate::interpreter::PyOwner;
use crate::keepalive::address_range;
use crate::numpy::array::{Described, NumpyArray};

/// Imports an array of `head`'s type; `None` if `__dlpack__` is needed.
pub fn import(head: NumpyArray, array: &Bound<'_, PyAny>) -> PyResult<Option<Imported>> {
    let (tensor, read_only) = match head
        .run(array, None, &[])
        .and_then(|run| Some((run.tensor()?, run.is_read_only())))
    {
        Some(run) => run,
        None => match head.describe(array) {
            Some(Described { tensor, read_only, .. }) => (tensor, read_only),
            None => return Ok(None),
        },
    };
    let access = if read_only { Access::ReadOnly } else { Access::Shared };
    let base = NumpyArray::base(array);
    let source = base.and_then(|base| Source::of(&base, &address_range(&tensor)));
    // SAFETY: `head` found the memory of the array's elements. The owner keeps the array itself, or the tensor or the
    // Python object that keeps the memory which they lie within (Within of `keepalive.rs`). The program promises that
    // no code writes while a view is alive (see the crate documentation).
    let tensor = unsafe {
        match source {
            None => Tensor::from_described(PyOwner::new(array)?, &tensor, access),
            Some(Source::Object(owner)) => Tensor::from_described(owner, &tensor, access),
            Some(Source::Tensor(owner)) => Tensor::from_described(owner, &tensor, access),
        }
    };
    Ok(Some(Imported { version: head.version(), ..Imported::new(tensor, Protocol::Dlpack) }))
}
