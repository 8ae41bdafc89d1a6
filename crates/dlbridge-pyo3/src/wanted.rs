//! What the caller of an import asks for, and the copy that gives it where the data is otherwise.

use dlbridge::{Device, Tensor, TensorRef};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};

use crate::borrow::Guard;
use crate::error::to_py_err;
use crate::protocol::{Imported, Protocol};
use crate::receipt::CopyReason;

/// What the caller asks of an import. Nothing by default: then the data is shared as it is, and
/// copied only where a tensor could not express it.
///
/// ```no_run
/// use dlbridge_pyo3::{PyTensor, Wanted};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn rows<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTensor>> {
///     let wanted = Wanted { align: Some(64), ..Wanted::default() };
///     PyTensor::import(x, &wanted)
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The door to take; the first of the ladder if `None`.
    pub protocol: Option<Protocol>,
    /// `Some(true)` for a copy, `Some(false)` for an error where one would be needed.
    pub copy: Option<bool>,
    /// Where the data is to be.
    pub device: Option<Device>,
    /// What the address of the first element is to be a multiple of, in bytes: a power of two, at
    /// most 256.
    pub align: Option<usize>,
    /// The order in which the elements are to be adjacent.
    pub contiguous: Option<Order>,
    /// `Some(true)` for data that may be written, `Some(false)` for a tensor that says it must not.
    pub writable: Option<bool>,
}

/// An order of adjacent elements.
///
/// ```
/// use dlbridge_pyo3::Order;
///
/// assert_ne!(Order::C, Order::Fortran);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last index fastest.
    C,
    /// The first index fastest.
    Fortran,
}

impl Wanted {
    /// Refuses a device that a door on the CPU cannot give.
    pub(crate) fn check_on_cpu(&self, door: &str) -> PyResult<()> {
        match self.device.filter(|&device| device != Device::CPU) {
            None => Ok(()),
            Some(device) => Err(PyBufferError::new_err(format!(
                "{door} is on the CPU and cannot be imported on {device}"
            ))),
        }
    }

    /// Why a tensor is not as wanted, so that it must be copied.
    fn unmet(&self, tensor: &Tensor, read_only: bool) -> PyResult<Option<CopyReason>> {
        use dlbridge::CopyReason as Core;
        let found = tensor.device();
        if let Some(device) = self.device.filter(|&device| device != found) {
            if device != Device::CPU || !found.device_type().is_host_accessible() {
                return Err(PyBufferError::new_err(format!(
                    "the data is on {found} and cannot be imported on {device}; move it first"
                )));
            }
            return Ok(Some(CopyReason::Device));
        }
        let address = tensor.data().addr();
        let misaligned = self.align.filter(|&required| !address.is_multiple_of(required));
        Ok(match self.contiguous {
            Some(Order::C) if !tensor.is_c_contiguous() => {
                Some(CopyReason::Core(Core::NotContiguous))
            }
            Some(Order::Fortran) if !tensor.is_f_contiguous() => {
                Some(CopyReason::NotFortranContiguous)
            }
            _ if misaligned.is_some() => {
                misaligned.map(|required| CopyReason::Core(Core::Misaligned { address, required }))
            }
            _ if self.writable == Some(true) && read_only => Some(CopyReason::Core(Core::ReadOnly)),
            _ => None,
        })
    }

    /// A copy of the tensor that is as wanted; `None` if the tensor is so already.
    pub(crate) fn copy_of(
        &self,
        tensor: &Tensor,
        read_only: bool,
        already_copied: bool,
    ) -> PyResult<Option<(Tensor, CopyReason)>> {
        let unmet = self.unmet(tensor, read_only)?;
        if let (Some(reason), Some(false)) = (unmet, self.copy) {
            return Err(PyBufferError::new_err(format!(
                "a copy would be needed, since {reason}, and copy=False forbids it; leave that out, \
                 or give a tensor that is as asked for"
            )));
        }
        // What was copied on its way is not copied again, unless it is in another order and the CPU can do that.
        let in_order = self.contiguous.is_some()
            || tensor.is_c_contiguous()
            || !tensor.device().device_type().is_host_accessible();
        let done = already_copied && in_order;
        let requested = self.copy == Some(true) && !done;
        let Some(reason) = unmet.or(requested.then_some(CopyReason::Requested)) else {
            return Ok(None);
        };
        let _reading = Guard::reading(tensor, "tensor that is copied")?;
        let source = TensorRef::from(tensor);
        let copy = match self.contiguous {
            Some(Order::Fortran) => source.transpose().to_copy().map(Tensor::transpose),
            _ => source.to_copy(),
        };
        Ok(Some((copy.map_err(to_py_err)?, reason)))
    }

