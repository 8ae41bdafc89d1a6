//! Access to the owner of a tensor's memory: returns it, makes its data immutable, and gives adapters a reference.
//! Adapters keep the owner instead of the tensor around it, so that round trips do not build a chain of owners.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use dlbridge_sys::{DLManagedTensorVersioned, DLPACK_MAJOR_VERSION};

use crate::block::Managed;
use crate::tensor::raw::import;
use crate::{Access, ArcTensor, Tensor};

impl Tensor {
    /// Returns the owner if the tensor was made of an `O`, else the tensor.
    ///
    /// Of tensors that share an owner, the last one returns it, after all others were dropped. It returns the whole
    /// owner, even if the tensor is a slice of it.
    ///
    /// It also returns the tensor if [`Element::CHECK`](crate::Element::CHECK) refuses an element: the code that wrote
    /// it, through a view of another type or as a consumer, knew only the dtype.
    ///
    /// The `Err` is the tensor, which is not an error type. To use `?`, write
    /// `tensor.try_into_owner::<Vec<u8>>().map_err(|_| "not made of a Vec<u8>")?`.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let tensor = Tensor::from(vec![1_u8, 2]).into_shared();
    /// let shared = tensor.share();
    /// let shared = shared.try_into_owner::<Vec<u8>>().unwrap_err();   // another has it
    /// drop(tensor);
    /// let shared = shared.try_into_owner::<Box<[u8]>>().unwrap_err(); // it is not a box
    /// assert_eq!(shared.try_into_owner::<Vec<u8>>().unwrap(), [1, 2]);
    /// ```
    pub fn try_into_owner<O: 'static>(self) -> Result<O, Self> {
        let mut managed = self.into_managed();
        if managed.gives::<O>() {
            // SAFETY: the type was compared.
            return Ok(unsafe { managed.into_owner() });
        }
        if !sole_source(&mut managed).is_some_and(|source| source.managed().gives::<O>()) {
            return Err(Self::from_managed(managed));
        }
        // SAFETY: `sole_source` compared the type: the owner is an `ArcTensor`.
        let source: ArcTensor = unsafe { managed.into_owner() };
        let source = source.try_into_tensor().expect("`sole_source` saw no other handle");
        // SAFETY: the type was compared.
        Ok(unsafe { source.into_managed().into_owner() })
    }

    /// Makes the tensor [`Access::Immutable`]: nothing can write its data any more.
    ///
    /// This needs an [`Access::Exclusive`] tensor, or the last tensor that shares the memory of one: only
    /// its holder could write the data, and after the conversion the holder cannot either. [`ArcTensor::share`]
    /// and [`ArcTensor::to_raw`] of an immutable tensor return immutable tensors. [`Tensor::try_into_owner`] still
    /// returns the owner of the last one.
    ///
    /// # Errors
    /// Returns the tensor itself if others may write the data: the producer of a [`Access::Shared`] or
    /// [`Access::ReadOnly`] tensor, or a consumer that borrows it. Copy it ([`Tensor::to_copy`]), or, if
    /// you know that nothing writes the data, use [`Tensor::assume_immutable`].
    ///
    /// ```
    /// use dlbridge::{Access, Tensor};
    ///
    /// let tensor = Tensor::from(vec![1, 2]).try_into_immutable().unwrap().into_shared();
    /// assert_eq!(tensor.share().access(), Access::Immutable);
    ///
    /// let read_only = Tensor::from(vec![1, 2]).into_read_only();
    /// assert!(read_only.try_into_immutable().is_err());
    /// ```
    pub fn try_into_immutable(mut self) -> Result<Self, Self> {
        if self.freeze() { Ok(self) } else { Err(self) }
    }

    /// Makes exclusive data immutable: the data of this tensor, or of the one that it shares, if this is the last
    /// handle on that one. Returns true if the data is immutable now.
    fn freeze(&mut self) -> bool {
        let managed = self.managed_mut();
        let exclusive = match managed.access() {
            Access::Immutable => return true,
            Access::Exclusive => true,
            Access::Shared | Access::ReadOnly => sole_source(managed).is_some_and(Self::freeze),
        };
        if exclusive {
            // SAFETY: Exclusive: only the holder of this block, or of its source, could write the data, and `&mut
            // self` is the only access to it. From now on the access is Immutable, which allows no writes.
            unsafe { managed.set_immutable() };
        }
        exclusive
    }

    /// The owner, if it is an `O`: the value that the tensor was made of, or the [`ArcTensor`] that this tensor
    /// shares its memory with.
    ///
    /// Adapters clone a handle on the memory, instead of keeping the tensor itself alive.
    ///
    /// # Safety
    /// The caller does not access elements through the owner: another holder of the tensor may write them.
    ///
    /// ```
    /// use dlbridge::{ArcTensor, Tensor};
    ///
    /// let source = Tensor::from(vec![1_u8, 2, 3]).into_shared();
    /// let shared = source.share();
    /// // SAFETY: only the handle is compared.
    /// let owner = unsafe { shared.owner_ref::<ArcTensor>() };
    /// assert!(ArcTensor::ptr_eq(owner.unwrap(), &source));
    /// ```
    pub unsafe fn owner_ref<O: Sync + 'static>(&self) -> Option<&O> {
        self.managed().owner()
    }

    /// The foreign managed tensor that keeps the memory, if the tensor was imported from one.
    ///
    /// It is valid while this tensor lives: the tensor's drop calls its deleter. The pointer is for comparison, and
    /// for [`with_raw`](Self::with_raw).
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from(vec![1_u8, 2, 3]);
    /// assert_eq!(tensor.foreign(), None);
    /// ```
    pub fn foreign(&self) -> Option<NonNull<DLManagedTensorVersioned>> {
        import::foreign(self.managed())
    }

    /// Calls a function with the tensor behind a managed tensor that another holder keeps; `None` if this
    /// crate did not export it.
    ///
    /// # Safety
    /// `managed` points at a managed tensor that is valid during the call, as in [`Tensor::from_raw`].
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let managed = Tensor::from(vec![1_u8, 2, 3]).into_raw();
    /// let pointer = std::ptr::NonNull::new(managed).unwrap();
    /// // SAFETY: just made, and deleted below.
    /// let len = unsafe { Tensor::with_raw(pointer, Tensor::len) };
    /// assert_eq!(len, Some(3));
    /// // SAFETY: just made, and this is its only use.
    /// drop(unsafe { Tensor::from_raw(managed) });
    /// ```
    pub unsafe fn with_raw<R>(
        managed: NonNull<DLManagedTensorVersioned>,
        f: impl FnOnce(&Self) -> R,
    ) -> Option<R> {
        // SAFETY: the caller guarantees a valid managed tensor; the version is first in every version of the struct.
        if unsafe { (*managed.as_ptr()).version }.major != DLPACK_MAJOR_VERSION {
            return None;
        }
        // SAFETY: of this major version. The handle is not given up: the `Managed` made of it is neither dropped nor
        // written.
        let managed = unsafe { Managed::recognise(managed) }?;
        let tensor = ManuallyDrop::new(Self::from_managed(managed));
        Some(f(&tensor))
    }
}

/// The tensor that a block shares its memory with, if the block has the last handle on it. An `ArcTensor` as owner is
/// such a tensor: `from_raw_parts` demands it, and `to_raw` and `share_bytes` make no others.
fn sole_source(managed: &mut Managed) -> Option<&mut Tensor> {
    if !managed.owner_is::<ArcTensor>() {
        return None;
    }
    // SAFETY: the type was compared.
    unsafe { managed.owner_mut::<ArcTensor>() }.get_mut()
}
