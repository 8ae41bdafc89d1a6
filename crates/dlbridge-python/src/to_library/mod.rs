//! Tensors as objects of the framework that the caller works with: `t.to(...)`, `t.torch()`, `numpy.asarray(t)`,
//! `dlbridge.like`.

mod framework;
mod probe;
mod profiles;
mod report;

use dlbridge::{DataType, Device};
use dlbridge_pyo3::error::type_name;
use dlbridge_pyo3::import_options::{ImportOptions, expect_bool};
use dlbridge_pyo3::protocol::exchange_api::Table;
use dlbridge_pyo3::protocol::{buffer, exchange_table};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use self::framework::{Columns, Input, Need, is_common};
use self::probe::{Installed, is_refusal};
use crate::device::{self, Streams};
use crate::memory::normalized;
use crate::tensor::TensorObject;

pub(crate) use framework::Framework;
pub(crate) use profiles::{JAX, NUMPY, TORCH};
pub(crate) use report::{canonical, consumers, fit, origin};

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
    // Taken once, before it is decided whether a copy is needed: another thread may take it meanwhile.
    if copy != Some(true)
        && let Some(writable) = this.take_writable()
    {
        return to(&TensorObject::new(py, writable)?, framework, copy);
    }
    let behaviour = installed.behaviour_on(this.tensor().device());
    let needs_copy = framework.needs_copy(&behaviour, this.tensor(), this.is_read_only());
    if let (Some(Need { reason, remedy }), Some(false)) = (&needs_copy, copy) {
        return Err(PyBufferError::new_err(format!(
            "a copy would be needed, since {reason}, and copy=False forbids it; {remedy}"
        )));
    }
    let is_copied_here = (framework.copies)(this.tensor()).is_none();
    let tensor = match is_copied_here && (needs_copy.is_some() || copy == Some(true)) {
        true => &TensorObject::import(
            tensor.as_any(),
            &ImportOptions { copy: Some(true), ..ImportOptions::default() },
        )?,
        false => tensor,
    };
    let repaired;
    let tensor = match with_booleans(tensor, framework, copy)? {
        Some(copy) => {
            repaired = copy;
            &repaired
        }
        None => tensor,
    };
    let dtype = tensor.get().tensor().dtype();
    if let Some(table) = installed.table
        && is_common(dtype)
        && tensor.get().tensor().device() == Device::CPU
    {
        return exchange_table::export(py, table, tensor.get());
    }
    let input = Input { tensor, may_copy: copy != Some(false), request: behaviour.request };
    (framework.enter)(installed.function.bind(py), &input)
}

/// A copy for a framework that computes with the bytes of booleans, if some are neither 0 nor 1.
fn with_booleans<'py>(
    tensor: &Bound<'py, TensorObject>,
    framework: &Framework,
    copy: Option<bool>,
) -> PyResult<Option<Bound<'py, TensorObject>>> {
    let this = tensor.get();
    if !framework.counts_bytes || this.tensor().dtype() != DataType::BOOL {
        return Ok(None);
    }
    match normalized(this.tensor().share(), copy)? {
        (_, None) => Ok(None),
        (repaired, Some(_)) => TensorObject::new(tensor.py(), repaired).map(Some),
    }
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
        let behaviour = &Installed::of(py, &NUMPY)?.behaviour;
        if let Some(Need { reason, remedy }) =
            NUMPY.needs_copy(behaviour, this.tensor(), this.exports_read_only())
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
    if prototype.is_instance_of::<TensorObject>() {
        return Ok(tensor.into_any());
    }
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
    if prototype.is_instance_of::<TensorObject>() {
        return Ok(tensor.clone().into_any());
    }
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
    let py = times.py();
    let Some(framework) = Framework::of_object(prototype)? else { return Ok(times.clone()) };
    let Some(columns) = &framework.columns else { return Ok(times.clone()) };
    let function = py.import(framework.module)?.getattr((columns.function)(prototype)?)?;
    function.call1((times,)).or_else(|error| match is_refusal(py, &error) {
        true => Err(without_unit(framework.name, columns, times, error)?),
        false => Err(error),
    })
}

/// The refusal of times whose unit a framework lacks, with its exception as the cause. Other exceptions are passed on.
#[cold]
fn without_unit(
    name: &str,
    columns: &Columns,
    times: &Bound<'_, PyAny>,
    error: PyErr,
) -> PyResult<PyErr> {
    let py = times.py();
    let found: String =
        times.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "name"))?.extract()?;
    let kind = found.split('[').next().unwrap_or_default();
    // No library has spans of days.
    let units = columns.units.iter().filter(|&&unit| unit != "D" || kind == "datetime64");
    let fitting: Vec<_> = units.map(|unit| format!("{kind}[{unit}]")).collect();
    if fitting.is_empty() || fitting.contains(&found) {
        return Ok(error);
    }
    let refusal = PyBufferError::new_err(format!(
        "{name} lacks columns of {found} and has those of {}; return times of one of these units, or an array of NumPy",
        fitting.join(", ")
    ));
    refusal.set_cause(py, Some(error));
    Ok(refusal)
}