    /// Whether a tensor is as wanted as it comes.
    fn is_content(&self) -> bool {
        let Self { protocol: _, copy, device, align, contiguous, writable } = self;
        copy.is_none()
            && device.is_none()
            && align.is_none()
            && contiguous.is_none()
            && writable.is_none()
    }

    /// Makes what was imported as wanted.
    #[inline]
    pub(crate) fn settle(&self, imported: Imported) -> PyResult<Imported> {
        match self.is_content() {
            true => Ok(imported),
            false => self.settled(imported),
        }
    }

    fn settled(&self, mut imported: Imported) -> PyResult<Imported> {
        let (read_only, copied) = (imported.is_read_only(), imported.reason.is_some());
        if let Some((tensor, reason)) = self.copy_of(&imported.tensor, read_only, copied)? {
            imported.tensor = tensor;
            imported.reason.get_or_insert(reason);
        }
        if self.writable == Some(false) {
            imported.tensor = imported.tensor.into_read_only();
        }
        Ok(imported)
    }
}

/// The value of an argument that is `None`, `True` or `False`.
pub(crate) fn expect_bool(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match value.cast::<PyBool>() {
        Ok(value) => Ok(value.is_true()),
        Err(_) => Err(wrong_type(argument, "None, True or False", value)),
    }
}

/// The value of an argument `align`.
pub(crate) fn expect_alignment(align: &Bound<'_, PyAny>) -> PyResult<usize> {
    const EXPECTED: &str = "None or a power of two, at most 256";
    if align.is_instance_of::<PyBool>() {
        return Err(wrong_type("align", EXPECTED, align));
    }
    let number = align.cast::<PyInt>().map_err(|_| wrong_type("align", EXPECTED, align))?;
    let fits = number.extract::<usize>().ok().filter(|n| n.is_power_of_two() && *n <= 256);
    fits.ok_or_else(|| PyValueError::new_err(format!("align must be {EXPECTED}, not {number}")))
}

/// The value of an argument `contiguous`; `False` is as good as `None`.
pub(crate) fn expect_order(contiguous: &Bound<'_, PyAny>) -> PyResult<Option<Order>> {
    const EXPECTED: &str = "None, a bool, 'C' or 'F'";
    if let Ok(wanted) = contiguous.cast::<PyBool>() {
        return Ok(wanted.is_true().then_some(Order::C));
    }
    let letter = contiguous
        .cast::<PyString>()
        .map_err(|_| wrong_type("contiguous", EXPECTED, contiguous))?;
    match &*letter.to_cow()? {
        "C" => Ok(Some(Order::C)),
        "F" => Ok(Some(Order::Fortran)),
        _ => Err(PyValueError::new_err(format!(
            "contiguous must be {EXPECTED}, not {}",
            letter.repr()?
        ))),
    }
}

/// The value of an argument `protocol`.
pub(crate) fn expect_protocol(protocol: &Bound<'_, PyAny>) -> PyResult<Protocol> {
    let names = || {
        let names: Vec<_> = Protocol::ALL.iter().map(|p| format!("'{}'", p.name())).collect();
        format!("None or one of {}", names.join(", "))
    };
    let name =
        protocol.cast::<PyString>().map_err(|_| wrong_type("protocol", &names(), protocol))?;
    let name = name.to_cow()?;
    Protocol::ALL
        .into_iter()
        .find(|p| p.name() == name)
        .ok_or_else(|| PyValueError::new_err(format!("protocol must be {}, not '{name}'", names())))
}

/// The refusal of an argument.
pub(crate) fn wrong_type(argument: &str, expected: &str, found: &Bound<'_, PyAny>) -> PyErr {
    match found.repr().and_then(|repr| repr.extract::<String>()).map(shortened) {
        Ok(repr) => PyTypeError::new_err(format!("{argument} must be {expected}, not {repr}")),
        Err(error) => error,
    }
}

/// The beginning of a text that is too long for a message.
fn shortened(text: String) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
