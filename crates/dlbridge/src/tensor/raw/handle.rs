//! The type of owned tensors: a handle on a described block.

use crate::block::Managed;

/// A tensor that owns its memory, through a Rust value or a producer.
///
/// It has the size of a pointer, and is `Send` and `Sync`. Dropping it drops the owner, or calls the producer's
/// deleter, exactly once.
///
/// ```
/// use dlbridge::Tensor;
///
/// let tensor = Tensor::from(vec![1.0_f32, 2.0, 3.0]);
/// assert_eq!(tensor.shape(), [3]);
/// assert_eq!(tensor.view::<f32>()?.as_slice(), Some(&[1.0, 2.0, 3.0][..]));
/// assert_eq!(size_of::<Tensor>(), size_of::<usize>());
/// # Ok::<(), dlbridge::Error>(())
/// ```
///
/// # A second tensor
///
/// `Tensor` has no `Clone`, because there are two meanings: [`ArcTensor::share`](crate::ArcTensor::share) makes a
/// read-only tensor over the same memory, [`Tensor::to_copy`] one over memory of its own. Equality has two meanings
/// too, so compare views.
///
/// ```
/// use dlbridge::Tensor;
///
/// let tensor = Tensor::from([1, 2, 3]).into_shared();
/// let (shared, copy) = (tensor.share(), tensor.to_copy()?);
/// assert_eq!(shared.data(), tensor.data());
/// assert_ne!(copy.data(), tensor.data());
/// assert_eq!(copy.view::<i32>()?, tensor.view::<i32>()?);
/// # Ok::<(), dlbridge::Error>(())
/// ```
///
/// # Borrowed elements
///
/// A consumer may keep a tensor for ever, so a tensor owns its elements: `Tensor::from(&values[..])` compiles for a
/// `'static` slice only. To borrow elements for a call, make a [`TensorRef`](crate::TensorRef):
///
/// ```
/// use dlbridge::TensorRef;
///
/// let values = vec![1.0_f32, 2.0];
/// let borrowed = TensorRef::from(&values[..]);
/// assert_eq!(borrowed.shape(), [2]);
/// ```
pub struct Tensor(Managed);

impl Tensor {
    #[inline]
    pub(crate) fn from_managed(managed: Managed) -> Self {
        Self(managed)
    }

    #[inline]
    pub(crate) fn into_managed(self) -> Managed {
        self.0
    }

    #[inline]
    pub(crate) fn managed(&self) -> &Managed {
        &self.0
    }

    #[inline]
    pub(crate) fn managed_mut(&mut self) -> &mut Managed {
        &mut self.0
    }
}
