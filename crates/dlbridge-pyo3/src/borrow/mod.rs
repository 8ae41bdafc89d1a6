//! Borrows of memory that is reached from Python: any number of readers of a byte, or one writer, over
//! all extensions built on dlbridge, and those that use rust-numpy.
//!
//! - **Borrow.** While a [`Guard`] is alive, no other guard of this process covers a byte of its
//!   region, unless both read. Whoever hands out a typed view of memory that came from Python holds a
//!   guard for as long.

mod bytes;
mod numpy;
mod shared;

use std::num::NonZeroUsize;
use std::sync::Arc;

use dlbridge::{Access, RawParts, Tensor, TensorRef};
use dlbridge_borrow::{LabelWords, Mode};
use pyo3::prelude::*;

pub(crate) use self::bytes::Bytes;
use self::bytes::Numbers;
pub(crate) use self::numpy::{AttachedBorrow, NumpyBorrow};
use self::shared::InTheWay;
pub(crate) use self::shared::Shared;
use crate::error::{ErrorClass, to_py_err};

/// A borrow of the bytes of a tensor, given back when it is dropped, on any thread. As small as two
/// pointers, so that it is returned in registers.
///
/// `N` is the borrow in a registry of rust-numpy's own: [`NumpyBorrow`] is given back on any thread, and an
/// [`AttachedBorrow`] sooner, where its lifetime shows that the thread is attached.
pub(crate) struct Guard<N = NumpyBorrow> {
    ticket: Option<NonZeroUsize>,
    numpy: Option<Box<N>>,
}

/// A borrow that lasts no longer than its thread is attached.
pub(crate) type AttachedGuard<'py> = Guard<AttachedBorrow<'py>>;

/// The type of an object whose memory is borrowed.
pub(crate) struct BorrowedType {
    /// Its name, for messages.
    pub(crate) name: String,
    /// The same as a label of borrows.
    pub(crate) label: LabelWords,
    /// True for NumPy's array and classes derived from it.
    pub(crate) numpy_array: bool,
}

impl<N> Guard<N> {
    /// Nothing is borrowed: for memory that no other code can reach.
    pub(crate) const NONE: Self = Self { ticket: None, numpy: None };

    fn of(ticket: usize) -> Self {
        Self { ticket: NonZeroUsize::new(ticket + 1), numpy: None }
    }
}

impl<'py> AttachedGuard<'py> {
    /// Borrows a run of bytes, those of an array of NumPy, which has some; `None` if that cannot be, or not at once.
    #[inline(always)]
    pub(crate) fn of_run(
        object_type: &'static BorrowedType,
        object: &Bound<'py, PyAny>,
        address: usize,
        count: usize,
        mode: Mode,
    ) -> Option<Self> {
        if mode == Mode::Read
            && let Some(ticket) = Shared::read_alone(address, count, &object_type.label)
        {
            return Some(Self { ticket: Some(ticket), numpy: None });
        }
        Self::of_run_locked(object_type, object, address, count, mode)
    }

    /// As [`of_run`](Self::of_run), for what takes more than our registry, or a lock.
    #[inline(never)]
    fn of_run_locked(
        object_type: &'static BorrowedType,
        object: &Bound<'py, PyAny>,
        address: usize,
        item: usize,
        mode: Mode,
    ) -> Option<Self> {
        let bytes = Bytes { address, item, shape: &[], strides: Numbers::None };
        Self::of_array(object_type, object, &bytes, mode)
    }

    /// Borrows the bytes of an array of NumPy, which has some; `None` if that cannot be, or not at once.
    pub(crate) fn of_array(
        object_type: &'static BorrowedType,
        object: &Bound<'py, PyAny>,
        bytes: &Bytes<'_>,
        mode: Mode,
    ) -> Option<Self> {
        match Self::ticket(object_type, object, bytes, mode) {
            Some(ticket) => Some(Self { ticket: Some(ticket), numpy: None }),
            None => Self::of_array_in_both(object_type, object, bytes, mode),
        }
    }

    /// Borrows in our registry; `None` if that is refused, or if rust-numpy has a registry of its own.
    #[inline(never)]
    fn ticket(
        object_type: &'static BorrowedType,
        object: &Bound<'_, PyAny>,
        bytes: &Bytes<'_>,
        mode: Mode,
    ) -> Option<NonZeroUsize> {
        let shared = Shared::known()?;
        if !numpy::is_ours(object.py(), shared) {
            return None;
        }
        Self::ticket_of(shared, object_type, bytes, mode)
    }

