//! Converts errors to Python exceptions, where `dlbridge-pyo3` is in use.
//!
//! Only the crate of one of the two types can implement `From<dlbridge::Error> for PyErr`. As a feature of `dlbridge`,
//! the impl would make `--all-features` of a crate without Python need an interpreter to build and to link. Here the
//! feature belongs to a crate that is empty without it, and `dlbridge` invokes [`raise!`] either way.
#![no_std]

#[cfg(feature = "pyo3")]
extern crate std;

#[cfg(feature = "pyo3")]
#[doc(hidden)]
pub mod python {
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

/// Implements `From` of an error type for `PyErr`: patterns of a reference to the error, and the class for each.
///
/// It expands to nothing without the feature `pyo3`.
#[cfg(feature = "pyo3")]
#[macro_export]
macro_rules! raise {
    ($error:ty { $($pattern:pat => $class:ident),+ $(,)? }) => {
        /// The Python exception with the text of the error.
        impl ::core::convert::From<$error> for $crate::python::PyErr {
            // Inlined into the caller, so that tests of this crate need no symbol of Python.
            #[inline]
            fn from(error: $error) -> Self {
                let class = match &error {
                    $($pattern => $crate::python::Class::$class,)+
                };
                $crate::python::exception(class, &error)
            }
        }
    };
}

/// Implements `From` of an error type for `PyErr`: patterns of a reference to the error, and the class for each.
///
/// It expands to nothing without the feature `pyo3`.
#[cfg(not(feature = "pyo3"))]
#[macro_export]
macro_rules! raise {
    ($($tokens:tt)*) => {};
}
