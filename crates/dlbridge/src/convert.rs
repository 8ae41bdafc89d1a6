//! Gives tensors a property that the caller needs, with a copy only if they lack it.

use alloc::borrow::Cow;

use crate::{Access, CopyReason, Result, Tensor, TensorRef, TensorView, layout};

impl Tensor {
    /// Returns the tensor contiguous in C order, and the reason for the copy if one was needed.
    ///
    /// # Errors
    /// Those of [`Tensor::to_copy`]. The tensor is dropped then.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let (rows, copied) = Tensor::from([[1, 2], [3, 4]]).into_contiguous()?;
    /// assert_eq!(copied, None);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn into_contiguous(self) -> Result<(Self, Option<CopyReason>)> {
        let reason = (!self.is_c_contiguous()).then_some(CopyReason::NotContiguous);
        self.copied_for(reason)
    }

    /// Returns the tensor with its first element at a multiple of `alignment` bytes, and the reason for the copy if one
    /// was needed. A copy is in C order.
    ///
    /// # Errors
    /// Those of [`Tensor::to_copy`]. The tensor is dropped then.
    ///
    /// # Panics
    /// If the alignment is not a power of two.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let (aligned, copied) = Tensor::from(vec![1.0_f32; 1000]).into_aligned(4096)?;
    /// assert_eq!(aligned.data().addr() % 4096, 0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn into_aligned(self, alignment: usize) -> Result<(Self, Option<CopyReason>)> {
        assert!(alignment.is_power_of_two(), "cannot align to {alignment}");
        let (address, required) = (self.data().addr(), alignment);
        let misaligned = self.device().device_type().is_addressable() && address % alignment != 0;
        match misaligned {
            false => Ok((self, None)),
            true => {
                let copy = TensorRef::from(&self).to_aligned_copy(alignment)?;
                Ok((copy, Some(CopyReason::Misaligned { address, required })))
            }
        }
    }

    /// Returns a tensor that can be viewed mutably, and the reason for the copy if one was needed. A tensor is copied
    /// unless it is [`Access::Exclusive`] and no two indices lead to one element. A copy is in C order.
    ///
    /// # Errors
    /// Those of [`Tensor::to_copy`]. The tensor is dropped then.
    ///
    /// ```
    /// use dlbridge::{CopyReason, Tensor};
    ///
    /// let (mut tensor, copied) = Tensor::from(&[1, 2, 3][..]).into_exclusive()?;
    /// assert_eq!(copied, Some(CopyReason::ReadOnly));
    /// tensor.view_mut::<i32>()?[[0]] = 10;
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn into_exclusive(self) -> Result<(Self, Option<CopyReason>)> {
        let reason = match self.access() {
            Access::ReadOnly | Access::Immutable => Some(CopyReason::ReadOnly),
            Access::Shared => Some(CopyReason::Shared),
            Access::Exclusive => {
                layout::may_overlap(self.shape(), self.strides()).then_some(CopyReason::Overlapping)
            }
        };
        self.copied_for(reason)
    }

    fn copied_for(self, reason: Option<CopyReason>) -> Result<(Self, Option<CopyReason>)> {
        let tensor = if reason.is_some() { self.to_copy()? } else { self };
        Ok((tensor, reason))
    }
}

impl<'a, T: Copy> TensorView<'a, T> {
    /// The elements as one slice: borrowed if they are contiguous in C order, copied if not.
    ///
    /// ```
    /// use std::borrow::Cow;
    ///
    /// let tensor = dlbridge::Tensor::from([[1, 2], [3, 4]]);
    /// let view = tensor.view::<i32>()?;
    /// assert!(matches!(view.to_contiguous(), Cow::Borrowed(&[1, 2, 3, 4])));
    /// assert!(matches!(view.transpose().to_contiguous(), Cow::Owned(_)));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn to_contiguous(&self) -> Cow<'a, [T]> {
        self.as_slice().map_or_else(|| Cow::Owned(self.to_vec()), Cow::Borrowed)
    }
}
