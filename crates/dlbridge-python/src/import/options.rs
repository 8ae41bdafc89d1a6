//! The options of an import, as Python passes them, and what no option can change.

use dlbridge::{Device, DeviceType};
use dlbridge_gpu::{Driver, Failure};
use dlbridge_pyo3::import_options::Order;
use dlbridge_pyo3::import_options::{ImportOptions, wrong_type};
use dlbridge_pyo3::imported::Protocol;
use dlbridge_pyo3::python::error::repr_in_message;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyString, PyTuple};

/// The value of an argument `align`.
pub(crate) fn expect_alignment(align: &Bound<'_, PyAny>) -> PyResult<usize> {
    const EXPECTED: &str = "None or a power of two, at most 1073741824 (1 GiB)";
    const MAX: usize = 1 << 30;
    let number = integer(align)?.ok_or_else(|| wrong_type("align", EXPECTED, align))?;
    let fits = number.extract::<usize>().ok().filter(|n| n.is_power_of_two() && *n <= MAX);
    fits.ok_or_else(|| wrong_value("align", EXPECTED, &number))
}

/// The refusal of an argument of the right type.
pub(crate) fn wrong_value(argument: &str, expected: &str, found: &Bound<'_, PyAny>) -> PyErr {
    PyValueError::new_err(format!("{argument} must be {expected}, not {}", repr_in_message(found)))
}

/// The value of an argument `contiguous`; `False` means the same as `None`.
pub(crate) fn expect_order(contiguous: &Bound<'_, PyAny>) -> PyResult<Order> {
    const EXPECTED: &str = "None, a bool, 'C' or 'F'";
    if let Ok(flag) = contiguous.cast::<PyBool>() {
        return Ok(if flag.is_true() { Order::C } else { Order::Strided });
    }
    let letter = contiguous
        .cast::<PyString>()
        .map_err(|_| wrong_type("contiguous", EXPECTED, contiguous))?;
    match &*letter.to_cow()? {
        "C" => Ok(Order::C),
        "F" => Ok(Order::Fortran),
        _ => Err(wrong_value("contiguous", EXPECTED, letter)),
    }
}

/// The value of an argument `protocol`.
pub(crate) fn expect_protocol(protocol: &Bound<'_, PyAny>) -> PyResult<Protocol> {
    // The record of a promise is not a protocol to ask for.
    let all = || Protocol::ALL.into_iter().filter(|&p| p != Protocol::AssumedWritable);
    let names = || {
        let names: Vec<_> = all().map(|p| format!("'{}'", p.name())).collect();
        format!("None or one of {}", names.join(", "))
    };
    let name =
        protocol.cast::<PyString>().map_err(|_| wrong_type("protocol", &names(), protocol))?;
    let name = name.to_cow()?;
    all()
        .find(|p| p.name() == name)
        .ok_or_else(|| PyValueError::new_err(format!("protocol must be {}, not '{name}'", names())))
}

/// Converts an object to an integer by its `__index__`; `None` for a boolean, and for an object that is not a single
/// integer.
pub(crate) fn integer<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    if object.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    if object.is_exact_instance_of::<PyInt>() {
        return Ok(Some(object.clone()));
    }
    let Some(index) = object.getattr_opt(intern!(py, "__index__"))? else { return Ok(None) };
    match index.call0() {
        Ok(number) => Ok(number.is_instance_of::<PyInt>().then_some(number)),
        // Arrays have the method, and refuse unless they are a single integer.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The items of a tuple or list; `None` for other objects.
pub(crate) fn items<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    match object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
        true => object.extract().map(Some),
        false => Ok(None),
    }
}

/// Refuses a device that a protocol on the CPU cannot provide.
pub(crate) fn check_on_cpu(options: &ImportOptions, protocol: &str) -> PyResult<()> {
    let Some(device) = options.device.filter(|&device| device != Device::CPU) else {
        return Ok(());
    };
    Err(PyBufferError::new_err(match missing_driver(options, device) {
        Some(failure) => {
            format!("{protocol} is on the CPU and cannot be copied to {device}: {failure}")
        }
        None => format!(
            "{protocol} is on the CPU and cannot be imported on {device}; move the data with a library for that \
             device first"
        ),
    }))
}

/// Why the CUDA driver cannot copy to a device, if the driver is missing.
pub(crate) fn missing_driver(options: &ImportOptions, device: Device) -> Option<Failure> {
    let by_driver = device.device_type() == DeviceType::CUDA && options.copy != Some(false);
    if by_driver { Driver::of(DeviceType::CUDA).err() } else { None }
}
