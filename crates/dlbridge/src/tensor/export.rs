//! Tensors on their way out: given to C consumers, or lent many times.

use alloc::sync::Arc;
use core::ptr::NonNull;

use dlbridge_sys::{DLManagedTensor, DLManagedTensorVersioned};

use super::raw::export;
use crate::{DataType, Error, Result, Tensor};

impl Tensor {
    /// Gives the tensor to a C consumer, who must call its deleter, once.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let managed = Tensor::from(vec![1_u8]).into_raw();
    /// // SAFETY: it came out of `into_raw`, and its deleter is called once.
    /// unsafe { (*managed).deleter.unwrap()(managed) };
    /// ```
    #[must_use = "the tensor leaks unless its deleter is called"]
    pub fn into_raw(self) -> *mut DLManagedTensorVersioned {
        self.into_managed().into_raw().as_ptr()
    }

    /// Gives the tensor to a C consumer of the legacy struct, who must call its deleter, once.
    ///
    /// # Errors
    /// [`Error::LegacyReadOnly`] and [`Error::LegacySubbytePadded`] for what that struct cannot
    /// say; the tensor comes back with it.
    ///
    /// ```
    /// use dlbridge::{Error, Tensor};
    ///
    /// let managed = Tensor::from(vec![1_u8]).into_raw_legacy().unwrap();
    /// // SAFETY: it came out of `into_raw_legacy`, and its deleter is called once.
    /// unsafe { (*managed).deleter.unwrap()(managed) };
    ///
    /// let read_only = Tensor::from(&[1_u8][..]);
    /// assert_eq!(read_only.into_raw_legacy().unwrap_err().1, Error::LegacyReadOnly);
    /// ```
    pub fn into_raw_legacy(self) -> Result<*mut DLManagedTensor, (Self, Error)> {
        export::into_raw_legacy(self.into_managed())
            .map(NonNull::as_ptr)
            .map_err(|(managed, error)| (Self::from_managed(managed), error))
    }

    /// Lends the tensor to a C consumer, who must call the deleter of what it gets, once. It can
    /// be lent many times; the owner goes with the last handle.
    ///
    /// What is lent is read-only or immutable if the tensor is, and never exclusive. The consumer may write it
    /// otherwise: whoever passes it on takes care that it does not while views are alive. While it
    /// lives the tensor cannot become immutable.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use dlbridge::Tensor;
    ///
    /// let tensor = Arc::new(Tensor::from(vec![1_u8]));
    /// let managed = tensor.lend();
    /// drop(tensor);
    /// // SAFETY: it came out of `lend`, and its deleter is called once.
    /// unsafe { (*managed).deleter.unwrap()(managed) };
    /// ```
    #[must_use = "the tensor leaks unless the deleter is called"]
    pub fn lend(self: &Arc<Self>) -> *mut DLManagedTensorVersioned {
        export::lend(self).into_raw().as_ptr()
    }

    /// Lends the tensor as [`Tensor::lend`] does, to a consumer of the legacy struct.
    ///
    /// # Errors
    /// [`Error::LegacyReadOnly`] and [`Error::LegacySubbytePadded`] for what that struct cannot say.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use dlbridge::Tensor;
    ///
    /// let managed = Arc::new(Tensor::from(vec![1_u8])).lend_legacy()?;
    /// // SAFETY: it came out of `lend_legacy`, and its deleter is called once.
    /// unsafe { (*managed).deleter.unwrap()(managed) };
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn lend_legacy(self: &Arc<Self>) -> Result<*mut DLManagedTensor> {
        export::lend_legacy(Arc::clone(self)).map(NonNull::as_ptr)
    }

    /// A second tensor over the same memory, read-only, because the first is still there; immutable if
    /// the first is. The owner goes with the last of them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use dlbridge::Tensor;
    ///
    /// let tensor = Arc::new(Tensor::from(vec![1_u8]));
    /// let second = tensor.share();
    /// assert_eq!(second.data(), tensor.data());
    /// assert!(second.is_read_only());
    /// ```
    pub fn share(self: &Arc<Self>) -> Self {
        Self::from_managed(export::share(self))
    }

    /// A second tensor, of another dtype and shape, over some bytes of this one, read-only: for
    /// files and messages that hold many. Byte order, alignment and sub-byte elements are as in
    /// [`Tensor::from_bytes`].
    ///
    /// # Errors
    /// [`Error::NotContiguous`] and [`Error::NotHostAccessible`] for this tensor; those of
    /// [`Tensor::from_bytes`] for the new one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use dlbridge::{DataType, Tensor};
    ///
    /// let file = Arc::new(Tensor::from(vec![0_u8; 100]));
    /// let weight = file.share_bytes(DataType::FLOAT16, [4, 10], 0)?;
    /// let bias = file.share_bytes(DataType::FLOAT16, [10], 80)?;
    /// assert_eq!(bias.data().addr(), file.data().addr() + 80);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn share_bytes(
        self: &Arc<Self>,
        dtype: DataType,
        shape: impl AsRef<[usize]>,
        byte_offset: usize,
    ) -> Result<Self> {
        export::share_bytes(self, dtype, shape.as_ref(), byte_offset).map(Self::from_managed)
    }

    /// The managed tensor, still the tensor's own: for C code that reads it during a call.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from(vec![1_u8, 2]);
    /// // SAFETY: alive, and not written.
    /// assert_eq!(unsafe { (*tensor.as_raw()).dl_tensor.ndim }, 1);
    /// ```
    pub fn as_raw(&self) -> *const DLManagedTensorVersioned {
        self.managed().as_ptr()
    }
}
