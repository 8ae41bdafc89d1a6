//! The methods of views that need no unsafe code; `raw.rs` has the memory access.

use core::ops::{Index, IndexMut};

use crate::{Element, Error, Iter, IterMut, TensorView, TensorViewMut};

impl<T> TensorView<'_, T> {
    /// The number of dimensions.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from([[0_u8; 3]; 2]);
    /// assert_eq!(tensor.view::<u8>()?.ndim(), 2);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[inline]
    pub fn ndim(&self) -> usize {
        self.shape().len()
    }

    /// Returns true if the view is empty.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from(Vec::<u8>::new());
    /// assert!(tensor.view::<u8>()?.is_empty());
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> TensorViewMut<'_, T> {
    /// The extents, in elements.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from([[0_u8; 3]; 2]);
    /// assert_eq!(tensor.view_mut::<u8>()?.shape(), [2, 3]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn shape(&self) -> &[i64] {
        self.as_shared().shape()
    }

    /// The strides, in elements.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from([[0_u8; 3]; 2]);
    /// assert_eq!(tensor.view_mut::<u8>()?.strides(), [3, 1]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn strides(&self) -> &[i64] {
        self.as_shared().strides()
    }

    /// The number of dimensions.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from([[0_u8; 3]; 2]);
    /// assert_eq!(tensor.view_mut::<u8>()?.ndim(), 2);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[inline]
    pub fn ndim(&self) -> usize {
        self.shape().len()
    }

    /// The number of elements.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from([[0_u8; 3]; 2]);
    /// assert_eq!(tensor.view_mut::<u8>()?.len(), 6);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.as_shared().len()
    }

    /// Returns true if the view is empty.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(Vec::<u8>::new());
    /// assert!(tensor.view_mut::<u8>()?.is_empty());
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at an index, which has one number for each dimension.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// assert_eq!(tensor.view_mut::<i32>()?.get([1]), Some(&2));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn get(&self, index: impl AsRef<[usize]>) -> Option<&T> {
        self.as_view().get(index)
    }

    /// The elements in index order, the last axis fastest.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
    /// assert!(tensor.view_mut::<i32>()?.iter().eq(&[1, 2]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        self.as_view().iter()
    }
}

/// Implements indexing by types that convert to an array of indices.
macro_rules! index {
    ($([$($generics:tt)*] $index:ty, $given:pat => $array:expr;)*) => {$(
        /// Panics unless the index is within the shape.
        impl<T, $($generics)*> Index<$index> for TensorView<'_, T> {
            type Output = T;

            #[track_caller]
            fn index(&self, $given: $index) -> &T {
                let index = $array;
                match self.get(index) {
                    Some(element) => element,
                    None => outside(&index, self.shape()),
                }
            }
        }

        /// Panics unless the index is within the shape.
        impl<T, $($generics)*> Index<$index> for TensorViewMut<'_, T> {
            type Output = T;

            #[track_caller]
            fn index(&self, $given: $index) -> &T {
                let index = $array;
                match self.as_shared().get(index) {
                    Some(element) => element,
                    None => outside(&index, self.shape()),
                }
            }
        }

        /// Panics unless the index is within the shape.
        impl<T, $($generics)*> IndexMut<$index> for TensorViewMut<'_, T> {
            #[track_caller]
            fn index_mut(&mut self, $given: $index) -> &mut T {
                let index = $array;
                if self.as_shared().get(index).is_none() {
                    outside(&index, self.shape());
                }
                self.get_mut(index).expect("the index was checked")
            }
        }
    )*};
}

index! {
    [const N: usize] [usize; N], index => index;
    [] usize, i => [i];
    [] (usize, usize), (i, j) => [i, j];
    [] (usize, usize, usize), (i, j, k) => [i, j, k];
    [] (usize, usize, usize, usize), (i, j, k, l) => [i, j, k, l];
    [] (usize, usize, usize, usize, usize), (i, j, k, l, m) => [i, j, k, l, m];
    [] (usize, usize, usize, usize, usize, usize), (i, j, k, l, m, n) => [i, j, k, l, m, n];
}

#[cold]
#[track_caller]
fn outside(index: &[usize], shape: &[i64]) -> ! {
    panic!("index {index:?} is outside of shape {shape:?}")
}

/// The elements as a slice, if they are contiguous in C order.
impl<'a, T: Element> TryFrom<TensorView<'a, T>> for &'a [T] {
    type Error = Error;

    fn try_from(view: TensorView<'a, T>) -> Result<Self, Error> {
        view.as_slice().ok_or(Error::NotContiguous)
    }
}

/// The elements as a slice, if they are contiguous in C order.
impl<'a, T: Element> TryFrom<TensorViewMut<'a, T>> for &'a mut [T] {
    type Error = Error;

    fn try_from(view: TensorViewMut<'a, T>) -> Result<Self, Error> {
        view.into_mut_slice().ok_or(Error::NotContiguous)
    }
}

impl<'a, T> IntoIterator for TensorView<'a, T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &TensorView<'a, T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T> IntoIterator for TensorViewMut<'a, T> {
    type Item = &'a mut T;
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.into_iter_mut()
    }
}

impl<'a, T> IntoIterator for &'a TensorViewMut<'_, T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut TensorViewMut<'_, T> {
    type Item = &'a mut T;
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}
