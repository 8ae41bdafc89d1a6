//! Slices, transposes and other shapes of tensors and of what is borrowed of them. No element is
//! copied.

use core::ops::RangeBounds;

use crate::{Result, Tensor, TensorRef, TensorRefMut, TensorView, TensorViewMut};

/// The example of a method: what it does to a view of two rows and three columns, 1 to 6.
macro_rules! example {
    ($make:literal, $line:literal) => {
        concat!(
            "```\nuse dlbridge::{Tensor, TensorRef, TensorRefMut};\n\n",
            "let mut tensor = Tensor::from([[1, 2, 3], [4, 5, 6]]);\nlet view = ",
            $make,
            ";\n",
            $line,
            "\n",
            "# Ok::<(), dlbridge::Error>(())\n```"
        )
    };
}

/// The same methods for tensors, borrowed ones and views. What is shared is kept, what is owned or
/// mutable is consumed, also on an error, which `$error` says of an owner.
macro_rules! methods {
    ($([$($generics:tt)*] $type:ty, ($($receiver:tt)+) $this:ident, $make:literal, $error:literal;)*) => {$(
        impl<$($generics)*> $type {
            /// The indices of a range along an axis.
            ///
            /// # Errors
            /// [`Error::InvalidAxis`](crate::Error::InvalidAxis); [`Error::InvalidRange`](crate::Error::InvalidRange)
            /// if the range is not within the extent; [`Error::SubbytePacked`](crate::Error::SubbytePacked) if the
            /// slice would begin within a byte; and of a [`Tensor`], whose owner can be taken out whole later,
            /// [`Error::InvalidElement`](crate::Error::InvalidElement) if an element is no value of its type.
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, "assert_eq!(view.slice(1, 1..)?.shape(), [2, 2]);")]
            pub fn slice($($receiver)+, axis: usize, range: impl RangeBounds<usize>) -> Result<Self> {
                $this.sliced(|dims| dims.slice(axis, range))
            }

            /// Every `step`th index of an axis, from the first.
            ///
            /// # Errors
            /// [`Error::InvalidAxis`](crate::Error::InvalidAxis); [`Error::InvalidElement`](crate::Error::InvalidElement)
            /// as of [`slice`](Self::slice).
            ///
            /// # Panics
            /// If the step is 0.
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, "assert_eq!(view.step_by(1, 2)?.shape(), [2, 2]);")]
            pub fn step_by($($receiver)+, axis: usize, step: usize) -> Result<Self> {
                $this.sliced(|dims| dims.step_by(axis, step))
            }

            /// An axis from its end to its beginning.
            ///
            /// # Errors
            /// [`Error::InvalidAxis`](crate::Error::InvalidAxis); [`Error::SubbytePacked`](crate::Error::SubbytePacked)
            /// if the new first element begins within a byte.
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, "assert_eq!(view.flip(0)?.strides(), [-3, 1]);")]
            pub fn flip($($receiver)+, axis: usize) -> Result<Self> {
                $this.sliced(|dims| dims.flip(axis))
            }

            /// One index of an axis, which goes.
            ///
            /// # Errors
            /// Those of [`slice`](Self::slice).
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, "assert_eq!(view.index_axis(0, 1)?.shape(), [3]);")]
            pub fn index_axis($($receiver)+, axis: usize, index: usize) -> Result<Self> {
                $this.sliced(|dims| dims.index_axis(axis, index))
            }

            /// A new axis of extent 1, in front of `axis`, or behind the last one.
            ///
            /// # Errors
            /// [`Error::InvalidAxis`](crate::Error::InvalidAxis); [`Error::InvalidNdim`](crate::Error::InvalidNdim) if
            /// there are [`MAX_NDIM`](crate::MAX_NDIM) axes already.
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, "assert_eq!(view.insert_axis(2)?.shape(), [2, 3, 1]);")]
            pub fn insert_axis($($receiver)+, axis: usize) -> Result<Self> {
                $this.sliced(|dims| dims.insert_axis(axis))
            }

            /// The axes the other way round.
            ///
            #[doc = example!($make, "assert_eq!(view.transpose().shape(), [3, 2]);")]
            #[must_use]
            pub fn transpose($($receiver)+) -> Self {
                $this.sliced(|dims| Ok(dims.transpose())).expect("the elements stay the same")
            }

            /// The axes in another order: the first is to be what `order` names first.
            ///
            /// # Errors
            /// [`Error::AxisCount`](crate::Error::AxisCount) unless each axis is named;
            /// [`Error::InvalidAxis`](crate::Error::InvalidAxis) and [`Error::RepeatedAxis`](crate::Error::RepeatedAxis).
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, "assert_eq!(view.permute([1, 0])?.strides(), [1, 3]);")]
            pub fn permute($($receiver)+, order: impl AsRef<[usize]>) -> Result<Self> {
                $this.sliced(|dims| dims.permute(order.as_ref()))
            }

            /// Another shape over the same elements in the same order.
            ///
            /// # Errors
            /// [`Error::ElementCount`](crate::Error::ElementCount) unless there are as many;
            /// [`Error::NotReshapable`](crate::Error::NotReshapable) if no strides can lead through
            /// them: only a copy can have that shape then.
            ///
            #[doc = $error]
            ///
            #[doc = example!($make, "assert_eq!(view.reshape([6])?.strides(), [1]);")]
            pub fn reshape($($receiver)+, shape: impl AsRef<[usize]>) -> Result<Self> {
                $this.sliced(|dims| dims.reshape(shape.as_ref()))
            }
        }
    )*};
}

methods! {
    [] Tensor, (self) self, "tensor",
        "The tensor is dropped on an error; what may fail can be tried on its [`TensorRef`] first.";
    ['a, T] TensorView<'a, T>, (&self) self, "tensor.view::<i32>()?", "";
    ['a, T] TensorViewMut<'a, T>, (self) self, "tensor.view_mut::<i32>()?", "";
    ['a] TensorRef<'a>, (&self) self, "TensorRef::from(&tensor)", "";
    ['a] TensorRefMut<'a>, (self) self, "TensorRefMut::try_from(&mut tensor)?", "";
}

/// Only what is shared can be repeated.
macro_rules! repeated {
    ($([$($generics:tt)*] $type:ty, $make:literal;)*) => {$(
        impl<$($generics)*> $type {
            /// A larger shape, in which axes of extent 1, and new ones in front, are repeated, with
            /// strides of 0.
            ///
            /// # Errors
            /// [`Error::AxisCount`](crate::Error::AxisCount) for fewer dimensions; [`Error::Extent`](crate::Error::Extent) for
            /// another extent on an axis that has more than one index; [`Error::TooLarge`](crate::Error::TooLarge).
            ///
            #[doc = example!($make, "assert_eq!(view.broadcast_to([4, 2, 3])?.strides(), [0, 3, 1]);")]
            pub fn broadcast_to(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
                self.sliced(|dims| dims.broadcast_to(shape.as_ref()))
            }
        }
    )*};
}

repeated! {
    ['a, T] TensorView<'a, T>, "tensor.view::<i32>()?";
    ['a] TensorRef<'a>, "TensorRef::from(&tensor)";
}
