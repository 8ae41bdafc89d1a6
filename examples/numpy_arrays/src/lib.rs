//! rust-numpy arrays as tensors, and tensors as rust-numpy arrays.

use std::sync::{Arc, LazyLock};

use dlbridge::{Access, Datetime64, Days, Tensor};
use dlbridge_pyo3::{IntoNumpy, Numpy, PyReadonlyTensor, import};
use half::{bf16, f16};
use num_complex::Complex;
use numpy::datetime::{Datetime, units};
use numpy::ndarray::Dimension;
use numpy::{
    Element, Ix2, IxDyn, PyArray, PyArray0, PyArray1, PyArray2, PyArrayDyn, PyArrayMethods,
    PyFixedString, PyFixedUnicode, PyReadonlyArray2, PyReadonlyArrayDyn,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A description of a tensor: address, shape, strides, dtype, and whether it is read-only.
type Described = (usize, Vec<i64>, Vec<i64>, String, bool);

fn described(tensor: &Tensor) -> Described {
    let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
    let dtype = tensor.dtype().to_string();
    (tensor.data().addr(), shape, strides, dtype, tensor.is_read_only())
}

/// Returns an array over a tensor's memory. It is read-only if something else has the memory too: rust-numpy compares arrays by
/// their base objects, and would not see that the two share it.
fn array_over<T: Element, D: Dimension>(
    py: Python<'_>,
    tensor: Tensor,
) -> PyResult<Bound<'_, PyArray<T, D>>> {
    let tensor = match tensor.access() {
        Access::Exclusive => tensor,
        _ => tensor.into_read_only(),
    };
    Ok(tensor.into_numpy(py)?.cast_into()?)
}

/// Describes the tensor of a float array.
#[pyfunction]
fn describe(x: &Bound<'_, PyArrayDyn<f64>>) -> PyResult<Described> {
    Ok(described(&import(x)?))
}

/// Describes the tensor of an array that rust-numpy has borrowed for reading.
#[pyfunction]
fn describe_borrowed(x: PyReadonlyArrayDyn<'_, f64>) -> PyResult<Described> {
    Ok(described(&import(&x)?))
}

/// Describes the tensor of an array, and converts it back, for every element type that rust-numpy and tensors share.
#[pyfunction]
fn there_and_back<'py>(x: &Bound<'py, PyAny>) -> PyResult<(Described, Bound<'py, PyAny>)> {
    macro_rules! first_of {
        ($($T:ty)*) => {
            $(if let Ok(array) = x.cast::<PyArray<$T, IxDyn>>() {
                let tensor = import(array)?;
                let words = described(&tensor);
                return Ok((words, array_over::<$T, IxDyn>(x.py(), tensor)?.into_any()));
            })*
        };
    }
    first_of!(bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 Complex<f32> Complex<f64>);
    Err(PyValueError::new_err(format!(
        "rust-numpy does not support elements of {}",
        x.getattr("dtype")?
    )))
}

/// Describes the tensor of an array whose element type only rust-numpy has.
#[pyfunction]
fn describe_others(x: &Bound<'_, PyAny>) -> PyResult<Described> {
    if let Ok(objects) = x.cast::<PyArrayDyn<Py<PyAny>>>() {
        return Ok(described(&import(objects)?));
    }
    if let Ok(words) = x.cast::<PyArrayDyn<PyFixedUnicode<1>>>() {
        return Ok(described(&import(words)?));
    }
    if let Ok(bytes) = x.cast::<PyArrayDyn<PyFixedString<1>>>() {
        return Ok(described(&import(bytes)?));
    }
    Ok(described(&import(x.cast::<PyArrayDyn<Datetime<units::Days>>>()?)?))
}

/// Returns the next day for each one, from one rust-numpy array to another through a tensor.
#[pyfunction]
fn next_days<'py>(
    x: &Bound<'py, PyArray1<Datetime<units::Days>>>,
) -> PyResult<Bound<'py, PyArray1<Datetime<units::Days>>>> {
    let days = x.extract::<PyReadonlyTensor<'_, Datetime64<Days>, 1>>()?;
    let next = |day: &Datetime64<Days>| -> Datetime64<Days> {
        day.count().map_or(Datetime64::NAT, |day| Datetime64::new(day + 1))
    };
    let tensor = Tensor::from(days.iter().map(next).collect::<Vec<_>>());
    let array = Numpy::<Datetime64<Days>, 1>::try_from(tensor)?.into_pyobject(x.py())?;
    Ok(array.cast_into()?)
}

