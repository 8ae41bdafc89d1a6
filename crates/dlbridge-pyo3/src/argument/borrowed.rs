//! A borrowed argument: its tensor, the owner of the memory, and the borrow.

use std::ffi::c_void;
use std::mem::{self, MaybeUninit};
use std::ptr;

use dlbridge::{Error, Tensor, TensorRef, TensorRefMut};
use pyo3::prelude::*;

use crate::borrow::Guard;
use crate::protocol::buffer::HeldBuffer;

/// An argument that meets all demands.
///
/// - **Borrowed.** The tensor has an accepted dtype. If its place is the host, the CPU can read it and its elements are
///   valid. While the guard is alive no other borrow overlaps it, unless both read. If it was borrowed for writing, no
///   other code may write it and no two indices lead to one element. The owner and the object keep its memory, its
///   extents and its strides.
///
/// Arguments keep it in a box. An argument moves several times before it reaches the caller's function, and moving
/// these fields costs more than an allocation: the processor stalls when it reads several fields at once that were
/// just written one by one.
pub(super) struct BorrowedArgument<'py> {
    /// Returned only for as long as this struct is borrowed.
    tensor: TensorRef<'static>,
    /// The stream that the data is synchronised with; NULL on the CPU.
    pub(super) stream: *mut c_void,
    // Fields drop in this order: the borrow must end before the memory may go.
    guard: Guard,
    /// The owner of the memory, if the object itself does not keep it.
    owner: Option<MemoryOwner<'py>>,
    /// NumPy's name for the elements, if they are times.
    pub(super) time: Option<&'static str>,
    pub(super) object: Bound<'py, PyAny>,
}

impl<'py> BorrowedArgument<'py> {
    /// Fills a box that was allocated before, so the argument is written once, to its final address.
    #[inline(always)]
    pub(super) fn put(
        place: Box<MaybeUninit<Self>>,
        tensor: TensorRef<'static>,
        guard: Guard,
        owner: Option<MemoryOwner<'py>>,
        object: &Bound<'py, PyAny>,
    ) -> Box<Self> {
        let (object, stream) = (object.clone(), ptr::null_mut());
        Box::write(place, Self { tensor, stream, guard, owner, time: None, object })
    }

    /// Records the borrow of an argument that was put without one, before the argument is returned.
    #[inline(always)]
    pub(super) fn set_guard(&mut self, guard: Guard) {
        self.guard = guard;
    }

    /// Returns true if the elements are the argument's own, and false for a copy.
    pub(super) fn is_borrowed(&self) -> bool {
        !matches!(self.owner, Some(MemoryOwner::Copy(_)))
    }

    pub(super) fn tensor(&self) -> &TensorRef<'_> {
        &self.tensor
    }

    /// The tensor, to write.
    ///
    /// # Safety
    /// The argument must have been borrowed for writing.
    pub(super) unsafe fn tensor_mut(&mut self) -> TensorRefMut<'_> {
        // SAFETY: Borrowed: while the guard is alive, no other borrower has a view of these bytes, and `self` is
        // borrowed mutably. A race with code that does not borrow is the program's responsibility (see the crate
        // documentation).
        let exclusive = unsafe { self.tensor.clone().assume_exclusive() };
        exclusive.unwrap_or_else(|_| unreachable!("extraction refused overlapping elements"))
    }
}

/// An argument that is a copy, which no other code can reach.
pub(super) fn borrow_copy<'py>(
    owner: Tensor,
    object: &Bound<'py, PyAny>,
) -> Box<BorrowedArgument<'py>> {
    // SAFETY: the argument keeps the owner, which keeps the memory and the dims.
    let tensor = unsafe { outliving(TensorRef::from(&owner)) };
    BorrowedArgument::put(
        Box::new_uninit(),
        tensor,
        Guard::NONE,
        Some(MemoryOwner::Copy(owner)),
        object,
    )
}

/// Extends the lifetime of a borrowed tensor.
///
/// # Safety
/// The memory and the dims outlive the result, and do not move.
pub(super) unsafe fn outliving(tensor: TensorRef<'_>) -> TensorRef<'static> {
    // SAFETY: the same type with another lifetime. The caller promises that the memory and the dims outlive the
    // result: `BorrowedArgument` keeps their owner as long as the tensor, and returns the tensor only while it is borrowed
    // itself.
    unsafe { mem::transmute::<TensorRef<'_>, TensorRef<'static>>(tensor) }
}

/// Checks that no two indices lead to one element, so that [`BorrowedArgument::tensor_mut`] can have exclusive access.
pub(super) fn assert_exclusive(tensor: &TensorRef<'_>) -> Result<(), Error> {
    // SAFETY: the tensor is dropped at once.
    unsafe { tensor.clone().assume_exclusive() }.map(drop)
}

/// The owner of an argument's memory, if the argument's object is not the owner.
#[expect(dead_code, reason = "kept for what it owns")]
pub(super) enum MemoryOwner<'py> {
    /// A tensor that was imported.
    Tensor(Tensor),
    /// A copy, which nothing else holds.
    Copy(Tensor),
    /// A buffer, which no tensor wraps.
    Buffer(HeldBuffer<'py>),
    /// The storage of the argument's object.
    Storage(Bound<'py, PyAny>),
}
