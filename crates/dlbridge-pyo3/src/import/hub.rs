//! The objects that an extension does not read itself: array interfaces, Arrow, columns. The Python package `dlbridge`,
//! the hub, imports them, and its `Tensor` comes back by DLPack's exchange table.

use dlbridge::{CopyReason, Tensor};
use pyo3::exceptions::{PyBufferError, PyImportError, PyModuleNotFoundError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use super::shortcut;
use crate::error::{self, is_absent, type_name, with_article};
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::once::once;
use crate::order::Order;
use crate::protocol::exchange_api::Table;
use crate::protocol::time::{Elements, Times};
use crate::protocol::type_info;
use crate::stream::{self, DataStream, Streams, has_streams};

/// True in the package itself.
pub(crate) const IS_HUB: bool = cfg!(feature = "hub");

/// The package, and the module of its name.
const PACKAGE: &str = "dlbridge";

/// Imports an object by `dlbridge.asdlpack`.
pub(super) fn import<'py>(
    protocol: Protocol,
    object: &Bound<'py, PyAny>,
    options: &ImportOptions,
    streams: &Streams<'_, 'py>,
) -> PyResult<Imported> {
    static ASDLPACK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let asdlpack = match ASDLPACK.get(py) {
        Some(function) => function,
        None => once(&ASDLPACK, py, || function(protocol, object, "asdlpack"))?,
    };
    let keywords = keywords(py, options, streams)?;
    let tensor = asdlpack.bind(py).call((object,), keywords.as_ref())?;
    let imported = exported(&tensor)?;
    let device = imported.tensor.device();
    if streams.argument().is_none() && has_streams(device) {
        // The package has synchronised the data with the default stream.
        stream::order(py, device, &DataStream::Default, &streams.on(device)?)?;
    }
    Ok(imported)
}

/// Imports the times of a column; `None` for other elements.
pub(super) fn times(object: &Bound<'_, PyAny>, times: &Times) -> PyResult<Option<Imported>> {
    let times_of = private(Protocol::Arrow, object, "_times")?;
    let (fill, casts) = times.conversions();
    let answer = times_of.call1(object.py(), (object, times.names().to_vec(), fill, casts))?;
    let (tensor, found): (Option<Bound<'_, PyAny>>, Option<String>) =
        answer.extract(object.py())?;
    match (tensor, found) {
        (Some(tensor), Some(found)) if times.choose(Elements::Named(&found)) => {
            exported(&tensor).map(Some)
        }
        (_, Some(found)) => {
            times.set_found(found);
            Ok(None)
        }
        (_, None) => Ok(None),
    }
}

/// The advice for an object without a protocol; `None` without the package.
pub(crate) fn remedy(object: &Bound<'_, PyAny>) -> Option<String> {
    let remedy = private(Protocol::Arrow, object, "_remedy").ok()?;
    remedy.call1(object.py(), (object,)).ok()?.extract(object.py()).ok()?
}

/// A tensor of the package, over the memory of a tensor.
pub(crate) fn tensor(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let (dtype, device) = (tensor.dtype(), tensor.device());
    let need = || format!("the package dlbridge makes arrays of {dtype} on {device}");
    let class = package(py, need)?.getattr(intern!(py, "Tensor"))?.cast_into::<PyType>()?;
    let table = Table::of_type(&class)?;
    table.ok_or_else(|| not_a_tensor("no class".to_owned()))?.give(py, tensor)
}

/// The keywords of `asdlpack` for these options; `None` without options.
fn keywords<'py>(
    py: Python<'py>,
    options: &ImportOptions,
    streams: &Streams<'_, 'py>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let ImportOptions { protocol, copy, device, align, order, writable } = *options;
    let keywords = PyDict::new(py);
    if let Some(protocol) = protocol {
        keywords.set_item(intern!(py, "protocol"), protocol.name())?;
    }
    if let Some(copy) = copy {
        keywords.set_item(intern!(py, "copy"), copy)?;
    }
    if let Some(device) = device {
        let device = (device.device_type().code(), device.id());
        keywords.set_item(intern!(py, "device"), device)?;
    }
    if let Some(align) = align {
        keywords.set_item(intern!(py, "align"), align)?;
    }
    // Either order is left to the caller's own comparison.
    if let Order::C | Order::Fortran = order {
        let letter = if order == Order::C { "C" } else { "F" };
        keywords.set_item(intern!(py, "contiguous"), letter)?;
    }
    if let Some(writable) = writable {
        keywords.set_item(intern!(py, "writable"), writable)?;
    }
    if let Some(stream) = streams.argument() {
        keywords.set_item(intern!(py, "stream"), stream)?;
    }
    Ok((!keywords.is_empty()).then_some(keywords))
}

