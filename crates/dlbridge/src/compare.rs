//! Comparison of views with each other and with the containers of `core` and `alloc`.

use alloc::vec::Vec;

use crate::{Element, Items, TensorRef, TensorView, TensorViewMut};

/// Compares shapes and elements. Strides do not matter.
///
/// ```
/// use dlbridge::Tensor;
///
/// let rows = Tensor::from([[1, 2], [3, 4]]);
/// let columns = Tensor::from_parts_strided(vec![1, 3, 2, 4], [2, 2], [1, 2], 0)?;
/// assert_eq!(rows.view::<i32>()?, columns.view::<i32>()?);
/// # Ok::<(), dlbridge::Error>(())
/// ```
impl<T: PartialEq<U>, U> PartialEq<TensorView<'_, U>> for TensorView<'_, T> {
    fn eq(&self, other: &TensorView<'_, U>) -> bool {
        if self.shape() != other.shape() {
            return false;
        }
        if let (Some(these), Some(those)) = (self.as_slice(), other.as_slice()) {
            return these == those;
        }
        // All indices of an axis that both repeat lead to the same elements.
        let mut strides = self.strides().iter().zip(other.strides());
        if let Some(axis) = strides.position(|strides| strides == (&0, &0))
            && let (Ok(these), Ok(those)) = (self.index_axis(axis, 0), other.index_axis(axis, 0))
        {
            return these == those;
        }
        self.iter().zip(other.iter()).all(|(this, that)| this == that)
    }
}

impl<T: Eq> Eq for TensorView<'_, T> {}

/// Compares shapes and elements. Strides do not matter.
impl<T: PartialEq<U>, U> PartialEq<TensorViewMut<'_, U>> for TensorViewMut<'_, T> {
    fn eq(&self, other: &TensorViewMut<'_, U>) -> bool {
        *self.as_shared() == *other.as_shared()
    }
}

impl<T: Eq> Eq for TensorViewMut<'_, T> {}

/// Compares shapes and elements. Strides do not matter.
impl<T: PartialEq<U>, U> PartialEq<TensorViewMut<'_, U>> for TensorView<'_, T> {
    fn eq(&self, other: &TensorViewMut<'_, U>) -> bool {
        *self == *other.as_shared()
    }
}

/// Compares shapes and elements. Strides do not matter.
impl<T: PartialEq<U>, U> PartialEq<TensorView<'_, U>> for TensorViewMut<'_, T> {
    fn eq(&self, other: &TensorView<'_, U>) -> bool {
        *self.as_shared() == *other
    }
}

/// Comparison with containers. A container has the shape of a tensor made of it.
macro_rules! containers {
    ($([$($generics:tt)*] $container:ty, $other:ident => $items:expr;)*) => {$(
        /// Compares the elements, and the shape with the length and the extents of nested arrays.
        ///
        /// ```
        /// let tensor = dlbridge::Tensor::from(vec![[1, 2], [3, 4], [5, 6]]);
        /// let view = tensor.view::<i32>()?;
        /// assert_eq!(view, [[1, 2], [3, 4], [5, 6]]);
        /// assert_ne!(view, [1, 2, 3, 4, 5, 6]);
        /// # Ok::<(), dlbridge::Error>(())
        /// ```
        impl<T: Element + PartialEq, I: Items<Element = T>, $($generics)*> PartialEq<$container> for TensorView<'_, T> {
            fn eq(&self, $other: &$container) -> bool {
                TensorRef::from($items).view::<T>().is_ok_and(|view| *self == view)
            }
        }

        /// Compares the elements, and the shape with the length and the extents of nested arrays.
        impl<T: Element + PartialEq, I: Items<Element = T>, $($generics)*> PartialEq<$container> for TensorViewMut<'_, T> {
            fn eq(&self, other: &$container) -> bool {
                *self.as_shared() == *other
            }
        }
    )*};
}

containers! {
    [] [I], other => other;
    [] &[I], other => *other;
    [const N: usize] [I; N], other => other;
    [] Vec<I>, other => other;
}
