//! The owner of a tensor's memory, for adapters. They keep it instead of the tensor around it, so that a loop through a library
//! does not build a chain of owners.

use dlbridge_sys::{DLManagedTensorVersioned, DLPACK_MAJOR_VERSION};

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::block::Managed;
use super::import;
use crate::Tensor;

impl Tensor {
    /// The owner, if it is an `O`: the value that the tensor was made of, or the `Arc<Tensor>` that this tensor
    /// shares its memory with.
    ///
    /// Adapters clone a handle on the memory out of it, instead of keeping the tensor itself alive.
    ///
    /// # Safety
    /// The caller does not access elements through the owner: another holder of the tensor may write them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use dlbridge::Tensor;
    ///
    /// let source = Arc::new(Tensor::from(vec![1_u8, 2, 3]));
    /// let shared = source.share();
    /// // SAFETY: only the handle is compared.
    /// let owner = unsafe { shared.owner_ref::<Arc<Tensor>>() };
    /// assert!(Arc::ptr_eq(owner.unwrap(), &source));
    /// ```
    pub unsafe fn owner_ref<O: Sync + 'static>(&self) -> Option<&O> {
        self.managed().owner()
    }

    /// The foreign managed tensor that keeps the memory, if the tensor was imported from one.
    ///
    /// It is valid as long as this tensor, which calls its deleter. The pointer is for comparison, and for
    /// [`with_raw`](Self::with_raw).
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
        // SAFETY: valid by contract; the version is first in every version of the struct.
        if unsafe { (*managed.as_ptr()).version }.major != DLPACK_MAJOR_VERSION {
            return None;
        }
        // SAFETY: of this major version. The handle is not given up: what is made of it is neither dropped nor
        // written.
        let managed = unsafe { Managed::recognise(managed) }?;
        let tensor = ManuallyDrop::new(Self::from_managed(managed));
        Some(f(&tensor))
    }
}