/// Imports a `dlbridge.Tensor` with its record, and with the checks of any tensor.
fn exported(tensor: &Bound<'_, PyAny>) -> PyResult<Imported> {
    let py = tensor.py();
    let wrong = || not_a_tensor(with_article(&type_name(tensor)));
    let type_info = type_info::of(tensor)?;
    let table = type_info.table.ok_or_else(wrong)?;
    let valid = shortcut::by_table(tensor, &type_info, table, &ImportOptions::default())?;
    let imported = valid.ok_or_else(wrong)?.settle(&ImportOptions::default())?;
    let name = tensor.getattr(intern!(py, "protocol"))?.extract::<Option<String>>()?;
    let protocol = Protocol::ALL.into_iter().find(|known| name.as_deref() == Some(known.name()));
    let reason = match tensor.getattr(intern!(py, "copied"))?.is_truthy()? {
        true => Some(reason(&tensor.getattr(intern!(py, "copy_reason"))?)?),
        false => None,
    };
    Ok(Imported { protocol: protocol.unwrap_or(imported.protocol), reason, ..imported })
}

fn not_a_tensor(found: String) -> PyErr {
    PyBufferError::new_err(format!(
        "the installed package dlbridge returned {found}, not a Tensor; reinstall it: pip install dlbridge"
    ))
}

/// The reason of a copy, by its text.
fn reason(text: &Bound<'_, PyAny>) -> PyResult<CopyReason> {
    let text: String = text.extract()?;
    let reasons = [
        CopyReason::Producer,
        CopyReason::BitPacked,
        CopyReason::ByteOrder,
        CopyReason::ByteStrides,
        CopyReason::SeveralChunks,
        CopyReason::InvalidBooleans,
        CopyReason::Nulls,
        CopyReason::Device,
    ];
    let found = reasons.into_iter().find(|reason| reason.to_string() == text);
    Ok(found.unwrap_or(CopyReason::Requested))
}

/// A function of the package's extension module, for an object that has a protocol which only the package reads.
fn private(protocol: Protocol, object: &Bound<'_, PyAny>, name: &str) -> PyResult<Py<PyAny>> {
    function(protocol, object, "_core")?.getattr(object.py(), name)
}

/// A function of the package, for an object that has a protocol which only the package reads.
fn function(protocol: Protocol, object: &Bound<'_, PyAny>, name: &str) -> PyResult<Py<PyAny>> {
    let need = || {
        format!(
            "'{}' object has {}, which the package dlbridge imports",
            type_name(object),
            protocol.words()
        )
    };
    Ok(package(object.py(), need)?.getattr(name)?.unbind())
}

/// The package. `need` says what needs it.
fn package(py: Python<'_>, need: impl FnOnce() -> String) -> PyResult<Bound<'_, PyModule>> {
    match error::import(py, PACKAGE) {
        Some(Ok(package)) => Ok(package),
        Some(Err(error)) if is_absent(&error, py, PACKAGE)? => {
            let text = format!("{}; install it: pip install dlbridge", need());
            let missing = PyModuleNotFoundError::new_err(text);
            missing.value(py).setattr(intern!(py, "name"), PACKAGE)?;
            missing.set_cause(py, Some(error));
            Err(missing)
        }
        Some(Err(error)) => Err(error),
        None => Err(PyImportError::new_err(
            "another thread was importing the package dlbridge when this process was forked; import dlbridge before",
        )),
    }
}

/// Returns true for the error of an object that needs the package, which is not installed.
pub(crate) fn is_missing(error: &PyErr) -> bool {
    !IS_HUB && Python::attach(|py| is_absent(error, py, PACKAGE).unwrap_or(false))
}
