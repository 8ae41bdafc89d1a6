//! Tensors as somebody needs them, copied only if they are not so already; and why they were.

use alloc::borrow::Cow;
use core::fmt;

use crate::{Access, Result, Tensor, TensorRef, TensorView, layout};

/// Why elements were copied.
///
/// ```
/// use dlbridge::{CopyReason, Tensor};
///
/// let columns = Tensor::from_parts_strided(vec![1, 2, 3, 4], [2, 2], [1, 2], 0)?;
/// let (rows, copied) = columns.into_contiguous()?;
/// assert_eq!(copied, Some(CopyReason::NotContiguous));
/// assert_eq!(rows.view::<i32>()?.as_slice(), Some(&[1, 3, 2, 4][..]));
/// # Ok::<(), dlbridge::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyReason {
    /// The elements were not adjacent in C order.
    NotContiguous,
    /// The data was not aligned as asked.
    Misaligned {
        /// The address of the first element.
        address: usize,
        /// The alignment asked for, in bytes.
        required: usize,
    },
    /// The data must not be written.
    ReadOnly,
    /// Somebody else may read or write the data too.
    Shared,
    /// Two indices lead to the same element.
    Overlapping,
}

impl fmt::Display for CopyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotContiguous => write!(f, "the elements were not adjacent in C order"),
            Self::Misaligned { address, required } => {
                write!(f, "the data at {address:#x} was not aligned to {required} bytes")
            }
            Self::ReadOnly => write!(f, "the data was read-only"),
            Self::Shared => write!(f, "the data was shared with its producer"),
            Self::Overlapping => write!(f, "elements may overlap with the strides it had"),
        }
    }
}

impl Tensor {
    /// The tensor with its elements adjacent in C order, and why they were copied, if they were.
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

    /// The tensor with its first element at a multiple of `alignment` bytes, and why it was copied,
    /// if it was. A copy is in C order.
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

    /// The tensor, to be viewed mutably, and why it was copied, if it was: unless it is
    /// [`Access::Exclusive`] and no two indices lead to one element. A copy is in C order.
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
    /// The elements as one slice: borrowed if they are adjacent in C order, copied if not.
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
