//! DLPack's Python protocol, `__dlpack__` and `__dlpack_device__`: the import with all options, also from producers that are
//! older than versioned capsules.
//!
//! Source: the array API standard 2024.12 and the Python specification of DLPack.

use dlbridge::sys;
use dlbridge::{CopyReason, Device, Error};
use dlbridge_gpu::Driver;
use dlbridge_pyo3::capsule;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::Imported;
use dlbridge_pyo3::protocol::dlpack::{agree, claimed_device, expect_pair, is_moved, received};
use dlbridge_pyo3::protocol::numpy::tensor_of;
use dlbridge_pyo3::python::objects::attribute;
use pyo3::exceptions::{
    PyBufferError, PyException, PyNotImplementedError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::options::missing_driver;
use crate::device::{Streams, is_possible};
use crate::export::must_move;
use crate::frameworks::explain::{first_sentence, is_refusal};

/// Imports an object that has `__dlpack__`; `None` for an object without it.
pub(crate) fn import<'py>(
    object: &Bound<'py, PyAny>,
    options: &ImportOptions,
    streams: Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    let Some(method) = attribute(object, intern!(object.py(), "__dlpack__"))? else {
        return Ok(None);
    };
    let claimed = claimed_device(object)?;
    let copy = copy_to_ask(options.copy, claimed);
    // Data for the CPU is complete when the call returns.
    let to_host = options.device.is_some_and(|device| device.device_type().is_host_accessible());
    let stream = match to_host {
        true => None,
        false => streams.keyword(object.py(), options.device.or(claimed))?,
    };
    let answer = ask(&method, object, options, claimed, copy, stream)?;
    // A producer that moves the data reports the requested device.
    let imported = received(&method, object, answer, options.device.or(claimed))?;
    let found = imported.tensor.device();
    streams.check_asked(claimed, found)?;
    let says_copied = imported.tensor.flags() & sys::DLPACK_FLAG_BITMASK_IS_COPIED != 0;
    if says_copied && options.copy == Some(false) {
        return Err(PyBufferError::new_err(
            "the producer made a copy despite copy=False; leave copy=False out",
        ));
    }
    // Some producers copy or move without marking that.
    let moved = claimed.is_some_and(|claimed| !agree(claimed, found) || is_moved(claimed, found));
    if moved && options.copy == Some(false) {
        return Err(PyBufferError::new_err(format!(
            "the producer moved the data to {found}, which is a copy, and copy=False forbids it; \
             leave copy=False out"
        )));
    }
    let copied = says_copied || moved || copy == Some(true);
    let reason = copied.then_some(match copy {
        Some(true) => CopyReason::Requested,
        _ => CopyReason::Producer,
    });
    Ok(Some(Imported { reason, ..imported }))
}

/// The refusal of a producer that does not export its data to the requested device, with the producer's exception as
/// the cause. Other exceptions are passed on.
fn not_there(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
    claimed: Option<Device>,
    error: PyErr,
) -> PyErr {
    let (Some(claimed), Some(to)) = (claimed, options.device) else { return error };
    let is_ours = tensor_of(object).is_some();
    if claimed == to || is_ours || !is_refusal(object, &error) {
        return error;
    }
    let reason = match missing_driver(options, to) {
        Some(failure) => format!(" and cannot be copied to {to}: {failure}"),
        None => format!(
            ", and its producer does not export it to {to} ({}); move it there with the producer's library first",
            first_sentence(object.py(), &error)
        ),
    };
    let refusal = PyBufferError::new_err(format!("the data is on {claimed}{reason}"));
    refusal.set_cause(object.py(), Some(error));
    refusal
}

