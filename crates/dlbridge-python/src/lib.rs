//! The extension module of the Python package: registration only.

use dlbridge_pyo3::PyTensor;
use pyo3::prelude::*;

/// The compiled core of dlbridge.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::{asdlpack, from_dlpack};
    #[pymodule_export]
    use dlbridge_pyo3::PyTensor;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Import any object that speaks DLPack or the buffer protocol, without a copy.
///
/// copy=True makes a copy; copy=False makes sure that the producer makes none.
#[pyfunction]
#[pyo3(signature = (obj, /, *, copy=None))]
fn asdlpack<'py>(obj: &Bound<'py, PyAny>, copy: Option<bool>) -> PyResult<Bound<'py, PyTensor>> {
    PyTensor::import(obj, copy)
}

/// Import an object that has __dlpack__, as the array API standard describes it.
///
/// device is a tuple of DLPack device type and device id.
#[pyfunction]
#[pyo3(signature = (x, /, *, device=None, copy=None))]
fn from_dlpack<'py>(
    x: &Bound<'py, PyAny>,
    device: Option<(i32, i32)>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyTensor>> {
    PyTensor::from_dlpack(x, device, copy)
}
