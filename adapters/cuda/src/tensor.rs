//! Tensors as memory of cudarc.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use dlbridge::{Element, RawParts, Tensor};

use crate::owner::{Exported, Memory};
use crate::sealed::Sealed;
use crate::{CudaTensor, Error, Result, SliceExt, copy};

/// Tensors that are on CUDA as memory of cudarc, or copied.
pub trait TensorExt: Sealed + Sized {
    /// The tensor's memory for work on a stream, without a copy. The stream waits for the legacy default stream of
    /// the device, in whose order a tensor is, and when the result is dropped, that one waits for what was done.
    ///
    /// # Errors
    /// [`Error::NotCuda`]; [`Error::OtherDevice`]; [`Error::Strided`], since cudarc has no strides;
    /// [`Error::Unchecked`] for elements like `bool`; [`Error::NotPrimary`]; an error for a tensor of another dtype
    /// and for one that is not aligned; what the driver says. The tensor is dropped.
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

    /// As [`into_cuda`](Self::into_cuda), for a tensor that is in the order of another stream, on which both parties
    /// have agreed.
    ///
    /// # Errors
    /// As [`into_cuda`](Self::into_cuda), [`Error::OtherContext`], and [`Error::PerThread`].
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use cudarc::driver::CudaStream;
    /// use dlbridge_cuda::{CudaTensor, Result, TensorExt};
    ///
    /// fn mine(tensor: dlbridge::Tensor, agreed: &Arc<CudaStream>) -> Result<CudaTensor<f32>> {
    ///     tensor.into_cuda_on(agreed, agreed) // nobody waits for anybody
    /// }
    /// ```
    fn into_cuda_on<T: Element>(
        self,
        stream: &Arc<CudaStream>,
        order: &Arc<CudaStream>,
    ) -> Result<CudaTensor<T>>;

    /// As [`into_cuda`](Self::into_cuda), as bytes, for elements of any dtype.
    ///
    /// # Errors
    /// As [`into_cuda`](Self::into_cuda), but for what concerns the elements.
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

    /// Takes the memory out again that a tensor was made of by [`SliceExt::into_tensor`]: whole, whatever part of it the
    /// tensor is. Its stream waits for the one in whose order the tensor was. The tensor comes back if it was made
    /// of something else, if others share the memory, and if not every byte is an element of the type, as with
    /// `bool`: nobody looks at what a consumer has written. It comes back, too, if neither a stream nor the host can
    /// be made to wait for what is under way with the memory; an error waits in the context then.
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

    /// A copy of the elements on the host, in C order, made on the stream; it is done when this returns. All bytes
    /// between the lowest and the highest are fetched, through pinned memory.
    ///
    /// # Errors
    /// [`Error::NotCuda`]; [`Error::OtherDevice`]; [`Error::NotPrimary`]; what the driver says.
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

    /// A copy on the stream's device, which may be another one, made on the stream; the host does not wait for it. All
    /// bytes between the lowest and the highest are copied, and the strides stay.
    ///
    /// # Errors
    /// [`Error::NotCuda`]; [`Error::NotPrimary`]; what the driver says.
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
        if dtype != T::DTYPE {
            return Err(dlbridge::Error::DataType { found: dtype, expected: T::DTYPE }.into());
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
                // SAFETY: as it was before: the owner has kept the memory.
                let tensor =
                    unsafe { Tensor::from_raw_parts(owner, parts, &shape, Some(&strides)) };
                Err(tensor.expect("it was a tensor of these parts"))
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
