//! Makes borrowed tensors of slices, arrays, vectors, views and tensors.

use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ptr;

use super::TensorRef;
use crate::block::Managed;
use crate::element::items::{Items, whole_shape};
use crate::element::{Element, assert_layout};
use crate::layout::{self, Dims};
use crate::view::TensorView;
use crate::{Access, Device};

/// The shape is the length, then the extents of nested arrays.
///
/// Panics for arrays without elements whose number overflows the address space.
impl<'a, I: Items> From<&'a [I]> for TensorRef<'a> {
    fn from(items: &'a [I]) -> Self {
        Self::adjacent(ptr::from_ref(items).cast_mut())
    }
}

/// The shape is the extents of the arrays.
impl<'a, I: Items, const N: usize> From<&'a [I; N]> for TensorRef<'a> {
    fn from(items: &'a [I; N]) -> Self {
        Self::from(items.as_slice())
    }
}

/// The shape is the length, then the extents of nested arrays.
impl<'a, I: Items> From<&'a Vec<I>> for TensorRef<'a> {
    fn from(items: &'a Vec<I>) -> Self {
        Self::from(items.as_slice())
    }
}

impl<'a, T: Element> From<TensorView<'a, T>> for TensorRef<'a> {
    fn from(view: TensorView<'a, T>) -> Self {
        let (first, dims, len) = view.into_raw();
        Self::of_elements(first, dims, len)
    }
}

impl<'a> TensorRef<'a> {
    #[inline]
    pub(crate) fn new(tensor: &'a Managed) -> Self {
        let (shape, description) = (tensor.shape(), tensor.tensor());
        Self {
            data: description.data,
            byte_offset: description.byte_offset,
            dims: Dims::borrowed(shape, tensor.strides()),
            len: layout::trusted_count(shape),
            dtype: description.dtype.into(),
            device: description.device.into(),
            subbyte_padded: Access::subbyte_padded(tensor.flags()),
            memory: PhantomData,
        }
    }

    /// All elements of some items, in C order.
    pub(super) fn adjacent<I: Items>(items: *mut [I]) -> Self {
        const { assert_layout::<I::Element>() };
        let shape = whole_shape::<I>(items.len());
        let (dims, _) = Dims::in_c_order(&shape[..=I::NDIM])
            .unwrap_or_else(|_| panic!("memory that exists has a size that fits"));
        let len = items.len() * (size_of::<I>() / size_of::<I::Element>());
        Self::of_elements(items.cast::<I::Element>(), dims, len)
    }

    /// Elements whose validity the caller guarantees.
    fn of_elements<T: Element>(first: *mut T, dims: Dims<'a>, len: usize) -> Self {
        Self {
            data: if len == 0 { ptr::null_mut() } else { first.cast() },
            byte_offset: 0,
            dims,
            len,
            dtype: T::DATA_TYPE,
            device: Device::CPU,
            subbyte_padded: T::DATA_TYPE.is_subbyte(),
            memory: PhantomData,
        }
    }
}
