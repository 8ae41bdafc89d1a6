//! ndarray 0.17: owned and shared arrays out as owners, with any strides; views in.

use ndarray::{
    ArcArray, Array, ArrayBase, ArrayView, ArrayViewMut, Data, DataMut, Dimension, ShapeBuilder,
    StrideShape,
};

use crate::raw::from_strided;
use crate::{
    Access, Element, Error, RawParts, Tensor, TensorRef, TensorRefMut, TensorView, TensorViewMut,
};

/// Exclusive. Strides are kept, negative ones and zeros too. The array comes back whole through
/// [`Tensor::try_into_owner`]; an array of ndarray cannot adopt memory that is not a vector's.
///
/// Panics if the array has more than [`MAX_NDIM`](crate::MAX_NDIM) dimensions.
impl<A: Element, D: Dimension + 'static> From<Array<A, D>> for Tensor {
    fn from(array: Array<A, D>) -> Self {
        let ndim = array.ndim();
        // SAFETY: the array owns its elements, which stay where they are when it moves; nobody else
        // has them.
        let managed = unsafe {
            from_strided(array, ndim, A::CHECK, |array| {
                let parts = RawParts::of_elements(array.as_mut_ptr(), Access::Exclusive);
                (parts, array.shape(), array.strides())
            })
        };
        Self::from_managed(managed.expect("ndarray keeps sizes within isize"))
    }
}

/// Read-only, because other handles may read the elements. Strides are kept.
///
/// Panics if the array has more than [`MAX_NDIM`](crate::MAX_NDIM) dimensions.
impl<A: Element, D: Dimension + 'static> From<ArcArray<A, D>> for Tensor {
    fn from(array: ArcArray<A, D>) -> Self {
        let ndim = array.ndim();
        // SAFETY: the handle keeps the elements alive and in place; whoever wants to write them
        // through another handle copies them first, because this one shares them.
        let managed = unsafe {
            from_strided(array, ndim, A::CHECK, |array| {
                let first = array.as_ptr().cast_mut();
                let parts = RawParts::of_elements(first, Access::ReadOnly);
                (parts, array.shape(), array.strides())
            })
        };
        Self::from_managed(managed.expect("ndarray keeps sizes within isize"))
    }
}

/// Any strides. The error is [`Error::Ndim`] if the array type has another number of dimensions.
impl<'a, A: Element, D: Dimension> TryFrom<TensorView<'a, A>> for ArrayView<'a, A, D> {
    type Error = Error;

    fn try_from(view: TensorView<'a, A>) -> Result<Self, Error> {
        let layout = Layout::of(&view)?;
        // SAFETY: the view vouches for every element of the layout for `'a` (View), and the layout
        // is the view's, seen from its lowest address, with strides that are not negative.
        let mut array = unsafe {
            ArrayView::from_shape_ptr(layout.shape, view.as_ptr().wrapping_sub(layout.to_lowest))
        };
        layout.reversed.for_each(|axis| array.invert_axis(ndarray::Axis(axis)));
        Ok(array)
    }
}

/// Any strides. The error is [`Error::Ndim`] if the array type has another number of dimensions.
impl<'a, A: Element, D: Dimension> TryFrom<TensorViewMut<'a, A>> for ArrayViewMut<'a, A, D> {
    type Error = Error;

    fn try_from(mut view: TensorViewMut<'a, A>) -> Result<Self, Error> {
        let first = view.as_mut_ptr();
        let view = view.into_view();
        let layout = Layout::of(&view)?;
        // SAFETY: as above, for `'a`; the mutable view was consumed, and its elements do not overlap.
        let mut array = unsafe {
            ArrayViewMut::from_shape_ptr(layout.shape, first.wrapping_sub(layout.to_lowest))
        };
        layout.reversed.for_each(|axis| array.invert_axis(ndarray::Axis(axis)));
        Ok(array)
    }
}

/// Any array, view or shared array, as it is.
///
/// Panics if the array has more than [`MAX_NDIM`](crate::MAX_NDIM) dimensions.
impl<'a, A, S, D> From<&'a ArrayBase<S, D>> for TensorRef<'a>
where
    A: Element,
    S: Data<Elem = A>,
    D: Dimension,
{
    fn from(array: &'a ArrayBase<S, D>) -> Self {
        let parts = RawParts::of_elements(array.as_ptr().cast_mut(), Access::ReadOnly);
        // SAFETY: the array vouches for its elements, which are borrowed for `'a`.
        let tensor = unsafe { Self::from_raw_parts(&parts, array.shape(), Some(array.strides())) };
        tensor.expect("ndarray keeps sizes within isize")
    }
}

/// Any array or view whose elements may be written, as it is. Types whose bits need a check, like
/// `bool`, are refused at compile time: a C kernel would not know of it.
///
/// Panics if the array has more than [`MAX_NDIM`](crate::MAX_NDIM) dimensions.
impl<'a, A, S, D> From<&'a mut ArrayBase<S, D>> for TensorRefMut<'a>
where
    A: Element,
    S: DataMut<Elem = A>,
    D: Dimension,
{
    fn from(array: &'a mut ArrayBase<S, D>) -> Self {
        const { assert!(A::CHECK.is_none(), "anything might be written to the elements") }
        let parts = RawParts::of_elements(array.as_mut_ptr(), Access::Exclusive);
        // SAFETY: the array vouches for its elements, which are borrowed mutably for `'a`; indices of
        // an array whose elements may be written lead to one element each. Any bytes are values.
        let tensor = unsafe { Self::from_raw_parts(&parts, array.shape(), Some(array.strides())) };
        tensor.expect("ndarray keeps sizes within isize")
    }
}

/// A view's layout as ndarray wants it: without negative strides.
struct Layout<D, R> {
    shape: StrideShape<D>,
    /// The axes to invert afterwards.
    reversed: R,
    /// How many elements the lowest address lies below the element at index zero.
    to_lowest: usize,
}

impl Layout<(), ()> {
    fn of<'v, 'a, A, D: Dimension>(
        view: &'v TensorView<'a, A>,
    ) -> Result<Layout<D, impl Iterator<Item = usize> + use<'v, 'a, A, D>>, Error> {
        let ndim = view.ndim();
        if let Some(expected) = D::NDIM.filter(|&expected| expected != ndim) {
            return Err(Error::Ndim { expected, found: ndim });
        }
        let (mut dim, mut strides) = (D::zeros(ndim), D::zeros(ndim));
        let mut to_lowest = 0;
        for axis in 0..ndim {
            dim[axis] = view.shape()[axis] as usize;
            // Where no step is ever taken the stride may be anything; without elements it must
            // still not overflow when ndarray multiplies it.
            if !view.is_empty() && dim[axis] > 1 {
                let step = view.strides()[axis];
                strides[axis] = step.unsigned_abs() as usize;
                to_lowest += if step < 0 { (dim[axis] - 1) * strides[axis] } else { 0 };
            }
        }
        let reversed = (0..ndim)
            .filter(move |&a| !view.is_empty() && view.shape()[a] > 1 && view.strides()[a] < 0);
        Ok(Layout { shape: dim.strides(strides), reversed, to_lowest })
    }
}
