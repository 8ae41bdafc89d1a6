//! A borrowed tensor whose memory an owner keeps: an owning tensor with the same description.

use core::ptr;

use dlbridge_sys::DLTensor;

use super::TensorRef;
use crate::block::{Draft, RawParts};
use crate::{Access, Tensor};

impl TensorRef<'_> {
    /// Makes a tensor over the same memory, which `owner` keeps alive; adapters use it. The layout was measured when the
    /// borrowed tensor was made, so it is not measured again.
    ///
    /// # Safety
    /// The contract of [`Tensor::from_raw_parts`](crate::Tensor::from_raw_parts), for the memory that this tensor
    /// describes.
    ///
    /// ```
    /// use dlbridge::{Access, TensorRef};
    ///
    /// let values: &'static [i32] = &[1, 2, 3, 4];
    /// let columns = TensorRef::from(values).reshape([2, 2])?.transpose();
    /// // SAFETY: the values are static, and never written.
    /// let tensor = unsafe { columns.with_owner(values, Access::Immutable) };
    /// assert_eq!(tensor.view::<i32>()?.to_vec(), [1, 3, 2, 4]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub unsafe fn with_owner<O: Send + 'static>(&self, owner: O, access: Access) -> Tensor {
        let (shape, strides) = (self.shape(), self.strides());
        let mut draft = Draft::new(owner, shape.len());
        draft.copy_dims(shape, strides);
        let parts = RawParts {
            data: if self.len == 0 { ptr::null_mut() } else { self.data },
            dtype: self.dtype,
            device: self.device,
            byte_offset: if self.len == 0 { 0 } else { self.byte_offset },
            access,
            subbyte_padded: self.subbyte_padded,
        };
        let description = DLTensor {
            data: parts.data,
            device: parts.device.into(),
            ndim: shape.len() as i32,
            dtype: parts.dtype.into(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: parts.byte_offset,
        };
        // SAFETY: the dims were just written. Layout and Dtype hold for the borrowed tensor (Ref), and the caller
        // guarantees Data, Calm, Exclusive, Immutable and Send.
        Tensor::from_managed(unsafe { draft.finish(description, parts.marks(), None, false) })
    }
}
