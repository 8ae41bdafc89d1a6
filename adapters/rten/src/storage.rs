//! The memory of a tensor as a storage of rten.

use std::ptr::NonNull;

use dlbridge::{Element, Error, Result, Tensor};
use rten_tensor::layout::{MutLayout, OverlapPolicy};
use rten_tensor::storage::{Storage, StorageMut};
use rten_tensor::{DynLayout, TensorBase};

/// A tensor as a read-only storage of rten, which keeps it alive.
/// [`TensorExt::into_rten`](crate::TensorExt::into_rten) makes it.
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_rten::{TensorExt, TensorStorage};
/// use rten_tensor::{NdLayout, TensorBase};
///
/// struct Model {
///     weights: TensorBase<TensorStorage<f32>, NdLayout<2>>,
/// }
///
/// let weights = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]).into_rten::<f32>()?;
/// let model = Model { weights: weights.into_rank::<2>().unwrap() };
/// assert_eq!(model.weights[[1, 0]], 3.0);
/// # Ok::<(), dlbridge::Error>(())
/// ```
pub struct TensorStorage<T> {
    /// Points at `len` elements of the tensor, each aligned, initialised, and not written by other code while the
    /// tensor lives; at none if the tensor is empty.
    ///
    /// The tensor is exclusive, so that this storage is its only holder, or immutable: `check_stable` accepted it.
    first: NonNull<T>,
    len: usize,
    /// Not touched until it is dropped.
    _tensor: Tensor,
}

/// An exclusive tensor as a writable storage of rten, which keeps it alive.
/// [`TensorExt::into_rten_mut`](crate::TensorExt::into_rten_mut) makes it.
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_rten::{TensorExt, TensorStorageMut};
/// use rten_tensor::{DynLayout, TensorBase};
///
/// fn clear(tensor: &mut TensorBase<TensorStorageMut<f32>, DynLayout>) {
///     tensor.fill(0.0);
/// }
///
/// clear(&mut Tensor::from(vec![1.0_f32]).into_rten_mut()?);
/// # Ok::<(), dlbridge::Error>(())
/// ```
pub struct TensorStorageMut<T>(TensorStorage<T>);

// SAFETY: the fields are a tensor, which is `Send`, and a pointer to its elements.
unsafe impl<T: Element> Send for TensorStorage<T> {}
// SAFETY: shared access reads the tensor, which is `Sync`, and elements, which are `Sync` too and which no other code
// writes (`first`).
unsafe impl<T: Element> Sync for TensorStorage<T> {}

// SAFETY: the pointer and the length describe elements in one piece of memory, aligned and initialised, which no
// other code writes: see `first`.
unsafe impl<T> Storage for TensorStorage<T> {
    type Elem = T;
    const MUTABLE: bool = false;

    fn len(&self) -> usize {
        self.len
    }

    fn as_ptr(&self) -> *const T {
        self.first.as_ptr()
    }
}

// SAFETY: the pointer and the length describe elements in one piece of memory, aligned and initialised
// (`TensorStorage::first`); the tensor is exclusive, and the trait is marked as mutable.
unsafe impl<T> Storage for TensorStorageMut<T> {
    type Elem = T;
    const MUTABLE: bool = true;

    fn len(&self) -> usize {
        self.0.len
    }

    fn as_ptr(&self) -> *const T {
        self.0.first.as_ptr()
    }
}

// SAFETY: `as_mut_ptr` returns the pointer of `as_ptr`. The tensor is exclusive, so a `&mut` of the storage is the only
// access.
unsafe impl<T> StorageMut for TensorStorageMut<T> {
    fn as_mut_ptr(&mut self) -> *mut T {
        self.0.first.as_ptr()
    }
}

impl<T: Element> TensorStorage<T> {
    /// Makes a tensor of rten for reading.
    ///
    /// # Safety
    /// The pointer is that of the first element of the tensor, and aligned. The tensor was found to have the dtype of
    /// `T` and this layout. Every bit pattern is a value of `T`. `Tensor::check_stable` accepts the tensor.
    pub(crate) unsafe fn over(
        first: NonNull<T>,
        layout: Filled,
        tensor: Tensor,
    ) -> TensorBase<Self, DynLayout> {
        let (len, layout) = (layout.len, layout.for_rten());
        TensorBase::from_storage_and_layout(Self { first, len, _tensor: tensor }, layout)
    }
}

impl<T: Element> TensorStorageMut<T> {
    /// Makes a tensor of rten for reading and writing.
    ///
    /// # Safety
    /// As [`TensorStorage::over`]; and the tensor is exclusive, and no two indices lead to one element.
    pub(crate) unsafe fn over(
        first: NonNull<T>,
        layout: Filled,
        tensor: Tensor,
    ) -> TensorBase<Self, DynLayout> {
        let (len, layout) = (layout.len, layout.for_rten());
        let storage = Self(TensorStorage { first, len, _tensor: tensor });
        TensorBase::from_storage_and_layout(storage, layout)
    }
}

/// A layout without gaps: each of the `len` places, starting with the first element, is an element.
pub(crate) struct Filled {
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    pub(crate) len: usize,
}

impl Filled {
    /// The layout of elements that exist.
    ///
    /// # Errors
    /// [`Error::NotContiguous`] for gaps and negative strides.
    pub(crate) fn of(shape: &[i64], strides: &[i64]) -> Result<Self> {
        let shape = extents(shape);
        let is_empty = shape.contains(&0);
        let mut layout = Self { strides: vec![0; shape.len()], shape, len: usize::from(!is_empty) };
        // A dimension of extent 1, or of an empty tensor, gets the stride of C order, which rten recognises.
        let mut next = 1_usize;
        for (axis, &extent) in layout.shape.iter().enumerate().rev() {
            if !is_empty && extent > 1 {
                next = strides[axis].try_into().map_err(|_| Error::NotContiguous)?;
            }
            layout.strides[axis] = next;
            next = next.saturating_mul(extent);
        }
        if !is_empty {
            layout.fill()?;
        }
        Ok(layout)
    }

    /// Counts the contiguous places, starting with the first element, that are elements.
    fn fill(&mut self) -> Result<()> {
        let axes = self.strides.iter().copied().zip(self.shape.iter().copied());
        let mut axes: Vec<_> = axes.filter(|&(_, extent)| extent > 1).collect();
        axes.sort_unstable();
        for (stride, extent) in axes {
            // The dimensions so far cover all places before `len`; this one repeats them at each of its steps.
            if stride > self.len {
                return Err(Error::NotContiguous);
            }
            self.len += (extent - 1) * stride;
        }
        Ok(())
    }

    fn for_rten(&self) -> DynLayout {
        let policy = OverlapPolicy::AllowOverlap;
        DynLayout::from_shape_and_strides(&self.shape, &self.strides, policy)
            .expect("any strides are allowed")
    }
}

/// The extents. If one is 0, the product of the others fits too, as in every tensor.
pub(crate) fn extents(shape: &[i64]) -> Vec<usize> {
    shape.iter().map(|&extent| extent as usize).collect()
}
