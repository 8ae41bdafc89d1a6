//! Python exceptions for errors of the core, names of objects in messages, and missing libraries.

use std::sync::atomic::{AtomicU64, Ordering};

use dlbridge::Error;
use pyo3::exceptions::{
    PyAttributeError, PyBufferError, PyImportError, PyModuleNotFoundError, PyTypeError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};

use crate::python::objects::once;
use crate::python::objects::{attr, modules};

/// The exception for an error of the core, for code that cannot use `?`.
pub fn to_py_err(error: Error) -> PyErr {
    error.into()
}

/// The name of an object's type, with its module if it has one.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    name_of(&object.get_type())
}

/// The name of a type, with its module if it has one.
pub(crate) fn name_of(object_type: &Bound<'_, PyType>) -> String {
    let text = |name| attr(object_type, name).ok()?.extract::<String>().ok();
    match (text("__module__"), text("__qualname__")) {
        (Some(module), Some(name)) if !["builtins", "__main__"].contains(&&*module) => {
            module + "." + &name
        }
        (_, Some(name)) => name,
        _ => "an unnamed type".to_owned(),
    }
}

/// The name of a type with its article.
pub fn with_article(name: &str) -> String {
    let article = match name.as_bytes() {
        // "an unnamed type" has an article already.
        [b'a', b'n', b' ', ..] => return name.to_owned(),
        [b'a' | b'e' | b'i' | b'o' | b'A' | b'E' | b'I' | b'O', ..] => "an",
        _ => "a",
    };
    format!("{article} {name}")
}

/// The text of an object for a message: the beginning of its `repr`, or its type if that fails. Rust's own formatting
/// of such an object prints the exceptions of its `__str__`.
pub fn repr_in_message(object: &Bound<'_, PyAny>) -> String {
    from_text(object, object.repr())
}

/// As [`repr_in_message`], by `str`, for objects that their text names.
pub fn str_in_message(object: &Bound<'_, PyAny>) -> String {
    from_text(object, object.str())
}

fn from_text(object: &Bound<'_, PyAny>, text: PyResult<Bound<'_, PyString>>) -> String {
    let Ok(text) = text else {
        return format!("an object of type {} that cannot be shown", type_name(object));
    };
    let text = text.to_string_lossy().into_owned();
    // A longer text is too long for a message.
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The class of the exception for an argument of a function in Rust.
#[derive(Clone, Copy)]
pub(crate) enum ErrorClass {
    /// A `TypeError`: the tensor does not meet the demands.
    Mismatch,
    /// A `BufferError`: other code has borrowed the memory, several indices lead to one element that the function writes,
    /// or an element is not a value of its type.
    Borrowed,
}

impl ErrorClass {
    /// The exception, of a class of the package `dlbridge` that adds the argument's name in front of the text;
    /// without that package, of its base class.
    ///
    /// Made at once: PyO3 makes an exception lazily, and releases the GIL before it, which takes as long as making
    /// the exception.
    pub(crate) fn new_err(self, py: Python<'_>, text: &str) -> PyErr {
        let class = match (self.class(py), self) {
            (Ok(Some(class)), _) => class.bind(py),
            (Ok(None), Self::Mismatch) => &py.get_type::<PyTypeError>(),
            (Ok(None), Self::Borrowed) => &py.get_type::<PyBufferError>(),
            (Err(error), _) => return error,
        };
        let text = PyString::new(py, text);
        // The exception that Python code is handling becomes the context.
        // SAFETY: attached; both arguments are live objects. If the class is not an exception class, Python sets another
        // exception.
        unsafe { ffi::PyErr_SetObject(class.as_ptr(), text.as_ptr()) };
        PyErr::fetch(py)
    }

    /// Returns true for an exception of this class of the package `dlbridge`.
    pub(crate) fn is(self, py: Python<'_>, error: &PyErr) -> bool {
        self.class(py)
            .is_ok_and(|class| class.is_some_and(|class| error.is_instance(py, class.bind(py))))
    }

    /// The class of the package `dlbridge`; `None` without that package.
    fn class(self, py: Python<'_>) -> PyResult<Option<&'static Py<PyType>>> {
        static MISMATCH: PyOnceLock<Option<Py<PyType>>> = PyOnceLock::new();
        static BORROWED: PyOnceLock<Option<Py<PyType>>> = PyOnceLock::new();
        let (class, name) = match self {
            Self::Mismatch => (&MISMATCH, "TensorMismatchError"),
            Self::Borrowed => (&BORROWED, "TensorBorrowError"),
        };
        if let Some(found) = class.get(py) {
            return Ok(found.as_ref());
        }
        let of = |module: Bound<'_, PyAny>| {
            Ok::<_, PyErr>(attr(&module, name)?.cast_into::<PyType>()?.unbind())
        };
        // An import may wait for another thread.
        let loaded = modules(py)?.get_item(MODULE)?;
        let found = match loaded.map(of) {
            Some(Ok(class)) => Ok(class),
            _ => match import(py, MODULE) {
                Some(module) => module.map(Bound::into_any).and_then(of),
                None => return Ok(None),
            },
        };
        let found = match found {
            Ok(class) => Some(class),
            Err(error) if error.is_instance_of::<PyModuleNotFoundError>(py) => None,
            // Another release of the package, or one that cannot be imported at present.
            Err(error)
                if error.is_instance_of::<PyImportError>(py)
                    || error.is_instance_of::<PyAttributeError>(py) =>
            {
                return Ok(None);
            }
            // For example an exception of a signal handler.
            Err(error) => return Err(error),
        };
        Ok(once(class, py, || Ok::<_, PyErr>(found))?.as_ref())
    }
}

/// The module of the package `dlbridge` with the classes.
const MODULE: &str = "dlbridge._errors";

/// The threads that are in [`import`]: their process in the upper half, their number in the lower.
static IMPORTS: AtomicU64 = AtomicU64::new(0);

/// Imports a module; `None` in a child that was forked while another thread was importing here.
///
/// That thread holds a lock of Python's import system, and no thread of the child releases it, so an import would
/// wait for ever.
pub(crate) fn import<'py>(py: Python<'py>, name: &str) -> Option<PyResult<Bound<'py, PyModule>>> {
    const NUMBER: u64 = u32::MAX as u64;
    let process = u64::from(std::process::id()) << 32;
    let enter = |now| match now & NUMBER {
        0 => Some(process | 1),
        number if now == process | number => Some(now + 1),
        _ => None,
    };
    IMPORTS.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).ok()?;
    let module = py.import(name);
    IMPORTS.fetch_sub(1, Ordering::AcqRel);
    Some(module)
}

