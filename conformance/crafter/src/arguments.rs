//! Arguments of Python functions.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// The items of a tuple or a list. A `Vec` would accept any sequence and reserve memory for the length that it claims.
pub(crate) struct Items<T>(pub(crate) Vec<T>);

impl<'a, 'py, T> FromPyObject<'a, 'py> for Items<T>
where
    T: for<'b> FromPyObject<'b, 'py>,
{
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let item = |item: Bound<'py, PyAny>| item.extract::<T>().map_err(Into::into);
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return tuple.iter().map(item).collect::<PyResult<_>>().map(Self);
        }
        if let Ok(list) = object.cast::<PyList>() {
            return list.iter().map(item).collect::<PyResult<_>>().map(Self);
        }
        let name = object.get_type().name()?;
        Err(PyTypeError::new_err(format!("a tuple or list is needed, not {name}")))
    }
}
