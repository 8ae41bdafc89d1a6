//! Borrows of memory that Python can reach: any number of readers of a byte, or one writer, across all extensions
//! built on dlbridge and those that use rust-numpy.
//!
//! - **Borrow.** While a [`Guard`] is alive, no other guard of this process covers a byte of its region, unless both
//!   read. Code that returns a typed view of memory from Python holds a guard for as long as the view exists.

mod numpy;
mod shared;

use std::num::NonZeroUsize;

use dlbridge::{Access, ArcTensor, Tensor, TensorRef};
use dlbridge_borrow::{Conflict, Label, Mode, Region};
use pyo3::prelude::*;

use self::numpy::NumpyBorrow;
pub(crate) use self::shared::Shared;
use crate::layout::address_range;
use crate::python::error::ErrorClass;

/// A borrow of a tensor's bytes, which ends on drop, on any thread. Two pointers in size, so that it is returned in
/// registers.
pub struct Guard {
    ticket: Option<NonZeroUsize>,
    /// The borrow in rust-numpy's own registry.
    numpy: Option<Box<NumpyBorrow>>,
}

/// The type of an object whose memory is borrowed.
pub struct BorrowedType {
    /// Its name.
    pub(crate) label: Label,
    /// True for NumPy's array and classes derived from it.
    pub numpy_array: bool,
}

impl Guard {
    /// No borrow: for memory that no other code can reach.
    pub const NONE: Self = Self { ticket: None, numpy: None };

    /// Borrows the bytes of a contiguous, non-empty NumPy array; `None` if another borrow conflicts, or if the fast
    /// path cannot decide.
    #[inline(always)]
    pub(crate) fn of_run(
        object_type: &'static BorrowedType,
        object: &Bound<'_, PyAny>,
        address: usize,
        count: usize,
        mode: Mode,
    ) -> Option<Self> {
        if mode == Mode::Read
            && let Some(ticket) = Shared::read_alone(address, count, &object_type.label)
        {
            return Some(Self { ticket: Some(ticket), numpy: None });
        }
        Self::of_bytes(object_type, object, address, count, mode)
    }

    /// Not inlined into each function of an extension, whose code would make the region.
    #[inline(never)]
    fn of_bytes(
        object_type: &'static BorrowedType,
        object: &Bound<'_, PyAny>,
        address: usize,
        count: usize,
        mode: Mode,
    ) -> Option<Self> {
        Self::of_array(object_type, object, Region::bytes(address, count), mode)
    }

    /// Borrows the bytes of a non-empty NumPy array; `None` if another borrow conflicts, or if only
    /// [`acquire`](Self::acquire) can decide. Runs no Python code.
    #[inline(never)]
    pub(crate) fn of_array(
        object_type: &'static BorrowedType,
        object: &Bound<'_, PyAny>,
        bytes: Region,
        mode: Mode,
    ) -> Option<Self> {
        let shared = Shared::known()?;
        let numpy = NumpyBorrow::of_array(object, shared, mode)?;
        let ticket = shared.acquire(bytes, mode, &object_type.label).ok()?;
        Some(Self { ticket: Some(ticket), numpy })
    }

    /// Borrows the bytes of a tensor that was imported from an object of this type.
    pub fn acquire(
        object_type: &BorrowedType,
        object: &Bound<'_, PyAny>,
        tensor: &TensorRef<'_>,
        mode: Mode,
    ) -> PyResult<Self> {
        if tensor.is_empty() {
            return Ok(Self::NONE);
        }
        let py = object.py();
        let shared = Shared::of_process(py)?;
        // Our registry comes first, because rust-numpy's does not report the conflicting borrow.
        let label = &object_type.label;
        let granted = match run_of(tensor) {
            // A call of its own, so that the run stays in registers.
            Some((address, count)) => shared.acquire(Region::bytes(address, count), mode, label),
            None => shared.acquire(bytes_of(tensor), mode, label),
        };
        let ticket = match granted {
            Ok(ticket) => ticket,
            Err(conflict) => return Err(refusal(py, label.as_str(), mode, tensor, &conflict)),
        };
        let mut granted = Self { ticket: Some(ticket), numpy: None };
        if object_type.numpy_array {
            granted.numpy = NumpyBorrow::acquire(object, shared, mode)?;
        }
        Ok(granted)
    }

    /// Borrows the bytes of a tensor for the time of a copy by the CPU.
    pub fn for_copy(tensor: &Tensor) -> PyResult<Self> {
        Self::reading(tensor, "tensor that is copied")
    }

    /// Borrows the bytes of a tensor for reading, under a name for the messages of others.
    pub fn reading(tensor: &Tensor, name: &str) -> PyResult<Self> {
        if tensor.is_empty() || !tensor.device().device_type().is_host_accessible() {
            return Ok(Self::NONE);
        }
        Python::attach(|py| {
            let (tensor, label) = (&TensorRef::from(tensor), Label::new(name.as_bytes()));
            match Shared::of_process(py)?.acquire(bytes_of(tensor), Mode::Read, &label) {
                Ok(ticket) => Ok(Self { ticket: Some(ticket), numpy: None }),
                Err(conflict) => Err(refusal(py, "tensor", Mode::Read, tensor, &conflict)),
            }
        })
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        if let (Some(ticket), Some(shared)) = (self.ticket.take(), Shared::known()) {
            shared.release(ticket);
        }
    }
}

