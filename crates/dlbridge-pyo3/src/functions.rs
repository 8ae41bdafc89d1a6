//! The functions of the Python package, with arguments as Python passes them. An extension may
//! export them under its own name.

use pyo3::prelude::*;

use crate::PyTensor;
use crate::protocol::{expect_bool, expect_named_device};

/// Import any object that speaks DLPack or the buffer protocol.
///
/// dlbridge makes no copy unless copy=True asks for one; copy=False makes sure that the producer
/// makes none either.
#[pyfunction]
#[pyo3(signature = (obj, /, *, copy=None))]
pub fn asdlpack<'py>(
    obj: &Bound<'py, PyAny>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTensor>> {
    PyTensor::import(obj, copy.map(expect_bool).transpose()?)
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
    PyTensor::from_dlpack(x, device, copy.map(expect_bool).transpose()?)
}
