//! ndarray 0.17: owned and shared arrays as owners, with any strides; tensors as views.

use core::mem;

use ndarray::{
    ArcArray, Array, ArrayBase, ArrayView, ArrayViewMut, Data, DataMut, Dimension, RawData,
    ShapeBuilder, StrideShape,
};

use crate::block::DimsOut;
use crate::tensor::raw::owner::from_strided;
use crate::{
    Access, Element, Error, RawParts, Tensor, TensorRef, TensorRefMut, TensorView, TensorViewMut,
};

/// Exclusive. Strides are kept, also negative ones and zeros. [`Tensor::try_into_owner`] returns the array; an ndarray
/// array cannot adopt memory other than a vector's.
///
/// Panics if the array has more than [`MAX_NDIM`](crate::MAX_NDIM) dimensions.
impl<A: Element, D: Dimension + 'static> From<Array<A, D>> for Tensor {
    fn from(array: Array<A, D>) -> Self {
        let ndim = array.ndim();
        // SAFETY: the array owns its elements, which keep their addresses when it moves; no other code has access to
        // them.
        let managed = unsafe {
            from_strided(array, ndim, A::CHECK, !mem::needs_drop::<A>(), |array, dims| {
                write_dims(array, dims);
                (RawParts::of_elements(array.as_mut_ptr(), Access::Exclusive), array.len())
            })
        };
        Self::from_managed(sized(managed))
    }
}

/// Immutable: other handles may read the elements, and copy them before they write. Strides are kept.
///
/// Panics if the array has more than [`MAX_NDIM`](crate::MAX_NDIM) dimensions.
impl<A: Element, D: Dimension + 'static> From<ArcArray<A, D>> for Tensor {
    fn from(array: ArcArray<A, D>) -> Self {
        let ndim = array.ndim();
        // SAFETY: the handle keeps the elements alive and in place. Immutable: another handle that
        // wants to write copies them first, because this one shares them.
        let managed = unsafe {
            from_strided(array, ndim, A::CHECK, !mem::needs_drop::<A>(), |array, dims| {
                write_dims(array, dims);
                let first = array.as_ptr().cast_mut();
                (RawParts::of_elements(first, Access::Immutable), array.len())
            })
        };
        Self::from_managed(sized(managed))
    }
}

/// Any strides. Returns [`Error::Ndim`] if the array type has another number of dimensions.
impl<'a, A: Element, D: Dimension> TryFrom<TensorView<'a, A>> for ArrayView<'a, A, D> {
    type Error = Error;

    #[inline]
    fn try_from(view: TensorView<'a, A>) -> Result<Self, Error> {
        let Layout { shape, to_lowest, is_reversed } = Layout::of(&view)?;
        // SAFETY: View guarantees every element of the layout for `'a`. The layout is the view's, counted from its
        // lowest address, with strides that are not negative.
        let mut array =
            unsafe { ArrayView::from_shape_ptr(shape, view.as_ptr().wrapping_sub(to_lowest)) };
        if is_reversed {
            reverse(&mut array, &view);
        }
        Ok(array)
    }
}

/// Any strides. Returns [`Error::Ndim`] if the array type has another number of dimensions.
impl<'a, A: Element, D: Dimension> TryFrom<TensorViewMut<'a, A>> for ArrayViewMut<'a, A, D> {
    type Error = Error;

    #[inline]
    fn try_from(mut view: TensorViewMut<'a, A>) -> Result<Self, Error> {
        let first = view.as_mut_ptr();
        let view = view.into_view();
        let Layout { shape, to_lowest, is_reversed } = Layout::of(&view)?;
        // SAFETY: View guarantees every element of the layout for `'a`, each at one index, and no other code has them,
        // because the mutable view was consumed. The layout is the view's, counted from its lowest address, with
        // strides that are not negative.
        let mut array =
            unsafe { ArrayViewMut::from_shape_ptr(shape, first.wrapping_sub(to_lowest)) };
        if is_reversed {
            reverse(&mut array, &view);
        }
        Ok(array)
    }
}

