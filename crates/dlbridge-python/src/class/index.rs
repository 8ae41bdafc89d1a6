//! Slices, transposes and other shapes of a tensor, over the same memory.

use dlbridge::{Error, Result, Tensor};
use pyo3::exceptions::{PyBufferError, PyIndexError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyRange, PySlice, PyTuple};

use crate::import::options::{integer, items};
use crate::tensor::TensorObject;
use dlbridge_pyo3::PyTensor;
use dlbridge_pyo3::import_options::wrong_type;
use dlbridge_pyo3::python::error::{repr_in_message, to_py_err, type_name};

/// A sub-tensor, which keeps the tensor's import record and stream. It keeps the source of the memory instead of the
/// tensor, so repeated slicing builds no chain.
pub(crate) fn sub_tensor(
    tensor: &PyTensor,
    step: impl FnOnce(Tensor) -> Result<Tensor>,
) -> PyResult<TensorObject> {
    let sub_tensor = step(tensor.second()?).map_err(of_sub_tensor)?;
    Ok(TensorObject::from(tensor.with_same_record(sub_tensor)))
}

/// The exception for a sub-tensor that cannot exist.
fn of_sub_tensor(error: Error) -> PyErr {
    match error {
        Error::InvalidAxis { .. } | Error::InvalidRange { .. } => {
            PyIndexError::new_err(error.to_string())
        }
        Error::AxisCount { .. }
        | Error::RepeatedAxis { .. }
        | Error::ElementCount { .. }
        | Error::InvalidNdim { .. } => PyValueError::new_err(error.to_string()),
        Error::NotReshapable => PyBufferError::new_err(
            "the elements cannot have that shape without a copy; call \
             asdlpack(t, contiguous='C') first, which copies once, or t.numpy().reshape(...)",
        ),
        Error::SubbytePacked { dtype } => PyBufferError::new_err(format!(
            "the {dtype} elements are packed, several in a byte, and this sub-tensor would begin within a byte; call \
             t.numpy(), which gives each element a byte, or t.tolist()"
        )),
        error => to_py_err(error),
    }
}

pub(super) fn get(tensor: &PyTensor, key: &Bound<'_, PyAny>) -> PyResult<TensorObject> {
    let keys = match key.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![key.clone()],
    };
    let keys = keys.iter().map(Key::of).collect::<PyResult<Vec<_>>>()?;
    let ndim = tensor.tensor().ndim();
    let indexed = keys.iter().filter(|key| matches!(key, Key::At(_) | Key::Slice(_))).count();
    let ellipses = keys.iter().filter(|key| matches!(key, Key::Ellipsis)).count();
    if indexed > ndim {
        return Err(PyIndexError::new_err(format!(
            "too many indices: the tensor has {ndim} dimensions, but {indexed} were indexed"
        )));
    }
    if ellipses > 1 {
        return Err(PyIndexError::new_err("an index can have a single ellipsis ('...')"));
    }
    let (mut sub_tensor, mut axis) = (tensor.second()?, 0);
    // The dimension of the tensor that comes next, for messages.
    let mut place = 0;
    for key in &keys {
        sub_tensor = match key {
            Key::Ellipsis => {
                axis += ndim - indexed;
                place += ndim - indexed;
                sub_tensor
            }
            Key::New => sub_tensor.insert_axis(axis).map_err(of_sub_tensor)?,
            Key::At(index) => {
                let extent = sub_tensor.shape()[axis];
                let index = resolved(fitting(index)?, extent).ok_or_else(|| {
                    PyIndexError::new_err(format!(
                        "index {} is out of bounds for axis {place} with size {extent}",
                        repr_in_message(index)
                    ))
                })?;
                sub_tensor.index_axis(axis, index).map_err(of_sub_tensor)?
            }
            Key::Slice(slice) => sliced(sub_tensor, axis, slice)?,
        };
        axis += usize::from(matches!(key, Key::New | Key::Slice(_)));
        place += usize::from(matches!(key, Key::At(_) | Key::Slice(_)));
    }
    Ok(TensorObject::from(tensor.with_same_record(sub_tensor)))
}

