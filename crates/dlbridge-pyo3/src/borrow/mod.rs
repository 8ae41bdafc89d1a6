//! Borrows of memory that Python can reach: any number of readers of a byte, or one writer, across all extensions
//! built on dlbridge and those that use rust-numpy.
//!
//! - **Borrow.** While a [`Guard`] is alive, no other guard of this process covers a byte of its region, unless both
//!   read. Code that returns a typed view of memory from Python holds a guard for as long as the view exists.

mod bytes;
mod numpy;
mod shared;

use std::num::NonZeroUsize;

use dlbridge::{Access, ArcTensor, RawParts, Tensor, TensorRef};
use dlbridge_borrow::{LabelWords, Mode};
use pyo3::prelude::*;

pub(crate) use self::bytes::Bytes;
use self::bytes::Numbers;
pub(crate) use self::numpy::{AttachedBorrow, NumpyBorrow};
use self::shared::InTheWay;
pub(crate) use self::shared::Shared;
use crate::copies;
use crate::error::{ErrorClass, to_py_err};

/// A borrow of a tensor's bytes, which ends on drop, on any thread. Two pointers in size, so that it is returned in
/// registers.
///
/// `N` is the borrow in rust-numpy's own registry: a [`NumpyBorrow`] may be dropped on any thread; an
/// [`AttachedBorrow`] is cheaper to drop, because its lifetime shows that the thread is attached.
pub struct Guard<N = NumpyBorrow> {
    ticket: Option<NonZeroUsize>,
    numpy: Option<Box<N>>,
}

/// A borrow that ends before its thread detaches.
pub type AttachedGuard<'py> = Guard<AttachedBorrow<'py>>;

/// The name of a tensor that is copied, for messages.
const COPIED: &str = "tensor that is copied";

/// The type of an object whose memory is borrowed.
pub struct BorrowedType {
    /// Its name, for messages.
    pub(crate) name: String,
    /// The name as a label of borrows.
    pub(crate) label: LabelWords,
    /// True for NumPy's array and classes derived from it.
    pub numpy_array: bool,
}

impl<N> Guard<N> {
    /// No borrow: for memory that no other code can reach.
    pub const NONE: Self = Self { ticket: None, numpy: None };

    fn of(ticket: usize) -> Self {
        Self { ticket: NonZeroUsize::new(ticket + 1), numpy: None }
    }
}

impl<'py> AttachedGuard<'py> {
    /// Borrows the bytes of a contiguous, non-empty NumPy array; `None` if another borrow conflicts, or if the fast
    /// path cannot decide.
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

    /// As [`of_run`](Self::of_run), for borrows that need another registry or a lock.
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

    /// Borrows the bytes of a non-empty NumPy array; `None` if another borrow conflicts, or if this path cannot
    /// decide.
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

    /// Borrows in our registry; `None` if it refuses, or if rust-numpy has a registry of its own.
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

    /// Borrows in rust-numpy's registry and in ours; `None` if one of them refuses, or if rust-numpy uses ours.
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

    /// Borrows the bytes of a tensor that was imported from an object of this type.
    pub fn acquire(
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
        // Our registry comes first, because rust-numpy's does not report the conflicting borrow.
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

    /// Converts the borrow so that any thread may drop it.
    fn detached(mut self) -> Guard {
        let (ticket, numpy) = (self.ticket.take(), self.numpy.take());
        Guard { ticket, numpy: numpy.map(|numpy| Box::new(numpy.detached())) }
    }
}

impl Guard {
    /// Borrows the bytes of a tensor for the time of a copy by the CPU, on a thread that stays attached if the copy is
    /// [short](copies::is_short).
    pub fn for_copy(tensor: &Tensor) -> PyResult<Self> {
        match Self::for_short_copy(&TensorRef::from(tensor)) {
            Some(guard) => Ok(guard),
            None => Self::reading(tensor, COPIED),
        }
    }

    /// As [`for_copy`](Self::for_copy); `None` if the copy is not short, or if the borrow needs a lock.
    #[inline]
    pub(crate) fn for_short_copy(tensor: &TensorRef<'_>) -> Option<Self> {
        static LABEL: LabelWords = LabelWords::from_static(COPIED);
        // With the GIL no other thread borrows memory during a short copy, since only the attached thread does. So the
        // borrow may also cover bytes between the elements, and takes no lock.
        let may_have_gaps = cfg!(Py_GIL_DISABLED) && !tensor.is_c_contiguous();
        let is_short = copies::is_short(tensor.nbytes()) && !tensor.is_empty() && !may_have_gaps;
        if !is_short || !tensor.device().device_type().is_host_accessible() {
            return None;
        }
        let bytes = Bytes::hull(tensor);
        let ticket = Shared::known()?.read_here(bytes.address, bytes.item, &LABEL)?;
        Some(Self { ticket: Some(ticket), numpy: None })
    }

    /// Borrows the bytes of a tensor for reading, under a name for the messages of others.
    pub fn reading(tensor: &Tensor, name: &str) -> PyResult<Self> {
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

/// Shares the registry of borrows with extensions that use rust-numpy, if NumPy is loaded and none of them has
/// borrowed an array yet.
///
/// Without this call, dlbridge shares its registry when it first borrows an array. If an extension that uses
/// rust-numpy borrows before that, both registries record every borrow of an array from then on, which takes about
/// 100 ns more for each argument. Call it when the module of an extension is imported.
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

/// The error for a borrow that conflicts with another one.
#[cold]
#[inline(never)]
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
        Mode::Read => "borrowed for reading",
        Mode::Write => "borrowed for writing",
    }
}

/// A tensor with the borrow of its memory: the owner of another tensor over the same memory.
pub(crate) struct Borrowed<T> {
    // Fields drop in this order: the borrow must end before the memory may go.
    _guard: Guard,
    _tensor: T,
}

impl Borrowed<ArcTensor> {
    /// A read-only tensor over a tensor that Rust made, with a borrow for reading as long as it lives: some consumers
    /// ignore the read-only flag. Refused while the memory is borrowed for writing.
    pub(crate) fn read_only(tensor: &ArcTensor) -> PyResult<Tensor> {
        let guard = Guard::reading(tensor, "read-only dlbridge.Tensor")?;
        let owner = Self { _guard: guard, _tensor: tensor.clone() };
        over(owner, parts(tensor, true), tensor.shape(), tensor.strides())
    }
}

impl Borrowed<Tensor> {
    /// A tensor that holds a borrow of its memory for reading.
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

/// The metadata of a tensor, as raw parts.
fn parts(tensor: &Tensor, read_only: bool) -> RawParts {
    RawParts {
        device: tensor.device(),
        access: if read_only { Access::ReadOnly } else { Access::Shared },
        subbyte_padded: tensor.is_subbyte_padded(),
        byte_offset: tensor.byte_offset(),
        ..RawParts::new(tensor.data(), tensor.dtype())
    }
}

/// A tensor over the memory of another one, which the owner keeps alive.
fn over<T: Send + 'static>(
    owner: Borrowed<T>,
    parts: RawParts,
    shape: &[i64],
    strides: &[i64],
) -> PyResult<Tensor> {
    // SAFETY: the parts describe a valid tensor, and the owner keeps that tensor alive.
    let borrowed = unsafe { Tensor::from_raw_parts(owner, parts, shape, Some(strides)) };
    borrowed.map_err(to_py_err)
}
