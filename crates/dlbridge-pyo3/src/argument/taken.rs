//! An argument that was taken: its tensor, what keeps the memory, and the borrow.

use std::ffi::c_void;
use std::mem::{self, MaybeUninit};
use std::ptr;

use dlbridge::{Tensor, TensorRef, TensorRefMut};
use pyo3::prelude::*;

use crate::borrow::{AttachedGuard, Guard};
use crate::protocol::memory_owner::MemoryOwner;

/// An argument that is as it must be.
///
/// - **Taken.** The tensor is of one of the dtypes. If its place is the host it is readable by the CPU, and
///   valid as such elements; while the guard is alive no other borrow overlaps it, unless both read; and if it is
///   to be written, no other code may write it and no two indices lead to one element. The owner and the object keep its memory,
///   its extents and its strides.
///
/// Arguments keep it in a box. An argument is moved on its way to the caller's function, and to move these fields takes longer
/// than to allocate memory: the processor waits where it reads several of them at once that were just written one by one.
pub(super) struct Taken<'py> {
    /// Handed out only for as long as this is borrowed.
    tensor: TensorRef<'static>,
    /// The stream that the data is synchronised with; NULL on the CPU.
    pub(super) stream: *mut c_void,
    // Dropped in this order: the borrow ends before the memory may.
    _guard: AttachedGuard<'py>,
    /// The owner of the memory, if the object itself does not keep it.
    owner: Option<MemoryOwner<'py>>,
    pub(super) object: Bound<'py, PyAny>,
}

impl<'py> Taken<'py> {
    /// An argument in a box that was allocated before, so that it is written once, where it stays.
    #[inline(always)]
    pub(super) fn put(
        place: Box<MaybeUninit<Self>>,
        tensor: TensorRef<'static>,
        guard: AttachedGuard<'py>,
        owner: Option<MemoryOwner<'py>>,
        object: &Bound<'py, PyAny>,
    ) -> Box<Self> {
        let (object, stream) = (object.clone(), ptr::null_mut());
        Box::write(place, Self { tensor, stream, _guard: guard, owner, object })
    }

    /// Notes that the elements are times, by NumPy's name for them, and the object that the caller passed. The tensor that the
    /// owner holds keeps the memory.
    pub(super) fn note_times(&mut self, name: &'static str, object: &Bound<'py, PyAny>) {
        self.owner = self.owner.take().map(|owner| MemoryOwner::Times(Box::new((owner, name))));
        self.object = object.clone();
    }

    /// Returns true if the elements are the argument's own, and not a copy.
    pub(super) fn is_borrowed(&self) -> bool {
        !self.owner.as_ref().is_some_and(MemoryOwner::is_copy)
    }

    /// NumPy's name for the elements, if they are times.
    pub(super) fn time(&self) -> Option<&'static str> {
        match &self.owner {
            Some(MemoryOwner::Times(times)) => Some(times.1),
            _ => None,
        }
    }

    pub(super) fn tensor(&self) -> &TensorRef<'_> {
        &self.tensor
    }

    /// The tensor, to write.
    ///
    /// # Safety
    /// It was taken to be written.
    pub(super) unsafe fn tensor_mut(&mut self) -> TensorRefMut<'_> {
        // SAFETY: Taken; no other code that borrows has a view of these bytes while the guard is alive, and
        // this is borrowed mutably. Code that does not borrow is the program's race (see the crate documentation).
        let exclusive = unsafe { self.tensor.clone().assume_exclusive() };
        exclusive.expect("it was looked for indices that lead to one element")
    }
}

/// An argument that is a copy, which nothing else has.
pub(super) fn taken_copy<'py>(owner: Tensor, object: &Bound<'py, PyAny>) -> Box<Taken<'py>> {
    // SAFETY: the owner keeps the memory and the dims.
    let tensor = unsafe { outliving(TensorRef::from(&owner)) };
    Taken::put(Box::new_uninit(), tensor, Guard::NONE, Some(MemoryOwner::Copy(owner)), object)
}

/// A borrowed tensor for longer than it was borrowed.
///
/// # Safety
/// The memory and the dims outlive the result, and stay where they are.
pub(super) unsafe fn outliving(tensor: TensorRef<'_>) -> TensorRef<'static> {
    // SAFETY: the same type with another lifetime. The caller promises that the memory and the dims outlive the result: `Taken` keeps their
    // owner as long as the tensor, and hands the tensor out only while it is borrowed itself.
    unsafe { mem::transmute::<TensorRef<'_>, TensorRef<'static>>(tensor) }
}
