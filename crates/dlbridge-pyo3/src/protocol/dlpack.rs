//! DLPack's Python protocol, `__dlpack__` and `__dlpack_device__`: the import. The package asks
//! for options, and older producers.
//!
//! Source: the array API standard 2024.12 and the Python specification of DLPack.

use dlbridge::{CopyReason, Device, DeviceType, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::type_info;
use crate::capsule;
use crate::import_options::wrong_type;
use crate::imported::Imported;
use crate::python::objects::attribute;
use crate::python::objects::optional_attr;

/// Imports an object that has `__dlpack__` with versioned capsules, in the memory where it is; `None` for an object without
/// it. The data may have pending work on its device.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<Imported>> {
    let py = object.py();
    let Some(method) = attribute(object, intern!(py, "__dlpack__"))? else { return Ok(None) };
    let claimed = claimed_device(object)?;
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "max_version"), capsule::max_version(py)?)?;
    let mut imported = received(&method, object, method.call((), Some(&keywords))?, claimed)?;
    if claimed.is_some_and(|claimed| is_moved(claimed, imported.tensor.device())) {
        imported.reason = Some(CopyReason::Producer);
    }
    Ok(Some(imported))
}

/// The tensor of a capsule that an object exported on a device.
pub fn received(
    method: &Bound<'_, PyAny>,
    object: &Bound<'_, PyAny>,
    answer: Bound<'_, PyAny>,
    device: Option<Device>,
) -> PyResult<Imported> {
    let imported = capsule::take(&capsule::expect(answer, object)?)?;
    check_behind(method, object, &imported.tensor)?;
    let found = imported.tensor.device();
    match device.filter(|&device| !agree(device, found)) {
        Some(device) => Err(disagreement(device, found)),
        None => Ok(imported),
    }
}

/// If `__dlpack__` forwards to another object, checks that object too.
fn check_behind(
    method: &Bound<'_, PyAny>,
    object: &Bound<'_, PyAny>,
    tensor: &Tensor,
) -> PyResult<()> {
    let found = optional_attr(method, intern!(method.py(), "__self__"))?;
    let Some(behind) = found else { return Ok(()) };
    if behind.is(object) {
        return Ok(());
    }
    let type_info = type_info::of(&behind)?;
    type_info.check_before(&behind)?;
    type_info.checks.check(&behind, tensor.dtype())
}

pub fn disagreement(said: Device, found: Device) -> PyErr {
    PyBufferError::new_err(format!(
        "the producer should export a tensor on {said}, but exported one on {found}; its \
         __dlpack_device__ and __dlpack__ must agree"
    ))
}

/// Returns true if data that is reported on one device may be found on another: pinned memory is main memory, and
/// some producers do not distinguish them.
pub fn agree(said: Device, found: Device) -> bool {
    let both_on_host = [said, found].iter().all(|d| d.device_type().is_host_accessible());
    said == found || both_on_host
}

/// Returns true if data that is reported on one device is found on another of the same kind: JAX can have several
/// devices for the CPU.
pub fn is_moved(said: Device, found: Device) -> bool {
    said.device_type() == found.device_type() && said.id() != found.id()
}

/// The result of `__dlpack_device__`. Some producers lack the method, and one returns `None` as the CPU's number.
pub fn claimed_device(object: &Bound<'_, PyAny>) -> PyResult<Option<Device>> {
    let py = object.py();
    let Some(method) = attribute(object, intern!(py, "__dlpack_device__"))? else {
        return Ok(None);
    };
    let answer = method.call0()?;
    let Ok((device_type, id)) = pair(&answer)?.extract::<(i32, Option<i32>)>() else {
        return Err(wrong_type(
            "the result of __dlpack_device__",
            "a tuple or list of two integers",
            &answer,
        ));
    };
    Ok(Some(device(device_type, id.unwrap_or(0))))
}

/// Converts a list to a tuple, for code that names a device by two numbers; returns anything else unchanged.
fn pair<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match object.cast::<PyList>() {
        Ok(list) => list.to_tuple().into_any(),
        Err(_) => object.clone(),
    })
}

fn device(device_type: i32, id: i32) -> Device {
    Device::new(DeviceType::from_code(device_type), id)
}

pub fn expect_pair(
    argument: &str,
    expected: &str,
    dl_device: &Bound<'_, PyAny>,
) -> PyResult<Device> {
    let wrong = || wrong_type(argument, expected, dl_device);
    let (device_type, id) = pair(dl_device)?.extract::<(i32, i32)>().map_err(|_| wrong())?;
    Ok(device(device_type, id))
}
