//! pandas: columns, indices and tables.
//!
//! A column whose values NumPy holds is imported as the array that `to_numpy()` returns: Arrow would export NaN as
//! null, pack booleans to bits, copy strided values and convert objects.

use dlbridge::CopyReason;
use pyo3::exceptions::{PyBufferError, PyImportError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use dlbridge_pyo3::frameworks::{ARROW_FIRST, ImportRules, NO_RULES};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::protocol::type_info;
use dlbridge_pyo3::python::error::{beyond_tensors, str_in_message, type_name, with_article};
use dlbridge_pyo3::python::objects::has_one_reference;
use dlbridge_pyo3::python::objects::once;
use dlbridge_pyo3::python::objects::{attribute, is_instance, loaded_class};

pub(crate) static PANDAS: ImportRules = ImportRules {
    packages: &["pandas"],
    class: Some(("pandas", "Series")),
    protocols: &ARROW_FIRST,
    ..NO_RULES
};

/// The NumPy array that holds the values of a `pandas.Series`, and why it is a copy if it is one; `None` for a column
/// whose dtype is not NumPy's.
pub(crate) fn array_of<'py>(
    series: &Bound<'py, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<(Bound<'py, PyAny>, Option<CopyReason>)>> {
    if !has_numpy_dtype(series)? {
        return Ok(None);
    }
    let py = series.py();
    let Some(method) = attribute(series, intern!(py, "to_numpy"))? else { return Ok(None) };
    let array = method.call0()?;
    if !type_info::of(&array)?.borrowed.numpy_array {
        return Err(PyBufferError::new_err(format!(
            "to_numpy() of the column, a {}, returned an object of type {}, not an array of NumPy; pass numpy.asarray(s)",
            type_name(series),
            type_name(&array)
        )));
    }
    // An array that owns its elements and has a single reference was made for this call.
    // SAFETY: the thread is attached, and `array` is a live object.
    let only_here = unsafe { has_one_reference(py, array.as_ptr()) };
    let owns = array.getattr(intern!(py, "flags"))?.getattr(intern!(py, "owndata"))?.is_truthy()?;
    let reason = (only_here && owns).then_some(CopyReason::Producer);
    if reason.is_some() && options.copy == Some(false) {
        return Err(PyBufferError::new_err(
            "pandas copies this column to make a NumPy array, and copy=False forbids that; leave out copy=False",
        ));
    }
    Ok(Some((array, reason)))
}

/// Returns true if an object's dtype is NumPy's, and not a pandas extension type.
fn has_numpy_dtype(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    match object.getattr_opt(intern!(py, "dtype"))? {
        Some(dtype) => is_of_numpy(&dtype),
        None => Ok(false),
    }
}

/// Returns true for a NumPy dtype.
fn is_of_numpy(dtype: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = dtype.py();
    if let Some(class) = CLASS.get(py) {
        return dtype.is_instance(class.bind(py));
    }
    let Some(class) = loaded_class(py, "numpy", "dtype")? else {
        return Ok(false);
    };
    let class = once(&CLASS, py, || Ok::<_, PyErr>(class.unbind()))?;
    dtype.is_instance(class.bind(py))
}

/// The pandas dtypes whose storage differs from their values: the class in the module `pandas`, and the advice for a
/// column `s` and for an index or array `a`.
const NOT_NUMBERS: [(&str, &str, &str); 6] = [
    ("PeriodDtype", "s.astype('int64') gives the ordinals", "a.asi8 holds the ordinals"),
    (
        "IntervalDtype",
        "s.array.left.to_numpy() and s.array.right.to_numpy() are the ends",
        "a.left.to_numpy() and a.right.to_numpy() are the ends",
    ),
    (
        "CategoricalDtype",
        "s.cat.codes are the codes, s.astype(s.cat.categories.dtype) the values",
        "a.codes are the codes, numpy.asarray(a) the values",
    ),
    (
        "SparseDtype",
        "s.sparse.to_dense() gives all elements",
        "numpy.asarray(a) gives all elements",
    ),
    (
        "DatetimeTZDtype",
        "s.astype('int64') gives the counts since 1970",
        "a.asi8 holds the counts since 1970",
    ),
    (
        "StringDtype",
        "pandas.to_numeric(s) reads numbers",
        "numpy.asarray(pandas.to_numeric(a)) reads numbers",
    ),
];

/// The advice for a column and for an array of a pandas dtype whose values are not numbers; `None` for others.
fn not_numbers(dtype: &Bound<'_, PyAny>) -> Option<(&'static str, &'static str)> {
    let is = |class: &str| is_instance(dtype, "pandas", class).unwrap_or(false);
    let known = NOT_NUMBERS.iter().find(|(class, ..)| is(class));
    known.map(|&(_, column, array)| (column, array))
}

/// The refusal of a column whose dtype is not numeric; `None` for a numeric dtype.
pub(super) fn refusal(series: &Bound<'_, PyAny>) -> Option<PyErr> {
    let dtype = series.getattr(intern!(series.py(), "dtype")).ok()?;
    let (remedy, _) = not_numbers(&dtype)?;
    Some(beyond_tensors(format!(
        "the column's dtype is {}, and a tensor cannot express its values; convert it first: {remedy}",
        str_in_message(&dtype)
    )))
}