/// Returns true if an object reports that the CPU cannot read its data. One that refuses to say is taken for one on the CPU.
pub(crate) fn is_on_device(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    match claimed_device(object) {
        Ok(claimed) => Ok(claimed.is_some_and(|device| !device.device_type().is_host_accessible())),
        Err(error) if error.is_instance_of::<PyException>(object.py()) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Imports an object that has `__dlpack__` as a legacy consumer does; `None` for an object without it.
pub(crate) fn import_legacy<'py>(
    object: &Bound<'py, PyAny>,
    options: &ImportOptions,
    streams: Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    let Some(method) = attribute(object, intern!(object.py(), "__dlpack__"))? else {
        return Ok(None);
    };
    let claimed = claimed_device(object)?;
    let answer = ask_legacy(&method, streams.keyword(object.py(), claimed)?)?;
    let imported = received(&method, object, answer, claimed)?;
    let found = imported.tensor.device();
    streams.check_asked(claimed, found)?;
    options.device.map_or(Ok(()), |wanted| must_move(found, wanted).map(drop))?;
    Ok(Some(imported))
}

/// The `copy` to request from the producer. dlbridge itself copies memory that the CPU can read, to aligned memory,
/// and CUDA memory if the driver can be loaded: not every producer synchronises its copy with the requested stream.
fn copy_to_ask(wanted: Option<bool>, claimed: Option<Device>) -> Option<bool> {
    let is_ours_to_copy = || {
        claimed.is_none_or(|device| {
            device.device_type().is_host_accessible()
                || (is_possible(device, device) && Driver::of(device.device_type()).is_ok())
        })
    };
    wanted.filter(|&copy| !(copy && is_ours_to_copy()))
}

/// Calls `__dlpack__` with all keywords. If the producer is older than versioned capsules, calls it again with the
/// keywords that such producers support.
fn ask<'py>(
    method: &Bound<'py, PyAny>,
    object: &Bound<'py, PyAny>,
    options: &ImportOptions,
    claimed: Option<Device>,
    copy: Option<bool>,
    stream: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = method.py();
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "max_version"), capsule::max_version(py)?)?;
    if let Some(stream) = &stream {
        keywords.set_item(intern!(py, "stream"), stream)?;
    }
    // Some producers refuse the keyword itself, so it is passed only if needed.
    if let Some(device) = options.device.filter(|&wanted| claimed != Some(wanted)) {
        keywords.set_item(intern!(py, "dl_device"), (device.device_type().code(), device.id()))?;
    }
    if let Some(copy) = copy {
        keywords.set_item(intern!(py, "copy"), copy)?;
    }
    let is_not_implemented = |error: &PyErr| {
        let names_it = |text: Bound<'_, PyString>| text.to_string_lossy().contains("max_version");
        error.is_instance_of::<PyNotImplementedError>(py)
            && error.value(py).str().is_ok_and(names_it)
    };
    let error = match method.call((), Some(&keywords)) {
        // A producer that has the keyword, and does not support it yet.
        Err(error) if is_not_implemented(&error) => {
            keywords.del_item(intern!(py, "max_version"))?;
            let answer = method.call((), Some(&keywords));
            return answer.map_err(|error| not_there(object, options, claimed, error));
        }
        Err(error) if is_unknown_keyword(&error, &keywords)? => error,
        answer => return answer.map_err(|error| not_there(object, options, claimed, error)),
    };
    let elsewhere =
        options.device.is_some_and(|wanted| claimed.is_some_and(|claimed| claimed != wanted));
    // Producers that are older than the keyword `copy` share their memory, so `copy=False` can be left out.
    if elsewhere || copy == Some(true) {
        let (keyword, option) =
            if elsewhere { ("dl_device", "device") } else { ("copy", "copy=True") };
        let refusal = PyBufferError::new_err(format!(
            "the producer's __dlpack__ is older than the keyword {keyword}, so it cannot be asked \
             for that; leave {option} out, and copy or move the tensor first"
        ));
        refusal.set_cause(py, Some(error));
        return Err(refusal);
    }
    ask_legacy(method, stream)
}

/// Calls `__dlpack__` as a legacy consumer does, with no keyword except `stream`.
fn ask_legacy<'py>(
    method: &Bound<'py, PyAny>,
    stream: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let keywords = PyDict::new(method.py());
    if let Some(stream) = stream {
        keywords.set_item(intern!(method.py(), "stream"), stream)?;
    }
    method.call((), Some(&keywords))
}

/// Returns true if a call failed because the callee does not support a keyword, and not because of a call inside it.
///
/// Python refuses unknown keywords before the callee's first line, so a traceback is missing. With a traceback, the
/// callee may have passed `max_version` on to a function that does not support it; any other complaint is about a
/// call of the callee's own.
fn is_unknown_keyword(error: &PyErr, sent: &Bound<'_, PyDict>) -> PyResult<bool> {
    let py = sent.py();
    if !error.get_type(py).is(py.get_type::<PyTypeError>()) {
        return Ok(false);
    }
    let Ok(message) = error.value(py).str() else { return Ok(false) };
    let message = message.to_string_lossy();
    let refuses = |keyword: &str| {
        message.contains(&format!("unexpected keyword argument '{keyword}'"))
            || message.contains(&format!("'{keyword}' is an invalid keyword argument"))
    };
    if let Some(traceback) = error.traceback(py) {
        // Raised by a direct call of the callee, not by a call further down.
        let direct = traceback.getattr(intern!(py, "tb_next"))?.is_none();
        return Ok(direct && refuses("max_version"));
    }
    let phrases =
        ["takes no keyword arguments", "takes no arguments", "incompatible function arguments"];
    if phrases.iter().any(|phrase| message.contains(phrase)) {
        return Ok(true);
    }
    Ok(sent.keys().extract::<Vec<String>>()?.iter().any(|keyword| refuses(keyword)))
}

/// The value of an argument `device`: a tuple as `__dlpack_device__` returns it, or a name as in `Tensor.device`.
pub(crate) fn expect_named_device(device: &Bound<'_, PyAny>) -> PyResult<Device> {
    if let Ok(name) = device.cast::<PyString>() {
        let parsed = name.to_cow()?.parse();
        return parsed.map_err(|error: Error| {
            PyValueError::new_err(format!("device is {device:?}: {error}"))
        });
    }
    const EXPECTED: &str =
        "None, a name like 'cpu' or 'cuda:0', or a tuple of two integers like (1, 0)";
    expect_pair("device", EXPECTED, device)
}
