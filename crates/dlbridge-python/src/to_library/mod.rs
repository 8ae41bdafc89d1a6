//! Tensors as objects of the framework that the caller works with: `t.to(...)`, `t.torch()`, `numpy.asarray(t)`,
//! `dlbridge.like`; and the facts about a tensor and the frameworks, for programs.

mod framework;
mod probe;
mod profiles;

use dlbridge::{DataType, Device, sys};
use dlbridge_pyo3::exchange_table;
use dlbridge_pyo3::import_options::{ImportOptions, expect_bool};
use dlbridge_pyo3::protocol::buffer;
use dlbridge_pyo3::protocol::exchange_api::Table;
use dlbridge_pyo3::python::error::{is_absent, str_in_message, type_name};
use pyo3::exceptions::{PyBufferError, PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView};

use self::framework::{Input, Need, Request, is_common};
use self::probe::Installed;
use self::profiles::FRAMEWORKS;
use crate::device::{self, Streams};
use crate::frameworks::call;
use crate::matrix::expect_names;
use crate::memory::normalized;
use crate::tensor::TensorObject;

pub(crate) use framework::Framework;
pub(crate) use profiles::{JAX, NUMPY, TORCH};

/// As [`to`], with `copy` as Python passes it.
pub(crate) fn to_checked<'py>(
    tensor: &Bound<'py, TensorObject>,
    framework: &'static Framework,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    to(tensor, framework, copy.map(|copy| expect_bool("copy", copy)).transpose()?)
}

/// The tensor as an object of a framework: without a copy, unless the framework would otherwise get something wrong,
/// or `copy` requests one.
pub(crate) fn to<'py>(
    tensor: &Bound<'py, TensorObject>,
    framework: &'static Framework,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, this) = (tensor.py(), tensor.get());
    if let Some(reason) = framework.refusal(py, this.tensor())? {
        return Err(PyBufferError::new_err(reason));
    }
    let installed = Installed::of(py, framework)?;
    let behaviour = framework.behaviour(Some(installed), this.tensor().device());
    let needs_copy = framework.needs_copy(&behaviour, this.tensor(), this.is_read_only());
    if let (Some(Need { reason, remedy }), Some(false)) = (&needs_copy, copy) {
        return Err(PyBufferError::new_err(format!(
            "a copy would be needed, since {reason}, and copy=False forbids it; {remedy}"
        )));
    }
    let is_copied_here = (framework.copies)(this.tensor()).is_none();
    let mut tensor = tensor.clone();
    if is_copied_here && (needs_copy.is_some() || copy == Some(true)) {
        let options = ImportOptions { copy: Some(true), ..ImportOptions::default() };
        tensor = TensorObject::import(tensor.as_any(), &options)?;
    }
    let dtype = tensor.get().tensor().dtype();
    if framework.counts_bytes
        && dtype == DataType::BOOL
        && let (repaired, Some(_)) = normalized(tensor.get().tensor().share(), copy)?
    {
        // Some booleans are neither 0 nor 1.
        tensor = TensorObject::new(py, repaired)?;
    }
    if let Some(table) = installed.table
        && is_common(dtype)
        && tensor.get().tensor().device() == Device::CPU
    {
        return exchange_table::export(py, table, tensor.get());
    }
    let (tensor, may_copy) = (&tensor, copy != Some(false));
    let input = Input { tensor, may_copy, request: behaviour.request };
    (framework.enter)(installed.function.bind(py), &input)
}

/// The tensor as a table with these names for its columns.
pub(crate) fn to_table<'py>(
    tensor: &Bound<'py, TensorObject>,
    framework: &'static Framework,
    copy: Option<&Bound<'py, PyAny>>,
    columns: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    let arguments = (tensor, framework.name, expect_names(columns)?, copy);
    call(tensor.py(), "_tables", "table", arguments)
}

