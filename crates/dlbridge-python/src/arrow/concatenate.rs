//! The copy of several chunks into one tensor.

use dlbridge::{Tensor, TensorRef};
use pyo3::prelude::*;

use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::copies;

/// A copy of tensors of one dtype along their first dimension, in C order, aligned to `alignment` bytes. All other
/// extents are equal.
pub(super) fn concatenated(chunks: &[Tensor], alignment: usize) -> PyResult<Tensor> {
    let _reading = chunks.iter().map(Guard::for_copy).collect::<PyResult<Vec<_>>>()?;
    let chunks: Vec<_> = chunks.iter().map(TensorRef::from).collect();
    let bytes = chunks.iter().map(TensorRef::nbytes).sum::<u128>();
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    copies::detached(bytes, |go_on| TensorRef::concatenate_while(&chunks, alignment, go_on))
}
