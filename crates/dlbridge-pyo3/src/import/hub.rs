//! The work that an extension leaves to the Python package `dlbridge`, the hub: other imports and exports, and objects of other
//! libraries. The package's `Tensor` comes back by DLPack's exchange table.

use pyo3::exceptions::{PyBufferError, PyImportError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use super::has;
use crate::capsule;
use crate::import_options::ImportOptions;
use crate::import_options::Order;
use crate::imported::{Imported, Protocol, Record};
use crate::protocol::exchange_api::Table;
use crate::protocol::time::{Elements, Times};
use crate::protocol::type_info;
use crate::python::error::{self, is_absent, not_installed, type_name, with_article};
use crate::python::objects::once;
use crate::python::objects::{attr, attr_if_any, modules};
use crate::tensor::PyTensor;

/// The package, and the module of its name.
const PACKAGE: &str = "dlbridge";

/// Imports an object by `dlbridge.asdlpack`, synchronised with a stream by its number, or with the default stream. The
/// protocol is one that only the package reads.
pub(super) fn import(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
    protocol: Option<Protocol>,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<Imported> {
    static ASDLPACK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let asdlpack = match ASDLPACK.get(py) {
        Some(function) => function,
        None => once(&ASDLPACK, py, || {
            let package = package(py, &|| only_imports(protocol, object))?;
            Ok::<_, PyErr>(attr(&package, "asdlpack")?.unbind())
        })?,
    };
    let keywords = keywords(py, options, stream)?;
    exported(&asdlpack.bind(py).call((object,), keywords.as_ref())?, stream)
}

/// Imports a table as a matrix, whose copy has an order; `None` for an object that is not a table.
pub(super) fn matrix(object: &Bound<'_, PyAny>, order: Order) -> PyResult<Option<Imported>> {
    let package = package(object.py(), &|| only_imports(Some(Protocol::Arrow), object))?;
    // An older package refuses tables.
    let Some(matrix) = attr_if_any(&attr(&package, "_core")?, "_matrix")? else { return Ok(None) };
    let tensor = matrix.call1((object, letter(order)))?;
    if tensor.is_none() { Ok(None) } else { exported(&tensor, None).map(Some) }
}

/// Imports the times of a column; `None` for other elements.
pub(super) fn times(object: &Bound<'_, PyAny>, times: &Times) -> PyResult<Option<Imported>> {
    let py = object.py();
    let times_of = private(py, "_times", &|| only_imports(Some(Protocol::Arrow), object))?;
    let answer = times_of.call1((object, times.names.to_vec(), times.fill, times.casts))?;
    let (tensor, found): (Option<Bound<'_, PyAny>>, Option<String>) = answer.extract()?;
    match (tensor, found) {
        (Some(tensor), Some(found)) if times.choose(Elements::Named(&found)) => {
            exported(&tensor, None).map(Some)
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
    let remedy = private(object.py(), "_remedy", &String::new).ok()?;
    remedy.call1((object,)).ok()?.extract().ok()?
}

/// The exchange table of the package's `Tensor`; `None` if the package is not installed.
#[inline]
pub(crate) fn tensor_table(py: Python<'_>) -> PyResult<Option<Table>> {
    static TABLE: PyOnceLock<Table> = PyOnceLock::new();
    match TABLE.get(py) {
        Some(table) => Ok(Some(*table)),
        None => find_table(py, &TABLE),
    }
}

#[cold]
fn find_table(py: Python<'_>, cell: &PyOnceLock<Table>) -> PyResult<Option<Table>> {
    /// The package was not installed once. Then results do not search for it, but use it once other code has imported it.
    static ABSENT: PyOnceLock<()> = PyOnceLock::new();
    if ABSENT.get(py).is_some() && !modules(py)?.contains(PACKAGE)? {
        return Ok(None);
    }
    let package = match package(py, &made_by_package) {
        Ok(package) => package,
        Err(error) if is_missing(&error) => {
            let _ = ABSENT.set(py, ());
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let class = attr(&package, "Tensor")?.cast_into::<PyType>()?;
    let table = Table::of_type(&class)?.ok_or_else(|| not_a_tensor("no class".to_owned()))?;
    once(cell, py, || Ok(table)).map(|table| Some(*table))
}

/// Raises that the package is not installed. `need` says what needs it.
pub(crate) fn require(py: Python<'_>, need: &dyn Fn() -> String) -> PyResult<()> {
    match tensor_table(py)? {
        Some(_) => Ok(()),
        None => package(py, need).map(drop),
    }
}

fn made_by_package() -> String {
    "the package dlbridge makes this result".to_owned()
}

/// A tensor as an object of a library, by its name.
pub(crate) fn converted<'py>(
    py: Python<'py>,
    tensor: PyTensor,
    library: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let (dtype, device) = (tensor.tensor().dtype(), tensor.tensor().device());
    require(py, &|| {
        format!(
            "the package dlbridge makes a {library} result of {dtype} on {device} from this tensor"
        )
    })?;
    tensor.into_pyobject(py)?.call_method1(intern!(py, "to"), (library,))
}

/// A tensor of the package as an object of the library that another object belongs to; unchanged for an unknown library.
pub(crate) fn like<'py>(
    prototype: &Bound<'py, PyAny>,
    tensor: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    private(prototype.py(), "_like", &made_by_package)?.call1((prototype, tensor))
}

/// An array of times as a column of the library that another object belongs to; unchanged if that library lacks columns.
pub(crate) fn like_times<'py>(
    prototype: &Bound<'py, PyAny>,
    array: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let is_column = has(prototype, Protocol::Arrow)?;
    if !is_column && tensor_table(prototype.py())?.is_none() {
        return Ok(array);
    }
    private(prototype.py(), "_like_times", &made_by_package)?.call1((prototype, array))
}

/// The keywords of `asdlpack` for these options; `None` without options.
fn keywords<'py>(
    py: Python<'py>,
    options: &ImportOptions,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let ImportOptions { protocol, copy, device, align, order, writable, assume_writable } =
        *options;
    let keywords = PyDict::new(py);
    set(&keywords, "protocol", protocol.map(Protocol::name))?;
    set(&keywords, "copy", copy)?;
    set(&keywords, "device", device.map(|to| (to.device_type().code(), to.id())))?;
    set(&keywords, "align", align)?;
    set(&keywords, "contiguous", letter(order))?;
    set(&keywords, "writable", writable)?;
    set(&keywords, "assume_writable", assume_writable.then_some(true))?;
    set(&keywords, "stream", stream)?;
    Ok((!keywords.is_empty()).then_some(keywords))
}

/// The package's name for an order; either order is left to the caller's own comparison.
fn letter(order: Order) -> Option<&'static str> {
    match order {
        Order::C => Some("C"),
        Order::Fortran => Some("F"),
        _ => None,
    }
}

fn set<'py>(
    keywords: &Bound<'py, PyDict>,
    name: &str,
    value: Option<impl IntoPyObject<'py>>,
) -> PyResult<()> {
    value.map_or(Ok(()), |value| keywords.set_item(name, value))
}

/// Imports a `dlbridge.Tensor` with its record. Data on a device is already synchronised with the stream.
fn exported(tensor: &Bound<'_, PyAny>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<Imported> {
    let py = tensor.py();
    let wrong = || not_a_tensor(with_article(&type_name(tensor)));
    let type_info = type_info::of(tensor)?;
    let table = type_info.table.ok_or_else(wrong)?;
    let imported = match stream {
        None => table.import(tensor)?,
        // The table would make the default stream wait.
        Some(stream) => {
            let keywords = PyDict::new(py);
            keywords.set_item(intern!(py, "stream"), stream)?;
            keywords.set_item(intern!(py, "max_version"), capsule::max_version(py)?)?;
            let answer = tensor.call_method(intern!(py, "__dlpack__"), (), Some(&keywords))?;
            capsule::take(&capsule::expect(answer, tensor)?)?
        }
    };
    let record = tensor.getattr_opt(intern!(py, "_record"))?.ok_or_else(|| lacks("_record"))?;
    let Record { protocol, reason, version } =
        Record::of_number(record.extract().map_err(|_| wrong())?);
    let protocol = protocol.unwrap_or(imported.protocol);
    Ok(Imported { tensor: imported.tensor, protocol, reason, version })
}

fn not_a_tensor(found: String) -> PyErr {
    PyBufferError::new_err(format!(
        "the installed package dlbridge returned {found}, not a Tensor; reinstall it: pip install dlbridge"
    ))
}

/// Says that only the package imports an object.
fn only_imports(protocol: Option<Protocol>, object: &Bound<'_, PyAny>) -> String {
    let name = type_name(object);
    match protocol.map(Protocol::words) {
        Some(words) => format!("'{name}' object has {words}, which the package dlbridge imports"),
        None => {
            format!("only the package dlbridge imports this '{name}' object, or says what it lacks")
        }
    }
}

/// A private function of the package, which may be of another version. `need` says what needs the package.
fn private<'py>(
    py: Python<'py>,
    name: &str,
    need: &dyn Fn() -> String,
) -> PyResult<Bound<'py, PyAny>> {
    let package = package(py, need)?;
    let found = attr_if_any(&attr(&package, "_core")?, name)?;
    found.ok_or_else(|| lacks(name))
}

