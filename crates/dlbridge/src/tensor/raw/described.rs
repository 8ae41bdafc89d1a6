//! Tensors with the description of another one: over memory that an owner keeps, or with a further value to keep.

use core::ptr;

use dlbridge_sys::DLTensor;

use crate::block::{Builder, Managed, RawParts};
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
        let mut builder = Builder::new(owner, shape.len());
        builder.copy_dims(shape, strides);
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
        Self::from_managed(unsafe { builder.finish(description, parts.marks(), None, false) })
    }

    /// Makes a tensor over the same memory that keeps a value alive too, such as the session that counts its tensors.
    ///
    /// Both are dropped with the result, in no fixed order: in a long chain of owners a tensor is dropped late. So a value
    /// that the owner needs in its own drop belongs into that owner. The result has another owner, so
    /// [`try_into_owner`](Tensor::try_into_owner) does not return the first one.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use dlbridge::Tensor;
    ///
    /// let session = Arc::new("a session");
    /// let tensor = Tensor::from(vec![1_u8, 2]).with_keepalive(Arc::clone(&session));
    /// assert_eq!(tensor.view::<u8>()?.to_vec(), [1, 2]);
    /// assert_eq!(Arc::strong_count(&session), 2);
    /// drop(tensor);
    /// assert_eq!(Arc::strong_count(&session), 1);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn with_keepalive<K: Send + 'static>(self, kept: K) -> Self {
        #[expect(dead_code, reason = "kept for what they own")]
        struct Kept<K>(Managed, K);

        let managed = self.into_managed();
        let (marks, description) = (managed.marks(), *managed.tensor());
        let builder = Builder::new(Kept(managed, kept), 0);
        // SAFETY: Dims, Layout, Data, Calm, Exclusive, Immutable, Dtype and Send hold for `managed`, whose description and
        // marks these are. The owner keeps `managed`, the only handle on its block (Count), so they hold as long as it.
        Self::from_managed(unsafe { builder.finish_with_dims(description, marks) })
    }
}