/// Borrows any array, view or shared array, with its strides.
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
        // SAFETY: the array guarantees its elements, which are borrowed for `'a`.
        let tensor = unsafe { Self::from_raw_parts(&parts, array.shape(), Some(array.strides())) };
        sized(tensor)
    }
}

/// Borrows any writable array or view, with its strides. Types whose bits need a check, like `bool`, do not compile: a
/// C kernel would write without the check.
///
/// Panics if the array has more than [`MAX_NDIM`](crate::MAX_NDIM) dimensions.
impl<'a, A, S, D> From<&'a mut ArrayBase<S, D>> for TensorRefMut<'a>
where
    A: Element,
    S: DataMut<Elem = A>,
    D: Dimension,
{
    fn from(array: &'a mut ArrayBase<S, D>) -> Self {
        const { assert!(A::CHECK.is_none(), "a C kernel might write invalid elements") }
        let parts = RawParts::of_elements(array.as_mut_ptr(), Access::Exclusive);
        // SAFETY: the array guarantees its elements, which are borrowed mutably for `'a`; two indices of a writable
        // array never lead to the same element. Any bytes are values.
        let tensor = unsafe { Self::from_raw_parts(&parts, array.shape(), Some(array.strides())) };
        sized(tensor)
    }
}

/// The description of an array, whose sizes ndarray keeps within isize. `expect` would link `Debug` too.
#[inline]
fn sized<T>(described: Result<T, Error>) -> T {
    described.unwrap_or_else(|error| panic!("{error}"))
}

/// Writes the extents and strides of an array, whose sizes ndarray keeps within isize.
#[inline]
fn write_dims<S: RawData, D: Dimension>(array: &ArrayBase<S, D>, dims: &mut DimsOut<'_>) {
    for (&extent, &stride) in array.shape().iter().zip(array.strides()) {
        dims.push(extent as i64, stride as i64);
    }
}

/// A view's layout in ndarray's form: without negative strides.
struct Layout<D> {
    shape: StrideShape<D>,
    /// The distance from the lowest address to the element at index zero, in elements.
    to_lowest: usize,
    /// True if axes must be inverted afterwards.
    is_reversed: bool,
}

impl<D: Dimension> Layout<D> {
    #[inline]
    fn of<A>(view: &TensorView<'_, A>) -> Result<Self, Error> {
        let (shape, steps, is_empty) = (view.shape(), view.strides(), view.is_empty());
        let ndim = shape.len();
        let (mut dim, mut strides) =
            (D::zeros(D::NDIM.unwrap_or(ndim)), D::zeros(D::NDIM.unwrap_or(ndim)));
        let (mut to_lowest, mut is_reversed) = (0, false);
        let (dims, places) = (dim.slice_mut(), strides.slice_mut());
        // From here on the compiler knows the number of dimensions: the array type's.
        let expected = dims.len();
        if shape.len() != expected || steps.len() != expected {
            return Err(Error::Ndim { expected, found: ndim });
        }
        for (((dim, stride), &extent), &step) in dims.iter_mut().zip(places).zip(shape).zip(steps) {
            *dim = extent as usize;
            // The stride of an extent of 1 is never used and may be any number. In an empty array it must still not
            // overflow when ndarray multiplies it.
            if extent > 1 && !is_empty {
                *stride = step.unsigned_abs() as usize;
                if step < 0 {
                    is_reversed = true;
                    to_lowest += (*dim - 1) * *stride;
                }
            }
        }
        Ok(Self { shape: dim.strides(strides), to_lowest, is_reversed })
    }
}

/// Inverts the axes with negative strides. The view is not empty.
#[cold]
fn reverse<S: RawData, A, D: Dimension>(array: &mut ArrayBase<S, D>, view: &TensorView<'_, A>) {
    for (axis, (&extent, &step)) in view.shape().iter().zip(view.strides()).enumerate() {
        if extent > 1 && step < 0 {
            array.invert_axis(ndarray::Axis(axis));
        }
    }
}
