//! The functions of the Python package, with arguments as Python passes them. An extension may
//! export them under its own name.

use dlbridge::{DataType, Device, Tensor};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyTuple};

use crate::PyTensor;
use crate::error::to_py_err;
use crate::protocol::expect_named_device;
use crate::wanted::{
    Wanted, expect_alignment, expect_bool, expect_order, expect_protocol, wrong_type,
};

/// Import any object that speaks an exchange protocol.
///
/// The data is shared wherever a tensor can express it. copy=True copies, copy=False makes sure that
/// nobody does; device, align, contiguous and writable say how the data is to be, and copy it if it
/// is not so.
#[pyfunction]
#[pyo3(signature = (obj, /, *, protocol=None, copy=None, device=None, align=None, contiguous=None, writable=None))]
pub fn asdlpack<'py>(
    obj: &Bound<'py, PyAny>,
    protocol: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    align: Option<&Bound<'py, PyAny>>,
    contiguous: Option<&Bound<'py, PyAny>>,
    writable: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTensor>> {
    let wanted = Wanted {
        protocol: protocol.map(expect_protocol).transpose()?,
        copy: copy.map(|copy| expect_bool("copy", copy)).transpose()?,
        device: device.map(expect_named_device).transpose()?,
        align: align.map(expect_alignment).transpose()?,
        contiguous: contiguous.map(expect_order).transpose()?.flatten(),
        writable: writable.map(|writable| expect_bool("writable", writable)).transpose()?,
    };
    PyTensor::import(obj, &wanted)
}

/// Import an object that has __dlpack__, as the array API standard describes it.
///
/// device is a tuple of DLPack device type and device id, or a name like 'cpu' or 'cuda:0'.
#[pyfunction]
#[pyo3(signature = (x, /, *, device=None, copy=None))]
pub fn from_dlpack<'py>(
    x: &Bound<'py, PyAny>,
    device: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTensor>> {
    let device = device.map(expect_named_device).transpose()?;
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    PyTensor::from_dlpack(x, device, copy)
}

/// Make a new tensor in C order on the CPU, with contents that are not specified.
///
/// align is a power of two, at most 256, which every new tensor is aligned to anyway.
#[pyfunction]
#[pyo3(signature = (shape, /, dtype="float32", *, device=None, align=None))]
pub fn empty<'py>(
    shape: &Bound<'py, PyAny>,
    dtype: &str,
    device: Option<&Bound<'py, PyAny>>,
    align: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTensor>> {
    let extents = expect_extents(shape)?;
    let dtype = dtype
        .parse::<DataType>()
        .and_then(|parsed| parsed.check().map(|()| parsed))
        .map_err(|error| PyValueError::new_err(format!("dtype is '{dtype}': {error}")))?;
    align.map(expect_alignment).transpose()?;
    if let Some(device) = device.map(expect_named_device).transpose()?
        && device != Device::CPU
    {
        return Err(PyBufferError::new_err(format!(
            "cannot allocate memory on {device}; make the tensor with a library for that device, and \
             import it"
        )));
    }
    let tensor = Tensor::zeros(dtype, extents).map_err(to_py_err)?;
    Bound::new(shape.py(), PyTensor::from(tensor))
}

/// The value of an argument `shape`.
fn expect_extents(shape: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    const EXPECTED: &str = "a non-negative integer, or a tuple or list of them";
    let one = |extent: &Bound<'_, PyAny>| {
        let number = extent.cast::<PyInt>().ok().filter(|n| !n.is_instance_of::<PyBool>());
        let number = number.ok_or_else(|| wrong_type("shape", EXPECTED, shape))?;
        number.extract::<usize>().map_err(|_| {
            PyValueError::new_err(format!("shape must be {EXPECTED}, and cannot have {number}"))
        })
    };
    if let Ok(tuple) = shape.cast::<PyTuple>() {
        return tuple.iter().map(|extent| one(&extent)).collect();
    }
    if let Ok(list) = shape.cast::<PyList>() {
        return list.iter().map(|extent| one(&extent)).collect();
    }
    Ok(vec![one(shape)?])
}
