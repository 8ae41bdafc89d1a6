//! The items of containers: elements, and arrays of them.

use crate::Element;

/// The items of a container: elements, or arrays of elements.
///
/// # Safety
/// The type consists of contiguous elements of the type `Element` and nothing else: their number is the product of
/// [`extents`](Items::extents). Any valid elements in their places are a valid value of the type, and it does not have
/// interior mutability.
///
/// ```
/// use dlbridge::Items;
///
/// let mut extents = [0; 2];
/// <[[u8; 3]; 4]>::extents(&mut extents);
/// assert_eq!(extents, [4, 3]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither an element of a tensor nor an array of elements",
    label = "not an `Element`, and not an array of an `Element`",
    note = "the integers, `f32`, `f64` and `bool` are elements; the features `half`, `num-complex` and `microfloat` of dlbridge add others"
)]
pub unsafe trait Items: Send + Sync + 'static {
    /// The type of the elements.
    type Element: Element;

    /// The number of dimensions one item has; 0 for an element.
    ///
    /// ```
    /// assert_eq!(<[[u8; 3]; 4] as dlbridge::Items>::NDIM, 2);
    /// ```
    const NDIM: usize;

    /// Writes the extents of one item.
    ///
    /// ```
    /// use dlbridge::Items;
    ///
    /// let mut extents = [0];
    /// <[f32; 5]>::extents(&mut extents);
    /// assert_eq!(extents, [5]);
    /// ```
    fn extents(out: &mut [usize]);
}

// SAFETY: an element is one element.
unsafe impl<T: Element> Items for T {
    type Element = T;
    const NDIM: usize = 0;

    fn extents(_: &mut [usize]) {}
}

// SAFETY: an array is N contiguous items.
unsafe impl<I: Items, const N: usize> Items for [I; N] {
    type Element = I::Element;
    const NDIM: usize = I::NDIM + 1;

    fn extents(out: &mut [usize]) {
        out[0] = N;
        I::extents(&mut out[1..]);
    }
}

/// The deepest nesting of arrays in a container.
const MAX_NESTING: usize = 31;

/// The shape of some items, in the first `1 + I::NDIM` places.
pub(crate) fn whole_shape<I: Items>(len: usize) -> [usize; 1 + MAX_NESTING] {
    const { assert!(I::NDIM <= MAX_NESTING, "arrays nested too deeply") };
    let mut shape = [0; 1 + MAX_NESTING];
    shape[0] = len;
    I::extents(&mut shape[1..=I::NDIM]);
    shape
}
