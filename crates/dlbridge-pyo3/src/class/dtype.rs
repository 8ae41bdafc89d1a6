//! The class of `Tensor.dtype`: a subclass of `str`, which only Python code can make with the stable ABI.

use std::ffi::CString;

use dlbridge::DataType;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use crate::dtype_name;
use crate::once::once;

/// One name for each code of the specification and each power of two of bits up to 128, with one lane.
static NAMES: [PyOnceLock<Py<PyAny>>; CODES * WIDTHS] =
    [const { PyOnceLock::new() }; CODES * WIDTHS];
const CODES: usize = 18;
const WIDTHS: usize = 8;

/// The name of a dtype, as Python sees it.
pub(super) fn name(py: Python<'_>, dtype: DataType) -> PyResult<Bound<'_, PyAny>> {
    let make = || class(py)?.call1((dtype.to_string(),));
    let (code, width) = (usize::from(dtype.code().code()), dtype.bits().trailing_zeros() as usize);
    let is_common = code < CODES && dtype.bits().is_power_of_two() && dtype.lanes() == 1;
    match NAMES.get(code * WIDTHS + width).filter(|_| is_common) {
        Some(known) => Ok(once(known, py, || make().map(Bound::unbind))?.bind(py).clone()),
        None => make(),
    }
}

/// The class of names. Each extension that is built on this crate has its own.
///
/// # Errors
/// Those of Python, like `MemoryError`.
pub(crate) fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let make = || {
        let globals = PyDict::new(py);
        globals.set_item("__name__", "dlbridge._core")?;
        globals.set_item("is_same", wrap_pyfunction!(is_same, py)?)?;
        py.run(&CString::new(include_str!("dtype.py"))?, Some(&globals), None)?;
        let class = globals.as_any().get_item("DTypeName")?;
        Ok::<_, PyErr>(class.cast_into::<PyType>()?.unbind())
    };
    Ok(once(&CLASS, py, make)?.bind(py))
}

/// Returns true if a name and another object mean the same dtype.
#[pyfunction]
fn is_same(name: &str, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    match name.parse::<DataType>() {
        Ok(dtype) => dtype_name::is_same(dtype, other),
        Err(_) => Ok(false),
    }
}
