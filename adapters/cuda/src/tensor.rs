//! Tensors as memory of cudarc.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use dlbridge::{Element, RawParts, Tensor};

use crate::owner::{Exported, Memory};
use crate::sealed::Sealed;
use crate::{CudaTensor, Error, Result, SliceExt, copy};

/// CUDA tensors as memory of cudarc, and copies of them.
pub trait TensorExt: Sealed + Sized {
    /// Returns the tensor's memory for work on a stream, without a copy. The stream waits for the legacy default stream
    /// of the device. When the result is dropped, the default stream waits for the work on it.
    ///
    /// # Errors
    /// [`Error::NotCuda`]; [`Error::OtherDevice`]; [`Error::Strided`], because cudarc does not support strides;
    /// [`Error::Unchecked`] for elements such as `bool`; [`Error::NotPrimary`]; an error for a tensor of another dtype
    /// and for an unaligned tensor; errors of the driver. The tensor is dropped.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use cudarc::driver::CudaStream;
    /// use dlbridge_cuda::{Result, TensorExt};
    ///
    /// fn zero(tensor: dlbridge::Tensor, stream: &Arc<CudaStream>) -> Result<dlbridge::Tensor> {
    ///     let mut memory = tensor.into_cuda::<f32>(stream)?;
    ///     stream.memset_zeros(&mut memory.view_mut()?)?;
    ///     Ok(memory.into_tensor())
    /// }
    /// ```
    fn into_cuda<T: Element>(self, stream: &Arc<CudaStream>) -> Result<CudaTensor<T>> {
        self.into_cuda_on(stream, &stream.context().default_stream())
    }

    /// Like [`into_cuda`](Self::into_cuda), for a tensor that is synchronised with another stream, on which producer
    /// and consumer have agreed.
    ///
    /// # Errors
    /// The errors of [`into_cuda`](Self::into_cuda), [`Error::OtherContext`], and [`Error::PerThread`].
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use cudarc::driver::CudaStream;
    /// use dlbridge_cuda::{CudaTensor, Result, TensorExt};
    ///
    /// fn mine(tensor: dlbridge::Tensor, agreed: &Arc<CudaStream>) -> Result<CudaTensor<f32>> {
    ///     tensor.into_cuda_on(agreed, agreed) // one stream, so nothing waits
    /// }
    /// ```
    fn into_cuda_on<T: Element>(
        self,
        stream: &Arc<CudaStream>,
        order: &Arc<CudaStream>,
    ) -> Result<CudaTensor<T>>;

    /// Like [`into_cuda`](Self::into_cuda), but returns bytes, for elements of any dtype.
    ///
    /// # Errors
    /// The errors of [`into_cuda`](Self::into_cuda), except those about the elements.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use cudarc::driver::CudaStream;
    /// use dlbridge_cuda::{CudaTensor, Result, TensorExt};
    ///
    /// fn mask(tensor: dlbridge::Tensor, stream: &Arc<CudaStream>) -> Result<CudaTensor<u8>> {
    ///     tensor.into_cuda_bytes(stream)
    /// }
    /// ```
    fn into_cuda_bytes(self, stream: &Arc<CudaStream>) -> Result<CudaTensor<u8>>;

    /// Returns the memory that [`SliceExt::into_tensor`] wrapped: all of it, even if the tensor is a slice of it. Its
    /// stream waits for the tensor's order stream.
    ///
    /// The tensor is returned if it owns something else, if the memory is shared, and if the type has invalid
    /// byte values, as `bool` has, because bytes that a consumer wrote are not checked. It is also returned if neither
    /// a stream nor the host can be made to wait for pending work; the context then stores the error.
    ///
    /// # Errors
    /// The tensor.
    ///
    /// ```no_run
    /// use cudarc::driver::CudaSlice;
    /// use dlbridge::Tensor;
    /// use dlbridge_cuda::TensorExt;
    ///
    /// fn mine(tensor: Tensor) -> Result<CudaSlice<f32>, Tensor> {
    ///     tensor.try_into_slice()
    /// }
    /// ```
    fn try_into_slice<S: SliceExt>(self) -> std::result::Result<S, Tensor>;

