//! `Tensor.dtype` and arguments `dtype`: the specification's names, NumPy's short ones like `<f4`, and dtypes of libraries.

use std::ffi::CString;

use dlbridge::{DataType, DataTypeCode as Code, Error, Result};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyString, PyType};

use crate::interfaces::{NATIVE, of_kind};
use dlbridge_pyo3::import_options::wrong_type;
use dlbridge_pyo3::python::error::repr_in_message;
use dlbridge_pyo3::python::objects::once;

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

/// The dtype of a name, if the specification knows it.
pub(crate) fn parse(name: &str) -> Result<DataType> {
    let dtype = match of_code(name) {
        Some(dtype) => dtype,
        None => name.parse()?,
    };
    dtype.check()?;
    match is_known(dtype) {
        true => Ok(dtype),
        false => Err(Error::UnknownDataTypeName),
    }
}

/// A header can hold any width, but libraries only have certain widths, and not 31 or 33 bits.
fn is_known(dtype: DataType) -> bool {
    match (dtype.code(), dtype.bits()) {
        (Code::INT | Code::UINT, bits) => matches!(bits, 1 | 2 | 4 | 8 | 16 | 32 | 64 | 128),
        (Code::FLOAT, bits) => matches!(bits, 16 | 32 | 64),
        (Code::COMPLEX, bits) => matches!(bits, 32 | 64 | 128),
        (Code::BFLOAT, bits) => bits == 16,
        (Code::BOOL, bits) => bits == 8,
        (Code::OPAQUE_HANDLE, bits) => matches!(bits, 8 | 16 | 32 | 64),
        (code, _) => (Code::FLOAT8_E3M4.code()..=Code::FLOAT4_E2M1FN.code()).contains(&code.code()),
    }
}

/// The dtype of NumPy's code of a kind and a number of bytes, like `f4` and `<f4`.
fn of_code(name: &str) -> Option<DataType> {
    let name = name.strip_prefix([NATIVE, '=', '|']).unwrap_or(name);
    let mut letters = name.chars();
    let (kind, size) = (letters.next()?, letters.as_str());
    of_kind(kind, size.parse().ok().filter(|number: &usize| number.to_string() == size)?)
}

/// The value of an argument `dtype`: a name, or a library's dtype, which has a name.
pub(crate) struct DtypeName(pub(crate) String);

impl DtypeName {
    /// The dtype of this name.
    pub(crate) fn expect(&self) -> PyResult<DataType> {
        let Self(name) = self;
        parse(name).map_err(|error| PyValueError::new_err(format!("dtype is '{name}': {error}")))
    }
}

impl From<&str> for DtypeName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl<'py> FromPyObject<'_, 'py> for DtypeName {
    type Error = PyErr;

    fn extract(dtype: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(name) = dtype.cast::<PyString>() {
            return Ok(Self(name.to_cow()?.into_owned()));
        }
        let py = dtype.py();
        if let Some(order) = dtype.getattr_opt(intern!(py, "byteorder"))?
            && order.extract::<char>().is_ok_and(|order| order == '>')
            && cfg!(target_endian = "little")
        {
            return Err(PyValueError::new_err(format!(
                "dtype is {}, whose byte order is not this machine's; pass \
                 dtype.newbyteorder('=')",
                repr_in_message(&dtype)
            )));
        }
        if let Ok(class) = dtype.cast::<PyType>()
            && let Some(name) = of_numpy_scalar(&class)?
        {
            return Ok(Self(name));
        }
        // A NumPy dtype and its class have a name, and PyTorch prints 'torch.float32'.
        for name in [intern!(py, "name"), intern!(py, "__name__")] {
            if let Some(Ok(name)) = dtype.getattr_opt(name)?.map(|name| name.extract::<String>()) {
                return Ok(Self(name));
            }
        }
        let text = dtype.str()?;
        match text.to_cow()?.rsplit_once('.') {
            Some((_, name)) if name.parse::<DataType>().is_ok() => Ok(Self(name.to_owned())),
            _ => Err(wrong_type("dtype", "a name like 'float32', or a dtype", &dtype)),
        }
    }
}

/// The name of NumPy's dtype for one of its scalar classes, like 'int64' for `numpy.longlong`.
fn of_numpy_scalar(class: &Bound<'_, PyType>) -> PyResult<Option<String>> {
    let py = class.py();
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    let numpy = modules.call_method1(intern!(py, "get"), (intern!(py, "numpy"),))?;
    let Some(generic) = numpy.getattr_opt(intern!(py, "generic"))? else { return Ok(None) };
    if !class.is_subclass(&generic)? {
        return Ok(None);
    }
    // Abstract classes, like `numpy.floating`, do not have a dtype.
    let dtype = numpy.getattr(intern!(py, "dtype"))?.call1((class,));
    match dtype {
        Ok(dtype) => dtype.getattr(intern!(py, "name"))?.extract().map(Some),
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Implements `==`: returns true if an object means the dtype of a name, as a name itself or as a dtype of any library.
#[pyfunction]
fn is_same(name: &str, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = other.py();
    let Ok(dtype) = name.parse::<DataType>() else { return Ok(false) };
    if let Ok(name) = other.cast::<PyString>() {
        let name = name.to_cow();
        return Ok(name.is_ok_and(|name| parse(&name).is_ok_and(|other| other == dtype)));
    }
    let of_python = [
        (py.get_type::<PyFloat>(), DataType::FLOAT64),
        (py.get_type::<PyInt>(), DataType::INT64),
        (py.get_type::<PyBool>(), DataType::BOOL),
        (py.get_type::<PyComplex>(), DataType::COMPLEX128),
    ];
    if let Some((_, meant)) = of_python.iter().find(|(class, _)| other.is(class)) {
        return Ok(*meant == dtype);
    }
    // Other objects have names too, which do not mean a dtype.
    let is_class = other.is_instance_of::<PyType>();
    let is_dtype =
        || Ok::<_, PyErr>(other.get_type().name()?.to_cow()?.to_lowercase().ends_with("type"));
    if !is_class && !is_dtype()? {
        return Ok(false);
    }
    let name = match other.extract::<DtypeName>() {
        Ok(DtypeName(name)) => name,
        Err(error) if error.is_instance_of::<PyException>(py) => return Ok(false),
        Err(error) => return Err(error),
    };
    Ok(name.parse::<DataType>().is_ok_and(|other| other == dtype))
}
