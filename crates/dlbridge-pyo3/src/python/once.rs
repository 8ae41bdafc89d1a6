//! Values that are made once, for all threads.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// The value of a cell, made by the first call.
///
/// `PyOnceLock::get_or_init` lets other threads run while it fills the cell: if one of them forks, the next call in
/// the child waits for ever. Here two threads may each make a value, and the first one is kept.
#[inline]
pub fn once<'a, T, E>(
    cell: &'a PyOnceLock<T>,
    py: Python<'_>,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<&'a T, E> {
    match cell.get(py) {
        Some(value) => Ok(value),
        None => Ok(fill(cell, py, make()?)),
    }
}

#[cold]
fn fill<'a, T>(cell: &'a PyOnceLock<T>, py: Python<'_>, value: T) -> &'a T {
    let _ = cell.set(py, value);
    match cell.get(py) {
        Some(value) => value,
        None => unreachable!("the cell was just filled"),
    }
}

/// As `pyo3::intern`, through [`once`].
#[doc(hidden)]
#[macro_export]
macro_rules! intern {
    ($py:expr, $text:expr $(,)?) => {{
        static NAME: ::pyo3::sync::PyOnceLock<::pyo3::Py<::pyo3::types::PyString>> =
            ::pyo3::sync::PyOnceLock::new();
        $crate::python::once::interned(&NAME, $py, $text)
    }};
}

/// The interned string of a cell.
#[inline]
pub fn interned<'a, 'py>(
    cell: &'a PyOnceLock<Py<PyString>>,
    py: Python<'py>,
    text: &str,
) -> &'a Bound<'py, PyString> {
    let name = match cell.get(py) {
        Some(name) => name,
        None => intern(cell, py, text),
    };
    name.bind(py)
}

#[cold]
#[inline(never)]
fn intern<'a>(cell: &'a PyOnceLock<Py<PyString>>, py: Python<'_>, text: &str) -> &'a Py<PyString> {
    fill(cell, py, PyString::intern(py, text).unbind())
}