    /// Copies the elements to the host, in C order, on the stream. Returns after the copy. It fetches all bytes between
    /// the lowest and the highest, through pinned memory.
    ///
    /// # Errors
    /// [`Error::NotCuda`]; [`Error::OtherDevice`]; [`Error::NotPrimary`]; errors of the driver.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use cudarc::driver::CudaStream;
    /// use dlbridge_cuda::{Result, TensorExt};
    ///
    /// fn read(tensor: &dlbridge::Tensor, stream: &Arc<CudaStream>) -> Result<dlbridge::Tensor> {
    ///     tensor.to_host(stream)
    /// }
    /// ```
    fn to_host(&self, stream: &Arc<CudaStream>) -> Result<Tensor>;

    /// Copies the tensor to the stream's device, which may be another one, on the stream; the host does not wait. It
    /// copies all bytes between the lowest and the highest, and keeps the strides.
    ///
    /// # Errors
    /// [`Error::NotCuda`]; [`Error::NotPrimary`]; errors of the driver.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use cudarc::driver::CudaStream;
    /// use dlbridge_cuda::{Result, TensorExt};
    ///
    /// fn move_on(tensor: &dlbridge::Tensor, other: &Arc<CudaStream>) -> Result<dlbridge::Tensor> {
    ///     tensor.copy_to(other)
    /// }
    /// ```
    fn copy_to(&self, stream: &Arc<CudaStream>) -> Result<Tensor>;
}

impl Sealed for Tensor {}

impl TensorExt for Tensor {
    fn into_cuda_on<T: Element>(
        self,
        stream: &Arc<CudaStream>,
        order: &Arc<CudaStream>,
    ) -> Result<CudaTensor<T>> {
        let dtype = self.dtype();
        if dtype != T::DATA_TYPE {
            return Err(dlbridge::Error::DataType { found: dtype, expected: T::DATA_TYPE }.into());
        }
        if T::CHECK.is_some() {
            return Err(Error::Unchecked { dtype });
        }
        if dtype.is_subbyte() && !self.is_subbyte_padded() {
            return Err(dlbridge::Error::SubbytePacked { dtype }.into());
        }
        CudaTensor::new(self, stream, order)
    }

    fn into_cuda_bytes(self, stream: &Arc<CudaStream>) -> Result<CudaTensor<u8>> {
        CudaTensor::new(self, stream, &stream.context().default_stream())
    }

    fn try_into_slice<S: SliceExt>(self) -> std::result::Result<S, Tensor> {
        if <S as Memory>::Element::CHECK.is_some() {
            return Err(self);
        }
        let parts = RawParts {
            data: self.data(),
            dtype: self.dtype(),
            device: self.device(),
            byte_offset: self.byte_offset(),
            access: self.access(),
            subbyte_padded: self.is_subbyte_padded(),
        };
        let (shape, strides) = (self.shape().to_vec(), self.strides().to_vec());
        let mut owner = self.try_into_owner::<Exported<S>>()?;
        match owner.take_back() {
            Ok(()) => Ok(owner.into_memory()),
            Err(_) => {
                // SAFETY: the parts are those of the tensor before, and the owner has kept the memory.
                let tensor =
                    unsafe { Tensor::from_raw_parts(owner, parts, &shape, Some(&strides)) };
                Err(tensor.expect("these parts made a tensor before"))
            }
        }
    }

    fn to_host(&self, stream: &Arc<CudaStream>) -> Result<Tensor> {
        copy::to_host(self, stream)
    }

    fn copy_to(&self, stream: &Arc<CudaStream>) -> Result<Tensor> {
        copy::copy_to(self, stream)
    }
}
