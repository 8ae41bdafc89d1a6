//! Slices, transposes and other shapes of tensors, borrowed tensors and views, without a copy.

use core::ops::RangeBounds;

use crate::{Result, Tensor, TensorRef, TensorRefMut, TensorView, TensorViewMut};

/// The example of a method: the lines that make two rows and three columns, 1 to 6; their name; the call and its result.
macro_rules! example {
    ($make:literal, $name:literal, $call:literal) => {
        concat!(
            "```\n",
            $make,
            "\nassert_eq!(",
            $name,
            ".",
            $call,
            ");\n# Ok::<(), dlbridge::Error>(())\n```"
        )
    };
}

/// The same methods for tensors, borrowed tensors and views. Shared receivers are kept; owned and mutable ones are
/// consumed, also on an error. `$error` documents that for owners.
macro_rules! methods {
    ($([$($generics:tt)*] $type:ty, ($($receiver:tt)+) $this:ident, $make:literal, $name:literal, $error:literal;)*) => {$(
        impl<$($generics)*> $type {
            /// Keeps the indices of a range along an axis.
            ///
            /// # Errors
            /// [`Error::InvalidAxis`](crate::Error::InvalidAxis); [`Error::InvalidRange`](crate::Error::InvalidRange)
            /// if the range is not within the extent; [`Error::SubbytePacked`](crate::Error::SubbytePacked) if the
            /// slice would begin within a byte; and for a [`Tensor`], which can still return its whole owner,
            /// [`Error::InvalidElement`](crate::Error::InvalidElement) if an element is not a valid value of its type.
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, $name, "slice(1, 1..)?.shape(), [2, 2]")]
            pub fn slice($($receiver)+, axis: usize, range: impl RangeBounds<usize>) -> Result<Self> {
                $this.sliced(|dims| dims.slice(axis, range))
            }

            /// Keeps every `step`th index of an axis, from the first.
            ///
            /// # Errors
            /// [`Error::InvalidAxis`](crate::Error::InvalidAxis);
            /// [`Error::InvalidElement`](crate::Error::InvalidElement) as for [`slice`](Self::slice).
            ///
            /// # Panics
            /// If the step is 0.
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, $name, "step_by(1, 2)?.shape(), [2, 2]")]
            pub fn step_by($($receiver)+, axis: usize, step: usize) -> Result<Self> {
                $this.sliced(|dims| dims.step_by(axis, step))
            }

            /// Reverses an axis.
            ///
            /// # Errors
            /// [`Error::InvalidAxis`](crate::Error::InvalidAxis); [`Error::SubbytePacked`](crate::Error::SubbytePacked)
            /// if the new first element begins within a byte.
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, $name, "flip(0)?.strides(), [-3, 1]")]
            pub fn flip($($receiver)+, axis: usize) -> Result<Self> {
                $this.sliced(|dims| dims.flip(axis))
            }

            /// Selects one index of an axis and removes the axis.
            ///
            /// # Errors
            /// Those of [`slice`](Self::slice).
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, $name, "index_axis(0, 1)?.shape(), [3]")]
            pub fn index_axis($($receiver)+, axis: usize, index: usize) -> Result<Self> {
                $this.sliced(|dims| dims.index_axis(axis, index))
            }

            /// Inserts an axis of extent 1 before `axis`, or after the last one.
            ///
            /// # Errors
            /// [`Error::InvalidAxis`](crate::Error::InvalidAxis); [`Error::InvalidNdim`](crate::Error::InvalidNdim) if
            /// there are [`MAX_NDIM`](crate::MAX_NDIM) axes already.
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, $name, "insert_axis(2)?.shape(), [2, 3, 1]")]
            pub fn insert_axis($($receiver)+, axis: usize) -> Result<Self> {
                $this.sliced(|dims| dims.insert_axis(axis))
            }

            /// Reverses the order of the axes.
            ///
            #[doc = example!($make, $name, "transpose().shape(), [3, 2]")]
            #[must_use]
            pub fn transpose($($receiver)+) -> Self {
                $this.sliced(|dims| Ok(dims.transpose())).unwrap_or_else(|_| panic!("the elements stay the same"))
            }

            /// Reorders the axes: the first new axis is the one that `order` names first.
            ///
            /// # Errors
            /// [`Error::AxisCount`](crate::Error::AxisCount) unless each axis is named;
            /// [`Error::InvalidAxis`](crate::Error::InvalidAxis) and
            /// [`Error::RepeatedAxis`](crate::Error::RepeatedAxis).
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, $name, "permute([1, 0])?.strides(), [1, 3]")]
            pub fn permute($($receiver)+, order: impl AsRef<[usize]>) -> Result<Self> {
                $this.sliced(|dims| dims.permute(order.as_ref()))
            }

            /// Gives the same elements, in the same order, another shape.
            ///
            /// # Errors
            /// [`Error::ElementCount`](crate::Error::ElementCount) unless the shape has the same number of elements;
            /// [`Error::NotReshapable`](crate::Error::NotReshapable) if no strides give the elements that shape: then
            /// only a copy can have it.
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, $name, "reshape([6])?.strides(), [1]")]
            pub fn reshape($($receiver)+, shape: impl AsRef<[usize]>) -> Result<Self> {
                $this.sliced(|dims| dims.reshape(shape.as_ref()))
            }
        }
    )*};
}