/// The array to pass instead of a pandas index or extension array, which lack protocols; `None` for other objects.
pub(super) fn remedy(object: &Bound<'_, PyAny>) -> Option<String> {
    let py = object.py();
    if !lacks_protocols(object) {
        return None;
    }
    if is_instance(object, "pandas", "MultiIndex").unwrap_or(false) {
        return Some("take one level first, for example a.get_level_values(0)".to_owned());
    }
    let dtype = object.getattr(intern!(py, "dtype")).ok()?;
    let kind = dtype.getattr(intern!(py, "kind")).and_then(|kind| kind.extract::<String>());
    let converted = match not_numbers(&dtype) {
        Some((_, array)) => array,
        // The classes for times of NumPy's dtypes have the counts; those for Arrow's times lack the attribute.
        None if matches!(kind.as_deref(), Ok("M" | "m")) => {
            match object.hasattr(intern!(py, "asi8")) {
                Ok(true) => "a.asi8 holds the counts",
                _ => "a.to_numpy().view('int64') holds the counts, and -2**63 for each null",
            }
        }
        None if has_numpy_dtype(object).unwrap_or(false) => {
            return Some("pass its array of NumPy: asdlpack(a.to_numpy())".to_owned());
        }
        None => {
            return Some(
                "pass an array of NumPy: asdlpack(a.to_numpy()), or asdlpack(a.to_numpy(dtype, na_value=0)) \
                 if values are missing"
                    .to_owned(),
            );
        }
    };
    Some(format!(
        "its dtype is {}, and a tensor cannot express its values; pass numbers instead: {converted}",
        str_in_message(&dtype)
    ))
}

/// Returns true for a pandas index or extension array.
fn lacks_protocols(object: &Bound<'_, PyAny>) -> bool {
    let is = |module, class| is_instance(object, module, class).unwrap_or(false);
    is("pandas", "Index") || is("pandas.api.extensions", "ExtensionArray")
}

/// Describes an index or extension array of times, which pandas exports by no protocol, and the array to pass instead;
/// `None` for other objects.
pub(crate) fn not_exported(object: &Bound<'_, PyAny>) -> Option<String> {
    let py = object.py();
    if !lacks_protocols(object) {
        return None;
    }
    let dtype = object.getattr(intern!(py, "dtype")).ok()?;
    let kind: String = dtype.getattr(intern!(py, "kind")).ok()?.extract().ok()?;
    matches!(kind.as_str(), "M" | "m").then(|| {
        format!(
            "{} of {}, which supports no exchange protocol; pass x.to_numpy()",
            with_article(&type_name(object)),
            str_in_message(&dtype)
        )
    })
}

/// The error of a column or table whose export failed because pyarrow cannot be imported, with pandas's exception as
/// the cause. Other exceptions are passed on.
#[cold]
pub(crate) fn without_pyarrow(object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = object.py();
    let is = |class| is_instance(object, "pandas", class).unwrap_or(false);
    if !error.is_instance_of::<PyImportError>(py) || !(is("Series") || is("DataFrame")) {
        return error;
    }
    let refusal = PyImportError::new_err(format!(
        "pandas exports {} through pyarrow, which cannot be imported; install pyarrow, or pass x.to_numpy()",
        with_article(&type_name(object))
    ));
    refusal.set_cause(py, Some(error));
    refusal
}

/// The source of a column's nulls, and what to do.
pub(crate) fn nulls(series: &Bound<'_, PyAny>, booleans: bool) -> &'static str {
    match has_numpy_dtype(series) {
        Ok(true) => {
            "which pandas made of NaN, and a tensor cannot express; leave out protocol='arrow', or pass \
             s.to_numpy()"
        }
        _ if booleans => {
            "which a tensor cannot express; fill them with s.fillna(False), or leave them out with s.dropna()"
        }
        _ => {
            "which a tensor cannot express; fill them with s.fillna(0), or leave them out with s.dropna()"
        }
    }
}

/// The times of a column or an index.
pub(crate) enum Times<'py> {
    /// The NumPy array that holds them.
    Array(Bound<'py, PyAny>),
    /// An index with a time zone.
    WithZone(Bound<'py, PyAny>),
}

/// The times of a column or an index; `None` for one that must be imported itself, and for other objects.
pub(crate) fn times<'py>(
    object: &Bound<'py, PyAny>,
    is_column: bool,
) -> PyResult<Option<Times<'py>>> {
    let py = object.py();
    let is_index = is_instance(object, "pandas", "Index")?;
    if !is_index && !is_column {
        return Ok(None);
    }
    if has_numpy_dtype(object)? {
        return Ok(Some(Times::Array(object.call_method0(intern!(py, "to_numpy"))?)));
    }
    if !is_index {
        return Ok(None);
    }
    let zone = object.getattr_opt(intern!(py, "tz"))?.filter(|zone| !zone.is_none());
    Ok(zone.map(Times::WithZone))
}