/// Imports any library's data as a float array.
#[pyfunction]
fn array_of<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
    array_over(x.py(), import(x)?)
}

/// Memory that only the arrays of `sharing` use.
static SHARED: LazyLock<Arc<[f32]>> = LazyLock::new(|| Arc::from([1.0, 2.0, 3.0]));

/// Returns an array over the shared memory.
#[pyfunction]
fn sharing(py: Python<'_>) -> PyResult<Bound<'_, PyArray1<f32>>> {
    array_over(py, Tensor::from(Arc::clone(&SHARED)))
}

/// Returns the number of arrays that hold the shared memory.
#[pyfunction]
fn holders() -> usize {
    Arc::strong_count(&SHARED) - 1
}

/// Returns the transpose of a matrix, over its memory.
#[pyfunction]
fn transposed<'py>(x: &Bound<'py, PyArray2<f64>>) -> PyResult<Bound<'py, PyArray2<f64>>> {
    array_over(x.py(), import(x)?.transpose())
}

/// Returns an array over memory of Rust, and its address.
#[pyfunction]
fn made(py: Python<'_>) -> PyResult<(Bound<'_, PyArray2<f64>>, usize)> {
    let tensor = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    let address = tensor.data().addr();
    Ok((array_over(py, tensor)?, address))
}

/// Returns a read-only array.
#[pyfunction]
fn made_read_only(py: Python<'_>) -> PyResult<Bound<'_, PyArray2<f64>>> {
    array_over(py, Tensor::from([[1.0, 2.0], [3.0, 4.0]]).into_read_only())
}

/// Returns an array of zero dimensions.
#[pyfunction]
fn number(py: Python<'_>) -> PyResult<Bound<'_, PyArray0<f64>>> {
    let no_axes: [usize; 0] = [];
    let tensor = Tensor::from_parts(vec![7.0], no_axes)?;
    array_over(py, tensor)
}

/// Converts a tensor with the wrong dtype, or the wrong number of dimensions.
#[pyfunction]
fn mistaken(py: Python<'_>, dtype: bool) -> PyResult<Bound<'_, PyAny>> {
    let tensor = Tensor::from([1.0, 2.0]);
    match dtype {
        true => Ok(array_over::<f32, IxDyn>(py, tensor)?.into_any()),
        false => Ok(array_over::<f64, Ix2>(py, tensor)?.into_any()),
    }
}

/// Returns whether rust-numpy can borrow an array for writing, and for reading, while a tensor of it exists; and for
/// writing afterwards.
#[pyfunction]
fn while_there_is_a_tensor(x: &Bound<'_, PyArray2<f64>>) -> PyResult<(bool, bool, bool)> {
    let tensor = import(x)?;
    let (written, read) = (x.try_readwrite().is_ok(), x.try_readonly().is_ok());
    drop(tensor);
    Ok((written, read, x.try_readwrite().is_ok()))
}

/// Returns whether rust-numpy can borrow an array for writing, and the array made from its tensor, while the latter
/// exists; and the first array afterwards.
#[pyfunction]
fn while_there_is_its_tensors_array(x: &Bound<'_, PyArray2<f64>>) -> PyResult<(bool, bool, bool)> {
    let again = array_over::<f64, Ix2>(x.py(), import(x)?)?;
    let (first, second) = (x.try_readwrite().is_ok(), again.try_readwrite().is_ok());
    drop(again);
    Ok((first, second, x.try_readwrite().is_ok()))
}

/// Makes a tensor of an array that rust-numpy has borrowed for writing.
#[pyfunction]
fn while_it_is_written(x: &Bound<'_, PyArray2<f64>>) -> PyResult<usize> {
    let _written = x.try_readwrite()?;
    Ok(import(x)?.ndim())
}

/// Makes a tensor of an array that rust-numpy has borrowed for reading.
#[pyfunction]
fn while_it_is_read(x: PyReadonlyArray2<'_, f64>) -> PyResult<usize> {
    Ok(import(&x)?.ndim())
}

/// rust-numpy arrays as tensors, and tensors as rust-numpy arrays.
#[pymodule]
mod numpy_arrays {
    #[pymodule_export]
    use super::{
        array_of, describe, describe_borrowed, describe_others, holders, made, made_read_only,
        mistaken, next_days, number, sharing, there_and_back, transposed, while_it_is_read,
        while_it_is_written, while_there_is_a_tensor, while_there_is_its_tensors_array,
    };
}
