//! Converts errors to Python exceptions, where `dlbridge-pyo3` is in use.
//!
//! Only the crate of the error or PyO3 may implement `From<Error> for PyErr`, so `dlbridge-pyo3` cannot. It turns the
//! feature `pyo3` of this crate on instead. Without the feature, [`impl_py_error!`](crate::impl_py_error) expands to
//! nothing.

#[cfg(feature = "pyo3")]
mod exception {
    use core::fmt::Display;
    use std::string::ToString;

    pub use pyo3::PyErr;
    use pyo3::exceptions::{PyBufferError, PyMemoryError, PyOSError, PyValueError};

    /// The class of an exception.
    pub enum Class {
        BufferError,
        MemoryError,
        OSError,
        ValueError,
    }

    pub fn exception(class: Class, error: &dyn Display) -> PyErr {
        let text = error.to_string();
        match class {
            Class::BufferError => PyBufferError::new_err(text),
            Class::MemoryError => PyMemoryError::new_err(text),
            Class::OSError => PyOSError::new_err(text),
            Class::ValueError => PyValueError::new_err(text),
        }
    }
}

#[cfg(feature = "pyo3")]
pub use exception::{Class, PyErr, exception};

/// Implements `From` of an error type for `PyErr`: patterns of a reference to the error, and the class for each.
///
/// It expands to nothing without the feature `pyo3`.
#[cfg(feature = "pyo3")]
#[doc(hidden)]
#[macro_export]
macro_rules! impl_py_error {
    ($error:ty { $($pattern:pat => $class:ident),+ $(,)? }) => {
        /// The Python exception with the text of the error.
        impl ::core::convert::From<$error> for $crate::py_error::PyErr {
            // Inlined into the caller, so that tests of this crate need no symbol of Python.
            #[inline]
            fn from(error: $error) -> Self {
                let class = match &error {
                    $($pattern => $crate::py_error::Class::$class,)+
                };
                $crate::py_error::exception(class, &error)
            }
        }
    };
}

/// Implements `From` of an error type for `PyErr`: patterns of a reference to the error, and the class for each.
///
/// It expands to nothing without the feature `pyo3`.
#[cfg(not(feature = "pyo3"))]
#[doc(hidden)]
#[macro_export]
macro_rules! impl_py_error {
    ($($tokens:tt)*) => {};
}