/// The error for a package that is too old.
fn lacks(name: &str) -> PyErr {
    PyImportError::new_err(format!(
        "the installed package dlbridge lacks {name}, which this extension needs; run pip install --upgrade dlbridge"
    ))
}

/// The package. `need` says what needs it.
fn package<'py>(py: Python<'py>, need: &dyn Fn() -> String) -> PyResult<Bound<'py, PyModule>> {
    let cause = match error::import(py, PACKAGE) {
        // A folder of that name, such as a clone of the repository, is a package without a file.
        Some(Ok(package))
            if attr_if_any(&package, "__path__")?.is_some()
                && attr_if_any(&package, "__file__")?.is_none_or(|file| file.is_none()) =>
        {
            None
        }
        Some(Ok(package)) => return Ok(package),
        Some(Err(error)) if is_absent(&error, py, PACKAGE)? => Some(error),
        Some(Err(error)) => return Err(error),
        None => {
            return Err(PyImportError::new_err(
                "another thread was importing the package dlbridge when this process was forked; import dlbridge before",
            ));
        }
    };
    let text = need() + "; install it: pip install dlbridge";
    Err(not_installed(py, text, PACKAGE, cause))
}

/// Returns true for the error of an object that needs the package, which is not installed.
pub(crate) fn is_missing(error: &PyErr) -> bool {
    Python::attach(|py| {
        let absent = |error: &PyErr| is_absent(error, py, PACKAGE).unwrap_or(false);
        absent(error) || error.cause(py).is_some_and(|cause| absent(&cause))
    })
}

/// The refusal of a NumPy array that cannot be shared, as rust-numpy refuses it: a `TypeError`, also without the package.
#[cold]
pub(super) fn not_shared(py: Python<'_>, error: PyErr) -> PyErr {
    if !is_missing(&error) {
        return error;
    }
    let refusal = PyTypeError::new_err(error.value(py).to_string());
    refusal.set_cause(py, Some(error));
    refusal
}