/// The result of `__array__`, with `dtype` and `copy` as NumPy passes them.
pub(crate) fn to_array<'py>(
    tensor: &Bound<'py, TensorObject>,
    dtype: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, this) = (tensor.py(), tensor.get());
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    // NumPy's own exception, which programs catch to allow the copy.
    let forbidden = |reason: String, remedy: &str| {
        Err(PyValueError::new_err(format!("{reason}, and copy=False forbids it; {remedy}")))
    };
    if copy == Some(false) {
        let installed = Installed::of(py, &NUMPY)?;
        let behaviour = NUMPY.behaviour(Some(installed), this.tensor().device());
        if let Some(Need { reason, remedy }) =
            NUMPY.needs_copy(&behaviour, this.tensor(), this.is_read_only())
        {
            return forbidden(format!("unable to avoid a copy, since {reason}"), &remedy);
        }
    }
    let array = to(tensor, &NUMPY, copy)?;
    let Some(dtype) = dtype else { return Ok(array) };
    let found = array.getattr(intern!(py, "dtype"))?;
    if found.eq(dtype)? {
        return Ok(array);
    }
    if copy == Some(false) {
        let reason = format!("elements of {found} become {dtype} by a copy");
        return forbidden(reason, "leave copy=False out");
    }
    array.call_method1(intern!(py, "astype"), (dtype,))
}

/// Make an object of the library that `prototype` belongs to, from anything that `asdlpack` imports.
///
/// For bytes, bytearray, array.array and mmap, the result is a memoryview.
#[pyfunction]
#[pyo3(signature = (prototype, obj, /, *, copy=None))]
pub(crate) fn like<'py>(
    prototype: &Bound<'py, PyAny>,
    obj: &Bound<'py, PyAny>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    let options = ImportOptions { copy, ..ImportOptions::default() };
    let tensor = TensorObject::import(obj, &options)?;
    // A copy that the import made needs no second copy on export.
    let made = like_tensor(prototype, &tensor, copy.filter(|&copy| !copy))?;
    made.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{} belongs to an unknown library; use asdlpack(obj) and that library's function to make \
             tensors; or asdlpack(obj).numpy(), which most libraries import",
            type_name(prototype)
        ))
    })
}

/// The result of an extension as an object of the library that `prototype` belongs to; unchanged if that is not known.
#[pyfunction]
#[pyo3(name = "_like")]
pub(crate) fn like_result<'py>(
    prototype: &Bound<'py, PyAny>,
    tensor: &Bound<'py, TensorObject>,
) -> PyResult<Bound<'py, PyAny>> {
    let made = like_tensor(prototype, tensor, None)?;
    Ok(made.unwrap_or_else(|| tensor.clone().into_any()))
}

/// A tensor as an object of the library that `prototype` belongs to; `None` if that is not known.
fn like_tensor<'py>(
    prototype: &Bound<'py, PyAny>,
    tensor: &Bound<'py, TensorObject>,
    copy: Option<bool>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = prototype.py();
    if TensorObject::of(prototype).is_some() {
        return Ok(Some(tensor.clone().into_any()));
    }
    if let Some(framework) = Framework::of_object(prototype)? {
        return to(tensor, framework, copy).map(Some);
    }
    if let Some(table) = Table::of_type(&prototype.get_type())? {
        device::put_in_order(py, tensor.get(), Streams::default())?;
        return exchange_table::export(py, table, tensor.get()).map(Some);
    }
    if buffer::is_supported(prototype) {
        return Ok(Some(PyMemoryView::from(tensor.as_any())?.into_any()));
    }
    Ok(None)
}

/// An array of times as a column of the library that `prototype` belongs to; unchanged if that library lacks columns.
#[pyfunction]
#[pyo3(name = "_like_times")]
pub(crate) fn like_times<'py>(
    prototype: &Bound<'py, PyAny>,
    times: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(framework) = Framework::of_object(prototype)? else { return Ok(times.clone()) };
    call(times.py(), "_tables", "like_times", (framework.name, prototype, times))
}

