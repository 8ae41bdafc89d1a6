//! A tensor with any number of handles, which are counted in its block.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr;

use crate::Tensor;
use crate::block::Managed;

/// A tensor with any number of handles. Each handle can export it.
///
/// [`Tensor::into_shared`] makes it, and a clone is a further handle on the same tensor. The owner of the memory is
/// dropped with the last handle and the last export. It does what `Arc<Tensor>` would do, but counts in the block of
/// the tensor, so it allocates nothing.
///
/// A handle has the size of a pointer, is `Send` and `Sync`, and dereferences to [`Tensor`].
///
/// ```
/// use dlbridge::{ArcTensor, Tensor};
///
/// let tensor: ArcTensor = Tensor::from(vec![1.0_f32, 2.0]).into_shared();
/// let second = tensor.clone();
/// assert_eq!(second.data(), tensor.data());
///
/// let managed = tensor.to_raw();      // for a consumer in C
/// drop((tensor, second));
/// // SAFETY: `to_raw` returned it, and its deleter is called once.
/// unsafe { (*managed).deleter.unwrap()(managed) };
/// ```
pub struct ArcTensor(ManuallyDrop<Tensor>);

impl Tensor {
    /// Makes a tensor that can be exported any number of times. It allocates nothing.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let tensor = Tensor::from(vec![1_u8, 2]).into_shared();
    /// let (first, second) = (tensor.share(), tensor.share());
    /// assert_eq!(first.data(), second.data());
    /// ```
    #[inline]
    pub fn into_shared(self) -> ArcTensor {
        ArcTensor(ManuallyDrop::new(self))
    }
}

impl From<Tensor> for ArcTensor {
    #[inline]
    fn from(tensor: Tensor) -> Self {
        tensor.into_shared()
    }
}

impl ArcTensor {
    /// Returns the tensor, unless another handle on it exists or an export keeps it; then it returns `self`.
    ///
    /// An export or a [`share`](Self::share) of a tensor that itself shares memory keeps the source of that memory
    /// instead.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let tensor = Tensor::from([1, 2]).into_shared();
    /// let second = tensor.clone();
    /// let tensor = tensor.try_into_tensor().unwrap_err();     // `second` exists
    /// drop(second);
    /// let mut tensor = tensor.try_into_tensor().unwrap();
    /// tensor.view_mut::<i32>()?[0] = 10;
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn try_into_tensor(self) -> Result<Tensor, Self> {
        if !self.is_sole() {
            return Err(self);
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: Count: the only handle, which ends here without its drop.
        Ok(unsafe { ManuallyDrop::take(&mut this.0) })
    }

    /// Returns the tensor by `&mut`, unless another handle on it exists or an export keeps it, as for
    /// [`try_into_tensor`](Self::try_into_tensor).
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let mut tensor = Tensor::from([1, 2]).into_shared();
    /// tensor.get_mut().unwrap().view_mut::<i32>()?[0] = 10;
    /// let _second = tensor.clone();
    /// assert!(tensor.get_mut().is_none());
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn get_mut(&mut self) -> Option<&mut Tensor> {
        self.is_sole().then(|| &mut *self.0)
    }

    /// Returns true if no other handle on the tensor exists and no export keeps it, as for
    /// [`try_into_tensor`](Self::try_into_tensor).
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let tensor = Tensor::from([1, 2]).into_shared();
    /// assert!(tensor.is_sole());
    /// let second = tensor.clone();
    /// assert!(!tensor.is_sole());
    /// # drop(second);
    /// ```
    #[inline]
    pub fn is_sole(&self) -> bool {
        self.managed().is_sole()
    }

    /// Returns true for two handles on the same tensor.
    ///
    /// ```
    /// use dlbridge::{ArcTensor, Tensor};
    ///
    /// let tensor = Tensor::from([1, 2]).into_shared();
    /// assert!(ArcTensor::ptr_eq(&tensor, &tensor.clone()));
    /// assert!(!ArcTensor::ptr_eq(&tensor, &tensor.share().into_shared()));
    /// ```
    pub fn ptr_eq(&self, other: &Self) -> bool {
        ptr::eq(self.as_raw(), other.as_raw())
    }
}

impl Clone for ArcTensor {
    #[inline]
    fn clone(&self) -> Self {
        self.managed().count_up();
        // SAFETY: Count: the handle that was just counted.
        Self(ManuallyDrop::new(Tensor::from_managed(unsafe { Managed::duplicate(self.managed()) })))
    }
}

impl Drop for ArcTensor {
    #[inline]
    fn drop(&mut self) {
        if self.managed().count_down() {
            // SAFETY: Count: the last handle, which is not used again.
            unsafe { ManuallyDrop::drop(&mut self.0) }
        }
    }
}

impl Deref for ArcTensor {
    type Target = Tensor;

    #[inline]
    fn deref(&self) -> &Tensor {
        &self.0
    }
}

impl fmt::Debug for ArcTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