/// One index between the brackets.
enum Key<'py> {
    At(Bound<'py, PyAny>),
    Slice(Bound<'py, PySlice>),
    New,
    Ellipsis,
}

impl<'py> Key<'py> {
    fn of(key: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(slice) = key.cast::<PySlice>() {
            return Ok(Self::Slice(slice.clone()));
        }
        if key.is_none() {
            return Ok(Self::New);
        }
        if key.is_instance_of::<PyEllipsis>() {
            return Ok(Self::Ellipsis);
        }
        // An array has `__index__`, which refuses several elements.
        integer(key)?.map(Self::At).ok_or_else(|| {
            PyTypeError::new_err(format!(
                "a tensor is indexed by integers, slices, ... and None, not by {}; call \
                 t.numpy()[index] or t.torch()[index], which copy the chosen elements",
                type_name(key)
            ))
        })
    }
}

/// An index or the number of a dimension, which counts from the end if it is negative; `None` if it is out of bounds.
fn resolved(number: Option<i64>, extent: i64) -> Option<usize> {
    let number = number.map(|number| if number < 0 { number + extent } else { number })?;
    (0..extent).contains(&number).then_some(number as usize)
}

fn sliced(tensor: Tensor, axis: usize, slice: &Bound<'_, PySlice>) -> PyResult<Tensor> {
    let extent = tensor.shape()[axis] as isize;
    let indices = slice.indices(extent)?;
    let (count, start, step) = (indices.slicelength, indices.start, indices.step);
    if count == 0 {
        return tensor.slice(axis, 0..0).map_err(of_sub_tensor);
    }
    let last = start + (count as isize - 1) * step;
    let (low, high) = (start.min(last) as usize, start.max(last) as usize);
    let run = tensor.slice(axis, low..=high).map_err(of_sub_tensor)?;
    let run = if step < 0 { run.flip(axis).map_err(of_sub_tensor)? } else { run };
    match step.unsigned_abs() {
        1 => Ok(run),
        step => run.step_by(axis, step).map_err(of_sub_tensor),
    }
}

/// An argument as an integer; `None` if it does not fit 64 bits.
fn number(argument: &str, number: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    fitting(&integer(number)?.ok_or_else(|| wrong_type(argument, "an integer", number))?)
}

/// The value of an integer; `None` if it does not fit 64 bits.
fn fitting(integer: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    match integer.extract() {
        Ok(number) => Ok(Some(number)),
        Err(error) if error.is_instance_of::<PyOverflowError>(integer.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The numbers of `permute(1, 0)` and `permute((1, 0))`.
fn numbers<'py>(arguments: &Bound<'py, PyTuple>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if arguments.len() == 1
        && let Some(numbers) = items(&arguments.get_item(0)?)?
    {
        return Ok(numbers);
    }
    arguments.extract()
}

/// The dimensions in another order.
pub(super) fn permuted(tensor: &PyTensor, order: &Bound<'_, PyTuple>) -> PyResult<TensorObject> {
    let ndim = tensor.tensor().ndim();
    let one = |axis: &Bound<'_, PyAny>| {
        resolved(number("axis", axis)?, ndim as i64).ok_or_else(|| {
            PyIndexError::new_err(format!(
                "axis {} is out of bounds for a tensor of {ndim} dimensions",
                repr_in_message(axis)
            ))
        })
    };
    let order = numbers(order)?.iter().map(one).collect::<PyResult<Vec<_>>>()?;
    sub_tensor(tensor, |tensor| tensor.permute(order))
}

/// Another shape over the same elements. One extent may be -1, which is computed from the others.
pub(super) fn reshaped(tensor: &PyTensor, shape: &Bound<'_, PyTuple>) -> PyResult<TensorObject> {
    let py = shape.py();
    let requested = numbers(shape)?;
    let len = tensor.tensor().len();
    let unfit = || {
        let requested = PyTuple::new(py, &requested)
            .map_or_else(|_| String::new(), |shape| repr_in_message(&shape));
        PyValueError::new_err(format!("{len} elements cannot have the shape {requested}"))
    };
    let one = |extent: &Bound<'_, PyAny>| number("each extent", extent)?.ok_or_else(unfit);
    let shape = requested.iter().map(one).collect::<PyResult<Vec<i64>>>()?;
    let known = shape.iter().filter(|&&extent| extent != -1);
    let product = known
        .clone()
        .try_fold(1_usize, |product, &extent| product.checked_mul(usize::try_from(extent).ok()?));
    let product = product.ok_or_else(unfit)?;
    let unknown = match shape.len() - known.count() {
        0 => 0,
        1 if product != 0 && len.is_multiple_of(product) => len / product,
        1 => return Err(unfit()),
        _ => {
            return Err(PyValueError::new_err(
                "several extents are -1; only one can be computed from the others",
            ));
        }
    };
    let extents = shape.iter().map(|&extent| usize::try_from(extent).unwrap_or(unknown));
    let extents: Vec<_> = extents.collect();
    sub_tensor(tensor, |tensor| tensor.reshape(extents))
}

/// The extent of the first dimension; an error that names `what` if there is none.
pub(super) fn first_extent(tensor: &PyTensor, what: &str) -> PyResult<usize> {
    tensor.tensor().shape().first().map(|&extent| extent as usize).ok_or_else(|| {
        PyTypeError::new_err(format!("{what} of a tensor without a dimension; call t.item()"))
    })
}

/// An iterator over the sub-tensors along the first dimension.
pub(super) fn iterate<'py>(tensor: &Bound<'py, TensorObject>) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let indices = PyRange::new(py, 0, first_extent(tensor.get(), "iteration")?.cast_signed())?;
    let map = py.import(intern!(py, "builtins"))?.getattr(intern!(py, "map"))?;
    map.call1((tensor.getattr(intern!(py, "__getitem__"))?, indices))
}