methods! {
    [] Tensor, (self) self,
        "use dlbridge::Tensor;\n\n\
         let tensor = Tensor::from([[1, 2, 3], [4, 5, 6]]);",
        "tensor",
        "The tensor is dropped on an error; to keep it, try the call on its [`TensorRef`] first.";
    ['a, T] TensorView<'a, T>, (&self) self,
        "use dlbridge::Tensor;\n\n\
         let tensor = Tensor::from([[1, 2, 3], [4, 5, 6]]);\n\
         let view = tensor.view::<i32>()?;",
        "view", "";
    ['a, T] TensorViewMut<'a, T>, (self) self,
        "use dlbridge::Tensor;\n\n\
         let mut tensor = Tensor::from([[1, 2, 3], [4, 5, 6]]);\n\
         let view = tensor.view_mut::<i32>()?;",
        "view", "";
    ['a] TensorRef<'a>, (&self) self,
        "use dlbridge::{Tensor, TensorRef};\n\n\
         let tensor = Tensor::from([[1, 2, 3], [4, 5, 6]]);\n\
         let borrowed = TensorRef::from(&tensor);",
        "borrowed", "";
    ['a] TensorRefMut<'a>, (self) self,
        "use dlbridge::{Tensor, TensorRefMut};\n\n\
         let mut tensor = Tensor::from([[1, 2, 3], [4, 5, 6]]);\n\
         let borrowed = TensorRefMut::try_from(&mut tensor)?;",
        "borrowed", "";
}

impl Tensor {
    /// Gives the elements of a tensor in C order any extents and strides, in elements, from the first on: a transposed or
    /// repeated layout that a file or message describes.
    ///
    /// # Errors
    /// [`Error::NotContiguous`](crate::Error::NotContiguous) for another order of this tensor;
    /// [`Error::StridesLength`](crate::Error::StridesLength) unless there is one stride per dimension;
    /// [`Error::OutOfBounds`](crate::Error::OutOfBounds) if an index would lead outside the elements; those of
    /// [`slice`](Self::slice). The tensor is dropped.
    ///
    /// ```
    /// let column = dlbridge::Tensor::from([1, 2, 3, 4]).as_strided([2, 2], [1, 2])?;
    /// assert_eq!(column.view::<i32>()?.to_vec(), [1, 3, 2, 4]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn as_strided(
        self,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
    ) -> Result<Self> {
        self.sliced(|dims| dims.as_strided(shape.as_ref(), strides.as_ref()))
    }
}

/// Only shared elements can be repeated.
macro_rules! repeated {
    ($([$($generics:tt)*] $type:ty, $make:literal, $name:literal;)*) => {$(
        impl<$($generics)*> $type {
            /// Repeats axes of extent 1, and adds repeated axes in front, to reach a larger shape. Repeated axes have a
            /// stride of 0.
            ///
            /// # Errors
            /// [`Error::AxisCount`](crate::Error::AxisCount) for fewer dimensions;
            /// [`Error::Extent`](crate::Error::Extent) for another extent on an axis that has more than one index;
            /// [`Error::TooLarge`](crate::Error::TooLarge).
            ///
            #[doc = example!($make, $name, "broadcast_to([4, 2, 3])?.strides(), [0, 3, 1]")]
            pub fn broadcast_to(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
                self.sliced(|dims| dims.broadcast_to(shape.as_ref()))
            }
        }
    )*};
}

repeated! {
    ['a, T] TensorView<'a, T>,
        "use dlbridge::Tensor;\n\n\
         let tensor = Tensor::from([[1, 2, 3], [4, 5, 6]]);\n\
         let view = tensor.view::<i32>()?;",
        "view";
    ['a] TensorRef<'a>,
        "use dlbridge::{Tensor, TensorRef};\n\n\
         let tensor = Tensor::from([[1, 2, 3], [4, 5, 6]]);\n\
         let borrowed = TensorRef::from(&tensor);",
        "borrowed";
}
