//! The options of an import.

use dlbridge::{Device, TensorRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::imported::Protocol;
use crate::python::error::repr_in_message;

/// The options of an import. By default the data is shared, and copied only if a tensor could not express it.
///
/// All options need the Python package `dlbridge`, except DLPack as the `protocol`, and the `device` that the data is on.
///
/// ```no_run
/// use dlbridge_pyo3::{PyTensor, ImportOptions};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn rows(x: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
///     let options = ImportOptions { align: Some(64), ..ImportOptions::default() };
///     PyTensor::import(x, &options)
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions {
    /// The protocol to use; `None` for the first that the object supports.
    pub protocol: Option<Protocol>,
    /// `Some(true)` forces a copy; `Some(false)` makes every necessary copy an error.
    pub copy: Option<bool>,
    /// The target device.
    pub device: Option<Device>,
    /// The alignment of the first element in bytes: a power of two, at most 1 GiB.
    pub align: Option<usize>,
    /// The order in which the elements must be contiguous.
    pub order: Order,
    /// `Some(true)` for writable data, `Some(false)` to mark the tensor as read-only.
    pub writable: Option<bool>,
    /// True if the caller knows that a legacy producer's memory, which the producer cannot mark, may be written.
    pub assume_writable: bool,
}

impl ImportOptions {
    /// Returns true for options that an extension meets without the package: a device, and DLPack as the protocol.
    pub fn is_plain(&self) -> bool {
        let Self { protocol, copy, device: _, align, order, writable, assume_writable } = self;
        matches!(protocol, None | Some(Protocol::Dlpack))
            && copy.is_none()
            && align.is_none()
            && *order == Order::Strided
            && writable.is_none()
            && !assume_writable
    }
}

/// The value of an argument that is `None`, `True` or `False`.
pub fn expect_bool(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match value.cast::<PyBool>() {
        Ok(value) => Ok(value.is_true()),
        Err(_) => Err(wrong_type(argument, "None, True or False", value)),
    }
}

/// The refusal of an argument.
pub fn wrong_type(argument: &str, expected: &str, found: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("{argument} must be {expected}, not {}", repr_in_message(found)))
}

/// The memory order that elements must have.
///
/// ```
/// use dlbridge_pyo3::{ImportOptions, Order};
///
/// assert_eq!(ImportOptions::default().order, Order::Strided);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Any strides.
    #[default]
    Strided,
    /// C order, the last index fastest.
    C,
    /// Fortran order, the first index fastest.
    Fortran,
    /// C or Fortran order.
    Either,
}

impl Order {
    /// Returns true if the elements of a tensor are in this order.
    #[inline(always)]
    pub fn fits(self, tensor: &TensorRef<'_>) -> bool {
        match self {
            Self::Strided => true,
            Self::C => tensor.is_c_contiguous(),
            Self::Fortran => tensor.is_f_contiguous(),
            Self::Either => tensor.is_c_contiguous() || tensor.is_f_contiguous(),
        }
    }
}