/// The module of a library that a function needs. If `package` is missing, the error says that the library is not
/// installed.
pub fn library<'py>(
    py: Python<'py>,
    module: &str,
    package: &str,
    name: &str,
) -> PyResult<Bound<'py, PyModule>> {
    py.import(module).or_else(|error| {
        if !is_absent(&error, py, package)? {
            return Err(error);
        }
        let text = format!("{name} is not installed; install it first");
        Err(not_installed(py, text, package, Some(error)))
    })
}

/// The error for a package that is missing.
#[cold]
pub(crate) fn not_installed(
    py: Python<'_>,
    text: String,
    package: &str,
    cause: Option<PyErr>,
) -> PyErr {
    let missing = PyModuleNotFoundError::new_err(text);
    // Python's own exceptions of this class have the name; without it the text still says all.
    let _ = missing.value(py).setattr("name", package);
    missing.set_cause(py, cause);
    missing
}

/// Returns true if an import failed because `package` itself is missing, and not one of its dependencies.
pub fn is_absent(error: &PyErr, py: Python<'_>, package: &str) -> PyResult<bool> {
    if !error.is_instance_of::<PyModuleNotFoundError>(py) {
        return Ok(false);
    }
    attr(error.value(py), "name")?.eq(package)
}

/// The refusal of elements that tensors lack a dtype for, with the attribute that [`is_beyond_tensors`] checks.
#[cold]
pub fn beyond_tensors(text: String) -> PyErr {
    let error = PyBufferError::new_err(text);
    match Python::attach(|py| error.value(py).setattr(mark(py), true)) {
        Ok(()) => error,
        Err(failure) => failure,
    }
}

/// Returns true for the refusal of elements that tensors lack a dtype for. Never true for an exception of a class
/// that Python code defined, and does not run that code.
#[cold]
pub(crate) fn is_beyond_tensors(error: &PyErr) -> bool {
    Python::attach(|py| {
        error.get_type(py).is(py.get_type::<PyBufferError>())
            && error.value(py).hasattr(mark(py)).unwrap_or(false)
    })
}

/// The name of the attribute of these refusals.
fn mark(py: Python<'_>) -> &Bound<'_, PyString> {
    intern!(py, "_dlbridge_pyo3_beyond_tensors")
}
