//! Containers of `core` and `alloc`. [`Tensor::try_into_owner`](crate::Tensor::try_into_owner) returns them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::Items;
use crate::Tensor;

/// The shape is the length, then the extents of nested arrays. Exclusive.
///
/// Panics for arrays without elements whose number overflows the address space, as in
/// `vec![[0_u8; 0]; usize::MAX]`; so do the other containers.
impl<I: Items> From<Vec<I>> for Tensor {
    fn from(items: Vec<I>) -> Self {
        Self::from_whole(items)
    }
}

/// The shape is the length, then the extents of nested arrays. Exclusive.
impl<I: Items> From<Box<[I]>> for Tensor {
    fn from(items: Box<[I]>) -> Self {
        Self::from_whole(items)
    }
}

/// The shape is the extents of the arrays. Exclusive.
impl<I: Items, const N: usize> From<Box<[I; N]>> for Tensor {
    fn from(items: Box<[I; N]>) -> Self {
        Self::from_whole(items)
    }
}

/// The array moves to the heap. The shape is the extents of the arrays. Exclusive.
impl<I: Items, const N: usize> From<[I; N]> for Tensor {
    fn from(items: [I; N]) -> Self {
        Self::from(Box::new(items))
    }
}

/// The shape is the length, then the extents of nested arrays. Immutable.
impl<I: Items> From<Arc<[I]>> for Tensor {
    fn from(items: Arc<[I]>) -> Self {
        Self::from_whole(items)
    }
}

/// The shape is the extents of the arrays. Immutable.
///
/// The items are `'static`: [`TensorRef`](crate::TensorRef) borrows those of a local variable.
impl<I: Items, const N: usize> From<&'static [I; N]> for Tensor {
    fn from(items: &'static [I; N]) -> Self {
        Self::from(items.as_slice())
    }
}

/// The shape is the length, then the extents of nested arrays. Immutable.
///
/// The items are `'static`: [`TensorRef`](crate::TensorRef) borrows those of a local variable.
impl<I: Items> From<&'static [I]> for Tensor {
    fn from(items: &'static [I]) -> Self {
        Self::from_whole(items)
    }
}

/// The shape is the length, then the extents of nested arrays. Owned items give an exclusive tensor with a vector as
/// owner; borrowed items an immutable one.
impl<I: Items + Clone> From<Cow<'static, [I]>> for Tensor {
    fn from(items: Cow<'static, [I]>) -> Self {
        match items {
            Cow::Owned(items) => Self::from(items),
            Cow::Borrowed(items) => Self::from(items),
        }
    }
}