/// The bytes of a tensor with elements, in memory that the CPU can access.
pub(crate) fn bytes_of(tensor: &TensorRef<'_>) -> Region {
    if let Some((address, count)) = run_of(tensor) {
        return Region::bytes(address, count);
    }
    let dtype = tensor.dtype();
    if dtype.is_subbyte() && !tensor.is_subbyte_padded() {
        // Elements share bytes: covers all from the first to the last.
        let bytes = address_range(tensor);
        return Region::bytes(bytes.start, bytes.len());
    }
    let itemsize = dtype.itemsize();
    let dimensions = tensor.shape().iter().zip(tensor.strides());
    let in_bytes =
        |(&extent, &stride): (&i64, &i64)| (extent, stride.saturating_mul(itemsize as i64));
    Region::new(tensor.data().addr(), itemsize, dimensions.map(in_bytes))
}

/// The address and the number of bytes of contiguous elements of whole bytes.
#[inline(always)]
fn run_of(tensor: &TensorRef<'_>) -> Option<(usize, usize)> {
    let (contiguous, dtype) = (tensor.is_c_contiguous(), tensor.dtype());
    (contiguous && !dtype.is_subbyte())
        .then(|| (tensor.data().addr(), tensor.len() * dtype.itemsize()))
}

/// Shares the registry of borrows with extensions that use rust-numpy, if NumPy is loaded and none of them has
/// borrowed an array yet.
///
/// Without this call, dlbridge shares its registry when it first borrows an array. If an extension that uses
/// rust-numpy borrows before that, both registries record every borrow of an array from then on, which takes about
/// 130 ns more for each argument. Call it when the module of an extension is imported.
///
/// # Errors
/// `ImportError` if an extension built on another version of dlbridge or rust-numpy shares borrows in an older way.
///
/// ```no_run
/// #[pyo3::pymodule(gil_used = true)]
/// mod my_extension {
///     use pyo3::prelude::*;
///
///     #[pymodule_init]
///     fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
///         dlbridge_pyo3::share_borrows(module.py())
///     }
/// }
/// ```
pub fn share_borrows(py: Python<'_>) -> PyResult<()> {
    let shared = Shared::of_process(py)?;
    numpy::share(py, shared)
}

/// The error for a borrow of a tensor that conflicts with another one.
#[cold]
#[inline(never)]
fn refusal(
    py: Python<'_>,
    name: &str,
    mode: Mode,
    tensor: &TensorRef<'_>,
    conflict: &Conflict,
) -> PyErr {
    let bytes = bytes_of(tensor);
    let verb = |mode| match mode {
        Mode::Read => "borrowed for reading",
        Mode::Write => "borrowed for writing",
    };
    let text = format!(
        "the memory of this {name}, {}, overlaps that of a {}, {} (addresses {:#x} to {:#x} and \
         {:#x} to {:#x}); pass memory of its own, or a copy",
        verb(mode),
        conflict.label,
        verb(conflict.mode),
        bytes.start(),
        bytes.end(),
        conflict.region.start(),
        conflict.region.end(),
    );
    ErrorClass::Borrowed.new_err(py, &text)
}

/// A tensor with a borrow of its memory for reading: the owner of another tensor over the same memory.
pub(crate) struct Borrowed {
    // Fields drop in this order: the borrow must end before the memory may go.
    _guard: Guard,
    _tensor: ArcTensor,
}

impl Borrowed {
    /// A read-only tensor over a tensor that Rust made, with a borrow for reading as long as it lives: some consumers
    /// ignore the read-only flag. Refused while the memory is borrowed for writing.
    pub(crate) fn read_only(tensor: &ArcTensor) -> PyResult<Tensor> {
        let guard = Guard::reading(tensor, "read-only dlbridge.Tensor")?;
        Ok(Self { _guard: guard, _tensor: tensor.clone() }.over(tensor, Access::ReadOnly))
    }

    /// A tensor that was imported from an object, with a borrow for reading as long as it lives.
    pub(crate) fn imported(
        object_type: &BorrowedType,
        object: &Bound<'_, PyAny>,
        tensor: Tensor,
        read_only: bool,
    ) -> PyResult<Tensor> {
        let access = if read_only { Access::ReadOnly } else { Access::Shared };
        let tensor = tensor.into_shared();
        let reading = &TensorRef::from(&*tensor);
        let guard = Guard::acquire(object_type, object, reading, Mode::Read)?;
        Ok(Self { _guard: guard, _tensor: tensor.clone() }.over(&tensor, access))
    }

    /// A tensor over the memory of `tensor`, which this owner keeps alive.
    fn over(self, tensor: &ArcTensor, access: Access) -> Tensor {
        // SAFETY: it describes a valid tensor, and the owner keeps that tensor alive.
        unsafe { Tensor::from_described(self, &TensorRef::from(&**tensor), access) }
    }
}
