//! Exports tensors to C consumers: once, or any number of times as an `ArcTensor`.

use core::ptr::NonNull;

use dlbridge_sys::{DLManagedTensor, DLManagedTensorVersioned};

use super::raw::export;
use crate::{ArcTensor, DataType, Error, Result, Tensor};

impl Tensor {
    /// Exports the tensor to a C consumer, which must call its deleter once.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let managed = Tensor::from(vec![1_u8]).into_raw();
    /// // SAFETY: `into_raw` returned it, and its deleter is called once.
    /// unsafe { (*managed).deleter.unwrap()(managed) };
    /// ```
    #[must_use = "the tensor leaks unless its deleter is called"]
    pub fn into_raw(self) -> *mut DLManagedTensorVersioned {
        self.into_managed().into_raw().as_ptr()
    }

    /// Exports the tensor to a C consumer of the legacy struct, which must call its deleter once.
    ///
    /// # Errors
    /// [`Error::LegacyReadOnly`] and [`Error::LegacySubbytePadded`] for tensors that this struct cannot describe. The
    /// error includes the tensor.
    ///
    /// ```
    /// use dlbridge::{Error, Tensor};
    ///
    /// let managed = Tensor::from(vec![1_u8]).into_raw_legacy().unwrap();
    /// // SAFETY: `into_raw_legacy` returned it, and its deleter is called once.
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

    /// The managed tensor, for C code that reads it during a call. The tensor keeps it.
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

impl ArcTensor {
    /// Exports the tensor to a C consumer, which must call the deleter of the returned struct once. You can export a
    /// tensor many times; the owner is dropped with the last handle.
    ///
    /// The export is read-only or immutable if the tensor is, and never exclusive. If it is neither, the consumer may
    /// write the data: the code that passes it on must prevent writes while views are alive. The tensor cannot become
    /// immutable while the export lives.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let tensor = Tensor::from(vec![1_u8]).into_shared();
    /// let managed = tensor.to_raw();
    /// drop(tensor);
    /// // SAFETY: `to_raw` returned it, and its deleter is called once.
    /// unsafe { (*managed).deleter.unwrap()(managed) };
    /// ```
    #[must_use = "the tensor leaks unless the deleter is called"]
    pub fn to_raw(&self) -> *mut DLManagedTensorVersioned {
        export::to_raw(self).into_raw().as_ptr()
    }

    /// Exports the tensor as [`ArcTensor::to_raw`] does, to a consumer of the legacy struct.
    ///
    /// # Errors
    /// [`Error::LegacyReadOnly`] and [`Error::LegacySubbytePadded`] for tensors that this struct cannot describe.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let managed = Tensor::from(vec![1_u8]).into_shared().to_raw_legacy()?;
    /// // SAFETY: `to_raw_legacy` returned it, and its deleter is called once.
    /// unsafe { (*managed).deleter.unwrap()(managed) };
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn to_raw_legacy(&self) -> Result<*mut DLManagedTensor> {
        export::to_raw_legacy(self.clone()).map(NonNull::as_ptr)
    }

    /// Makes a second tensor over the same memory. It is read-only, because the first still exists, and immutable if
    /// the first is. The owner is dropped with the last of them.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let tensor = Tensor::from(vec![1_u8]).into_shared();
    /// let second = tensor.share();
    /// assert_eq!(second.data(), tensor.data());
    /// assert!(second.is_read_only());
    /// ```
    pub fn share(&self) -> Tensor {
        Tensor::from_managed(export::share(self))
    }

    /// Makes a read-only tensor of another dtype and shape over some bytes of this one: for files and messages with
    /// many tensors. Byte order, alignment and sub-byte elements are as in [`Tensor::from_bytes`].
    ///
    /// # Errors
    /// [`Error::NotContiguous`] and [`Error::NotHostAccessible`] for this tensor; those of
    /// [`Tensor::from_bytes`] for the new one.
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor};
    ///
    /// let file = Tensor::from(vec![0_u8; 100]).into_shared();
    /// let weight = file.share_bytes(DataType::FLOAT16, [4, 10], 0)?;
    /// let bias = file.share_bytes(DataType::FLOAT16, [10], 80)?;
    /// assert_eq!(bias.data().addr(), file.data().addr() + 80);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn share_bytes(
        &self,
        dtype: DataType,
        shape: impl AsRef<[usize]>,
        byte_offset: usize,
    ) -> Result<Tensor> {
        export::share_bytes(self, dtype, shape.as_ref(), byte_offset).map(Tensor::from_managed)
    }
}