    #[inline]
    fn ticket_of(
        shared: &'static Shared,
        object_type: &'static BorrowedType,
        bytes: &Bytes<'_>,
        mode: Mode,
    ) -> Option<NonZeroUsize> {
        shared
            .acquire(bytes, mode, &object_type.name)
            .ok()
            .and_then(|ticket| NonZeroUsize::new(ticket + 1))
    }

    /// Borrows in rust-numpy's registry and in ours; `None` if one of them refuses, or if there is only ours.
    #[inline(never)]
    fn of_array_in_both(
        object_type: &'static BorrowedType,
        object: &Bound<'py, PyAny>,
        bytes: &Bytes<'_>,
        mode: Mode,
    ) -> Option<Self> {
        let shared = Shared::known()?;
        let numpy = AttachedBorrow::of_array(object, shared, mode)?;
        let quick = match (mode, bytes.shape) {
            (Mode::Read, []) => shared.read_here(bytes.address, bytes.item, &object_type.label),
            _ => None,
        };
        let ticket = match quick {
            Some(ticket) => ticket,
            None => Self::ticket_of(shared, object_type, bytes, mode)?,
        };
        Some(Self { ticket: Some(ticket), numpy: Some(numpy) })
    }

    /// Borrows the bytes of a tensor, which came out of an object of a type.
    pub(crate) fn acquire(
        object_type: &BorrowedType,
        object: &Bound<'py, PyAny>,
        tensor: &TensorRef<'_>,
        mode: Mode,
    ) -> PyResult<Self> {
        if tensor.is_empty() {
            return Ok(Self::NONE);
        }
        let py = object.py();
        let shared = Shared::of_process(py)?;
        // Before rust-numpy's registry, which does not say which borrow is in the way.
        let mut guard = match Self::granted(shared, object_type, tensor, mode) {
            Ok(guard) => guard,
            Err(conflict) => return Err(refusal(py, &object_type.name, mode, &conflict)),
        };
        if object_type.numpy_array {
            guard.numpy = AttachedBorrow::acquire(object, shared, mode)?.map(Box::new);
        }
        Ok(guard)
    }

    /// Borrows the bytes of a tensor in the registry of the process.
    #[inline]
    fn granted(
        shared: &'static Shared,
        object_type: &BorrowedType,
        tensor: &TensorRef<'_>,
        mode: Mode,
    ) -> Result<Self, Box<InTheWay>> {
        let dtype = tensor.dtype();
        let ticket = match tensor.is_c_contiguous() && !dtype.is_subbyte() {
            true => {
                let bytes = Bytes::run(tensor, dtype);
                if mode == Mode::Read
                    && let Some(ticket) =
                        shared.read_here(bytes.address, bytes.item, &object_type.label)
                {
                    return Ok(Self { ticket: Some(ticket), numpy: None });
                }
                shared.acquire(&bytes, mode, &object_type.name)?
            }
            false => shared.acquire(&Bytes::of(tensor), mode, &object_type.name)?,
        };
        Ok(Self::of(ticket))
    }

    /// The same borrow, to be given back on any thread.
    fn detached(mut self) -> Guard {
        let (ticket, numpy) = (self.ticket.take(), self.numpy.take());
        Guard { ticket, numpy: numpy.map(|numpy| Box::new(numpy.detached())) }
    }
}

impl Guard {
    /// Borrows the bytes of a tensor to be read, under a name for the messages of others.
    pub(crate) fn reading(tensor: &Tensor, name: &str) -> PyResult<Self> {
        if tensor.is_empty() || !tensor.device().device_type().is_host_accessible() {
            return Ok(Self::NONE);
        }
        Python::attach(|py| {
            let shared = Shared::of_process(py)?;
            match shared.acquire(&Bytes::of(&TensorRef::from(tensor)), Mode::Read, name) {
                Ok(ticket) => Ok(Self::of(ticket)),
                Err(conflict) => Err(refusal(py, "tensor", Mode::Read, &conflict)),
            }
        })
    }
}

