//! A tensor with the description of a borrowed one, whose memory an owner keeps.

use core::ptr;

use dlbridge_sys::DLTensor;

use crate::block::{Draft, RawParts};
use crate::{Access, Tensor, TensorRef};

impl Tensor {
    /// Makes a tensor over the memory that a borrowed tensor describes, which `owner` keeps alive; adapters use it. The
    /// layout was measured when the borrowed tensor was made, so it is not measured again.
    ///
    /// # Safety
    /// The contract of [`Tensor::from_raw_parts`], for the memory that `described` describes.
    ///
    /// ```
    /// use dlbridge::{Access, Tensor, TensorRef};
    ///
    /// let values: &'static [i32] = &[1, 2, 3, 4];
    /// let columns = TensorRef::from(values).reshape([2, 2])?.transpose();
    /// // SAFETY: the values are static, and never written.
    /// let tensor = unsafe { Tensor::from_described(values, &columns, Access::Immutable) };
    /// assert_eq!(tensor.view::<i32>()?.to_vec(), [1, 3, 2, 4]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub unsafe fn from_described<O: Send + 'static>(
        owner: O,
        described: &TensorRef<'_>,
        access: Access,
    ) -> Self {
        let (shape, strides) = (described.shape(), described.strides());
        let mut draft = Draft::new(owner, shape.len());
        draft.copy_dims(shape, strides);
        let (data, byte_offset) = match described.is_empty() {
            true => (ptr::null_mut(), 0),
            false => (described.data(), described.byte_offset()),
        };
        let parts = RawParts {
            access,
            subbyte_padded: described.is_subbyte_padded(),
            ..RawParts::new(data, described.dtype())
        };
        let description = DLTensor {
            data,
            device: described.device().into(),
            ndim: shape.len() as i32,
            dtype: described.dtype().into(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset,
        };
        // SAFETY: the dims were just written. Layout and Dtype hold for the borrowed tensor (Ref), and the caller
        // guarantees Data, Calm, Exclusive, Immutable and Send.
        Self::from_managed(unsafe { draft.finish(description, parts.marks(), None, false) })
    }
}
