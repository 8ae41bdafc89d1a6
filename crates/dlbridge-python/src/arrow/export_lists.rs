//! The export of offsets and values as an Arrow array of lists.

use std::ffi::{CStr, CString};
use std::ptr;

use dlbridge::{ArcTensor, DataType, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::abi::{ArrowArray, ArrowSchema};
use super::export::{Form, array, capsule, data, schema};
use dlbridge_pyo3::keepalive::root;

/// A capsule over the schema and one over the array of lists. The caller has checked the offsets.
pub(crate) fn export_lists<'py>(
    py: Python<'py>,
    offsets: &ArcTensor,
    values: &ArcTensor,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let form = ListForm::of(offsets, values)?;
    let schema = capsule(py, form.schema())?;
    Ok((schema, capsule(py, form.array(offsets, values))?))
}

/// A capsule over the schema of the lists.
pub(crate) fn export_lists_schema<'py>(
    py: Python<'py>,
    offsets: &Tensor,
    values: &Tensor,
) -> PyResult<Bound<'py, PyCapsule>> {
    capsule(py, ListForm::of(offsets, values)?.schema())
}

/// The form of lists as an Arrow array.
struct ListForm<'a> {
    format: &'static CStr,
    /// The number of lists.
    length: i64,
    /// The format of the numbers in the values.
    numbers: &'static CStr,
    /// The extents of the values. All except the first are sizes of fixed-size lists.
    extents: &'a [i64],
}

impl<'a> ListForm<'a> {
    fn of(offsets: &Tensor, values: &'a Tensor) -> PyResult<Self> {
        let format = match (offsets.dtype(), offsets.shape()) {
            (DataType::INT32, [_]) => c"+l",
            (DataType::INT64, [_]) => c"+L",
            (dtype, shape) => {
                return Err(PyBufferError::new_err(format!(
                    "the offsets of an Arrow array of lists are int32 or int64 in one dimension, not {dtype} in the \
                     shape {shape:?}"
                )));
            }
        };
        // These refuse tensors that are not contiguous, or that the CPU cannot read.
        let length = Form::of(offsets)?.length.saturating_sub(1);
        let numbers = Form::of(values)?.numbers;
        let extents = values.shape();
        if extents[1..].iter().any(|&extent| i32::try_from(extent).is_err()) {
            return Err(PyBufferError::new_err(
                "the fixed-size lists of an Arrow array must be shorter than 2^31",
            ));
        }
        Ok(Self { format, length, numbers, extents })
    }

    fn schema(&self) -> ArrowSchema {
        let numbers = schema(self.numbers.to_owned(), c"item", Vec::new(), None);
        let items = self.extents[1..].iter().rev().fold(numbers, |items, extent| {
            let format = CString::new(format!("+w:{extent}")).expect("digits");
            schema(format, c"item", Vec::new(), Some(items))
        });
        schema(self.format.to_owned(), c"", Vec::new(), Some(items))
    }

    fn array(&self, offsets: &ArcTensor, values: &ArcTensor) -> ArrowArray {
        // The number of elements at each level; their product fits because the tensor has a size, except for one
        // without elements, for which Arrow stores no numbers.
        let counts: Vec<_> = self
            .extents
            .iter()
            .scan(1_i64, |count, &extent| {
                *count = count.saturating_mul(extent);
                Some(*count)
            })
            .collect();
        let (&numbers, lists) = counts.split_last().expect("the values have a dimension");
        let numbers = array(numbers, vec![ptr::null(), data(values)], None, Some(root(values)));
        let items = lists
            .iter()
            .rev()
            .fold(numbers, |items, &count| array(count, vec![ptr::null()], Some(items), None));
        array(self.length, vec![ptr::null(), data(offsets)], Some(items), Some(root(offsets)))
    }
}