/// Shares the registry of borrows with extensions that use rust-numpy, if NumPy is loaded and none of them has borrowed an array
/// yet.
///
/// Without this call, dlbridge shares its registry when it first borrows an array. If an extension that uses rust-numpy
/// borrows before that, both registries keep every borrow of an array from then on, which takes about 100 ns more for each argument.
/// Call it when the module of an extension is imported.
///
/// # Errors
/// `ImportError` if an extension built on another version of dlbridge or rust-numpy shares borrows in an older way.
///
/// ```no_run
/// use pyo3::prelude::*;
///
/// #[pymodule]
/// fn extension(module: &Bound<'_, PyModule>) -> PyResult<()> {
///     dlbridge_pyo3::share_borrows(module.py())
/// }
/// ```
pub fn share_borrows(py: Python<'_>) -> PyResult<()> {
    let shared = Shared::of_process(py)?;
    numpy::share(py, shared)
}

/// The refusal of a borrow that another one is in the way of.
fn refusal(py: Python<'_>, name: &str, mode: Mode, conflict: &InTheWay) -> PyErr {
    let (ours, theirs) = (verb(mode), verb(conflict.mode));
    let text = format!(
        "the memory of this {name}, {ours}, overlaps that of a {}, {theirs} (addresses {:#x} to {:#x} and \
         {:#x} to {:#x}); pass memory of its own, or a copy",
        conflict.label,
        conflict.asked.start(),
        conflict.asked.end(),
        conflict.start,
        conflict.end,
    );
    ErrorClass::Borrowed.new_err(py, &text)
}

impl<N> Drop for Guard<N> {
    #[inline]
    fn drop(&mut self) {
        if let (Some(ticket), Some(shared)) = (self.ticket.take(), Shared::known()) {
            shared.release(ticket.get() - 1);
        }
    }
}

fn verb(mode: Mode) -> &'static str {
    match mode {
        Mode::Read => "borrowed to be read",
        Mode::Write => "borrowed to be written",
    }
}

/// A tensor with the borrow of its memory, as the owner of another one over the same memory.
pub(crate) struct Borrowed<T> {
    // Dropped in this order: the borrow ends before the memory may.
    _guard: Guard,
    _tensor: T,
}

impl Borrowed<Arc<Tensor>> {
    /// A read-only tensor over another one that Rust made, borrowed to be read as long as it lives: some
    /// consumers forget that it must not be written. A borrow for writing is refused.
    pub(crate) fn read_only(tensor: &Arc<Tensor>) -> PyResult<Tensor> {
        let guard = Guard::reading(tensor, "read-only dlbridge.Tensor")?;
        let owner = Self { _guard: guard, _tensor: Arc::clone(tensor) };
        over(owner, parts(tensor, true), tensor.shape(), tensor.strides())
    }
}

impl Borrowed<Tensor> {
    /// A tensor that is borrowed to be read as long as it lives.
    pub(crate) fn tensor(
        object_type: &BorrowedType,
        object: &Bound<'_, PyAny>,
        tensor: Tensor,
        read_only: bool,
    ) -> PyResult<Tensor> {
        let guard = Guard::acquire(object_type, object, &TensorRef::from(&tensor), Mode::Read)?;
        let guard = guard.detached();
        let parts = parts(&tensor, read_only);
        let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
        over(Self { _guard: guard, _tensor: tensor }, parts, &shape, &strides)
    }
}

/// What a tensor says of its own data.
fn parts(tensor: &Tensor, read_only: bool) -> RawParts {
    RawParts {
        device: tensor.device(),
        access: if read_only { Access::ReadOnly } else { Access::Shared },
        subbyte_padded: tensor.is_subbyte_padded(),
        byte_offset: tensor.byte_offset(),
        ..RawParts::new(tensor.data(), tensor.dtype())
    }
}

/// A tensor over the memory of the one that its owner keeps alive.
fn over<T: Send + 'static>(
    owner: Borrowed<T>,
    parts: RawParts,
    shape: &[i64],
    strides: &[i64],
) -> PyResult<Tensor> {
    // SAFETY: what a tensor says of its own data, which the owner keeps alive.
    let borrowed = unsafe { Tensor::from_raw_parts(owner, parts, shape, Some(strides)) };
    borrowed.map_err(to_py_err)
}