/// The origin of a tensor: the DLPack version of its managed tensor, and the names of its flags.
#[pyfunction]
#[pyo3(name = "_origin")]
pub(crate) fn origin(tensor: &Bound<'_, TensorObject>) -> (Option<String>, Vec<&'static str>) {
    let this = tensor.get();
    let version =
        this.record().version.map(|version| format!("{}.{}", version.major, version.minor));
    let flags = this.tensor().flags();
    let names = [
        (sys::DLPACK_FLAG_BITMASK_READ_ONLY, "read-only"),
        (sys::DLPACK_FLAG_BITMASK_IS_COPIED, "copied"),
        (sys::DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, "sub-byte padded"),
    ];
    let set = names.into_iter().filter(|(bit, _)| flags & bit != 0);
    (version, set.map(|(_, name)| name).collect())
}

/// The canonical name of the library in an argument `to`: a name, or a module.
#[pyfunction]
#[pyo3(name = "_canonical")]
pub(crate) fn canonical(to: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    Ok(Framework::of_argument("to", to)?.name)
}

/// The consumer profiles, as a list of dictionaries. Measured fields are `None` before the first use of a framework.
#[pyfunction]
#[pyo3(name = "_consumers")]
pub(crate) fn consumers(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    FRAMEWORKS.into_iter().map(|framework| profile(py, framework)).collect()
}

fn profile<'py>(py: Python<'py>, framework: &'static Framework) -> PyResult<Bound<'py, PyDict>> {
    let installed = Installed::known(py, framework);
    let measured = installed.map(|_| framework.behaviour(installed, Device::CPU));
    let behaviour = measured.or(framework.stated);
    let max_version = match behaviour.map(|behaviour| behaviour.request) {
        Some(Request::Versioned(major, minor)) => Some((major, minor)),
        _ => None,
    };
    let fields = PyDict::new(py);
    fields.set_item("name", framework.name)?;
    fields.set_item("module", framework.module)?;
    fields.set_item("function", framework.function)?;
    fields.set_item("measured", installed.and_then(|installed| installed.measured.as_deref()))?;
    fields.set_item("takes", behaviour.map(|behaviour| framework.describe(&behaviour)))?;
    fields.set_item("max_version", max_version)?;
    fields.set_item("exchange_api", framework.table_of.is_some())?;
    fields.set_item("copies", behaviour.map(|behaviour| behaviour.copies))?;
    fields.set_item("read_only", behaviour.map(|behaviour| behaviour.read_only.describe()))?;
    fields.set_item("layout", behaviour.map(|behaviour| behaviour.layout.describe()))?;
    fields.set_item("max_ndim", *framework.ndim.end())?;
    fields.set_item("align", behaviour.map(|behaviour| behaviour.align))?;
    Ok(fields)
}

/// Why a library refuses a tensor, why it needs a copy, how to avoid that, and the release that was measured.
type Fit = (Option<String>, Option<String>, Option<String>, Option<&'static str>);

/// How a library imports a tensor: why it refuses, why it copies, how to avoid that, and the release that was
/// measured.
///
/// It loads the library, as an export does. Without the library, the result is the careful assumption.
#[pyfunction]
#[pyo3(name = "_fit")]
pub(crate) fn fit(tensor: &Bound<'_, TensorObject>, library: &str) -> PyResult<Fit> {
    let (py, framework, this) = (tensor.py(), Framework::of_name(library)?, tensor.get());
    let mut refused = framework.refusal(py, this.tensor())?;
    let mut installed = Installed::known(py, framework);
    if refused.is_none() && installed.is_none() {
        match Installed::of(py, framework) {
            Ok(found) => installed = Some(found),
            Err(error) if is_absent(&error, py, framework.package())? => {}
            Err(error) if error.is_instance_of::<PyException>(py) => {
                let name = framework.name;
                refused =
                    Some(format!("{name} cannot be used: {}", str_in_message(error.value(py))));
            }
            Err(error) => return Err(error),
        }
    }
    let behaviour = framework.behaviour(installed, this.tensor().device());
    let need = framework.needs_copy(&behaviour, this.tensor(), this.is_read_only());
    let (reason, remedy) = need.map(|need| (need.reason, need.remedy)).unzip();
    Ok((refused, reason, remedy, installed.and_then(|installed| installed.measured.as_deref())))
}
