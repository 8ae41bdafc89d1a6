//! Iterators over the elements of typed views.

use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::layout::{Dims, Offsets};

/// The elements of a view in index order, the last axis fastest.
///
/// Made by [`TensorView::iter`](crate::TensorView::iter).
///
/// ```
/// let tensor = dlbridge::Tensor::from([[1, 2], [3, 4]]);
/// let elements: dlbridge::Iter<'_, i32> = tensor.view()?.into_iter();
/// assert!(elements.eq(&[1, 2, 3, 4]));
/// # Ok::<(), dlbridge::Error>(())
/// ```
pub struct Iter<'a, T> {
    first: NonNull<T>,
    offsets: Offsets,
    memory: PhantomData<&'a [T]>,
}

/// The elements of a mutable view in index order, the last axis fastest.
///
/// Made by [`TensorViewMut::iter_mut`](crate::TensorViewMut::iter_mut).
///
/// ```
/// let mut tensor = dlbridge::Tensor::from([[1, 2], [3, 4]]);
/// let elements: dlbridge::IterMut<'_, i32> = tensor.view_mut()?.into_iter();
/// elements.for_each(|x| *x *= 10);
/// assert_eq!(tensor.view::<i32>()?.as_slice(), Some(&[10, 20, 30, 40][..]));
/// # Ok::<(), dlbridge::Error>(())
/// ```
pub struct IterMut<'a, T> {
    first: NonNull<T>,
    offsets: Offsets,
    memory: PhantomData<&'a mut [T]>,
}

impl<'a, T> Iter<'a, T> {
    /// # Safety
    /// View holds for `first` and the dims, for `'a`.
    pub(crate) unsafe fn new(first: NonNull<T>, dims: &Dims<'_>) -> Self {
        Self { first, offsets: Offsets::new(dims), memory: PhantomData }
    }
}

impl<'a, T> IterMut<'a, T> {
    /// # Safety
    /// View of a mutable view holds for `first` and the dims, for `'a`.
    pub(crate) unsafe fn new(first: NonNull<T>, dims: &Dims<'_>) -> Self {
        Self { first, offsets: Offsets::new(dims), memory: PhantomData }
    }
}

macro_rules! iterator {
    ($name:ident, $item:ty, $as_item:ident, $sync:ident) => {
        // SAFETY: the iterator returns `&T` or `&mut T` on the thread that it was sent to, as `T: Sync` or `T: Send`
        // allows (`$sync`).
        unsafe impl<T: $sync> Send for $name<'_, T> {}
        // SAFETY: a shared `Iter` can be cloned, and the clone returns `&T`, as `T: Sync` allows. A shared `IterMut`
        // does not return elements.
        unsafe impl<T: Sync> Sync for $name<'_, T> {}

        impl<'a, T> Iterator for $name<'a, T> {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<$item> {
                let offset = self.offsets.next()?;
                // SAFETY: View: the offset of an index within the shape, which the iterator yields once.
                Some(unsafe { self.first.offset(offset).$as_item() })
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.offsets.size_hint()
            }

            #[inline]
            fn fold<B, F: FnMut(B, $item) -> B>(self, init: B, mut f: F) -> B {
                let first = self.first;
                self.offsets.fold(init, |folded, offset| {
                    // SAFETY: View: the offset of an index within the shape. The iterator is consumed, so it yields
                    // each of these once.
                    f(folded, unsafe { first.offset(offset).$as_item() })
                })
            }
        }

        impl<T> ExactSizeIterator for $name<'_, T> {}
        impl<T> FusedIterator for $name<'_, T> {}

        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("left", &self.offsets.len())
                    .finish_non_exhaustive()
            }
        }
    };
}

iterator!(Iter, &'a T, as_ref, Sync);
iterator!(IterMut, &'a mut T, as_mut, Send);

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Self { first: self.first, offsets: self.offsets.clone(), memory: PhantomData }
    }
}
