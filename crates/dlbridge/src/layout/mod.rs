//! Shape and stride arithmetic, without overflow for any `i64` shapes and strides. A shape must pass [`element_count`]
//! first; the other functions rely on it.

mod dims;
mod offsets;
mod reached;
mod slice;

pub(crate) use dims::Dims;
pub(crate) use offsets::Offsets;
pub(crate) use reached::all_reached;
pub(crate) use slice::Slice;

use crate::{DataType, Error, Result};

/// The bytes that the elements of a tensor occupy, counted from the first element's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteExtent {
    /// The lowest byte, at most 0.
    pub(crate) start: isize,
    /// One past the highest byte, at least 0. `end - start` fits an `isize`.
    pub(crate) end: isize,
}

/// The elements that a layout touches, counted from the one at index zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementExtent {
    /// The lowest element, at most 0.
    pub(crate) lowest: i64,
    /// The highest element, at least 0.
    pub(crate) highest: i64,
}

/// The number of elements of a shape.
///
/// The product of the nonzero extents must fit an `isize` even if another extent is zero: libraries reject larger
/// shapes.
#[inline]
pub(crate) fn element_count(shape: &[i64]) -> Result<usize> {
    let mut product = 1_isize;
    let mut empty = false;
    for (axis, &extent) in shape.iter().enumerate() {
        if extent < 0 {
            return Err(Error::NegativeExtent { axis, extent });
        }
        if extent == 0 {
            empty = true;
            continue;
        }
        let extent = isize::try_from(extent).map_err(|_| Error::TooLarge)?;
        product = product.checked_mul(extent).ok_or(Error::TooLarge)?;
    }
    Ok(if empty { 0 } else { product.unsigned_abs() })
}

/// The number of elements of a shape that has passed [`element_count`], without checks.
#[inline]
pub(crate) fn trusted_count(shape: &[i64]) -> usize {
    shape.iter().fold(1, |count: usize, &extent| count.wrapping_mul(extent as usize))
}

/// The elements that a non-empty layout touches.
#[inline]
pub(crate) fn element_extent(shape: &[i64], strides: &[i64]) -> Result<ElementExtent> {
    let (mut lowest, mut highest) = (0_i64, 0_i64);
    for (&extent, &stride) in shape.iter().zip(strides) {
        let reach = (extent - 1).checked_mul(stride).ok_or(Error::TooLarge)?;
        // The two sums only ever grow away from zero, so an overflow is final.
        let end = if reach < 0 { &mut lowest } else { &mut highest };
        *end = end.checked_add(reach).ok_or(Error::TooLarge)?;
    }
    Ok(ElementExtent { lowest, highest })
}

/// The result of measuring a layout in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measure {
    /// The result of [`element_count`].
    pub(crate) count: usize,
    /// The result of [`element_extent`] for a layout that is not empty; `None` if that is an error.
    pub(crate) extent: Option<ElementExtent>,
}

/// Measures a layout, given the extent and stride of each axis.
#[inline(always)]
pub(crate) fn measure(axes: impl Iterator<Item = (i64, i64)>) -> Result<Measure> {
    let (mut product, mut empty) = (1_isize, false);
    let (mut lowest, mut highest, mut fits) = (0_i64, 0_i64, true);
    for (axis, (extent, stride)) in axes.enumerate() {
        if extent <= 0 {
            if extent < 0 {
                return Err(Error::NegativeExtent { axis, extent });
            }
            empty = true;
            continue;
        }
        let count = isize::try_from(extent).map_err(|_| Error::TooLarge)?;
        product = product.checked_mul(count).ok_or(Error::TooLarge)?;
        let (reach, overflows) = (extent - 1).overflowing_mul(stride);
        let end = if reach < 0 { &mut lowest } else { &mut highest };
        let (sum, overflows_too) = end.overflowing_add(reach);
        *end = sum;
        fits &= !overflows && !overflows_too;
    }
    let count = if empty { 0 } else { product.unsigned_abs() };
    Ok(Measure { count, extent: fits.then_some(ElementExtent { lowest, highest }) })
}

/// The bytes that a non-empty layout of elements of a dtype occupies.
///
/// `padded` says that sub-byte elements take whole bytes.
#[inline(always)]
pub(crate) fn byte_extent(
    extent: ElementExtent,
    dtype: DataType,
    padded: bool,
) -> Result<ByteExtent> {
    let ElementExtent { lowest, highest } = extent;
    let (start, end) = if dtype.is_subbyte() && !padded {
        let bits = i128::from(dtype.element_bits());
        // At most 2^63 * 2^24: no overflow in 128 bits.
        let start = (i128::from(lowest) * bits).div_euclid(8);
        let end = (i128::from(highest) * bits + bits + 7).div_euclid(8);
        (isize::try_from(start).ok(), isize::try_from(end).ok())
    } else {
        let bytes = dtype.itemsize() as isize;
        let scaled = |element: i64| isize::try_from(element).ok()?.checked_mul(bytes);
        (scaled(lowest), scaled(highest).and_then(|last| last.checked_add(bytes)))
    };
    let (Some(start), Some(end)) = (start, end) else { return Err(Error::TooLarge) };
    end.checked_sub(start).ok_or(Error::TooLarge)?;
    Ok(ByteExtent { start, end })
}

/// The number of bytes of contiguous elements.
pub(crate) fn byte_count(elements: usize, dtype: DataType, padded: bool) -> u128 {
    if dtype.is_subbyte() && !padded {
        (elements as u128 * u128::from(dtype.element_bits())).div_ceil(8)
    } else {
        elements as u128 * dtype.itemsize() as u128
    }
}

/// Passes the strides of C order to `write`, the last axis fastest.
///
/// The shape must have passed [`element_count`]: then the product of all extents except the zeros
/// fits, and with zeros counted as ones nothing overflows.
pub(crate) fn c_strides(shape: &[i64], mut write: impl FnMut(usize, i64)) {
    let mut stride = 1;
    for (axis, &extent) in shape.iter().enumerate().rev() {
        write(axis, stride);
        stride *= extent.max(1);
    }
}

/// Returns true if the elements are contiguous in C order. Axes of extent 1 never matter, and an empty
/// tensor is contiguous.
#[inline(always)]
pub(crate) fn is_c_contiguous(shape: &[i64], strides: &[i64]) -> bool {
    contiguous(shape.iter().zip(strides).rev()) || shape.contains(&0)
}

/// Returns true if the elements are contiguous in Fortran order, the first axis fastest.
pub(crate) fn is_f_contiguous(shape: &[i64], strides: &[i64]) -> bool {
    contiguous(shape.iter().zip(strides)) || shape.contains(&0)
}

/// Returns true if axes, fastest first, step through contiguous elements.
#[inline(always)]
fn contiguous<'a>(axes: impl Iterator<Item = (&'a i64, &'a i64)>) -> bool {
    let mut expected = 1_i64;
    for (&extent, &stride) in axes {
        if extent != 1 && stride != expected {
            return false;
        }
        expected = expected.wrapping_mul(extent);
    }
    true
}

/// Returns true if two indices may lead to the same element.
///
/// `false` is exact. `true` is exact for all layouts cut out of a contiguous one; some unusual interleavings count as
/// overlapping although they are not.
pub(crate) fn may_overlap(shape: &[i64], strides: &[i64]) -> bool {
    if is_c_contiguous(shape, strides) {
        return false;
    }
    // Takes axes from the smallest step to the largest: each must step over everything that the smaller ones reach.
    let mut done: Option<(u64, usize)> = None;
    let mut reach = 0_u128;
    loop {
        let next = (0..shape.len())
            .filter(|&axis| shape[axis] > 1)
            .map(|axis| (strides[axis].unsigned_abs(), axis))
            .filter(|&key| done.is_none_or(|last| key > last))
            .min();
        let Some((step, axis)) = next else { return false };
        if u128::from(step) <= reach {
            return true;
        }
        // A sum of at most MAX_NDIM products of 126 bits would overflow, but each step exceeds the
        // sum so far and fits 64 bits: only the last product is ever larger than that.
        reach = reach.saturating_add(u128::from(step) * u128::from(shape[axis].unsigned_abs() - 1));
        done = Some((step, axis));
    }
}

/// The distance from the element at index zero to the one at an index, in elements.
///
/// The layout must be that of a tensor in memory: then no sum overflows.
pub(crate) fn offset_of(shape: &[i64], strides: &[i64], index: &[usize]) -> Option<isize> {
    if index.len() != shape.len() {
        return None;
    }
    let mut offset = 0_i64;
    for ((&extent, &stride), &i) in shape.iter().zip(strides).zip(index) {
        let i = i64::try_from(i).ok().filter(|&i| i < extent)?;
        // An index below its extent on every axis is within the layout, so nothing wraps. It may wrap if a later axis
        // is empty, but then the index does not exist.
        offset = offset.wrapping_add(i.wrapping_mul(stride));
    }
    Some(offset as isize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_count_known_shapes_counts_or_refuses() {
        assert_eq!(element_count(&[]), Ok(1));
        assert_eq!(element_count(&[2, 0, 3]), Ok(0));
        assert_eq!(element_count(&[480, 640, 3]), Ok(921_600));
        assert_eq!(element_count(&[2, -1]), Err(Error::NegativeExtent { axis: 1, extent: -1 }));
        assert_eq!(element_count(&[i64::MAX, 2]), Err(Error::TooLarge));
        assert_eq!(element_count(&[i64::MAX, 2, 0]), Err(Error::TooLarge));
    }

    #[test]
    fn measure_any_axes_matches_separate_passes() {
        // Miri takes a minute for all of them, and this arithmetic is safe code.
        let numbers: &[i64] = match cfg!(miri) {
            true => &[0, 2, -3, i64::MAX],
            false => &[0, 1, 2, 3, -1, -3, i64::MAX, i64::MIN, 1 << 62],
        };
        let pairs = || numbers.iter().flat_map(|&a| numbers.iter().map(move |&b| (a, b)));
        for (a, b) in pairs() {
            for (s, t) in pairs() {
                let (shape, strides) = ([a, b], [s, t]);
                let measured = measure(shape.into_iter().zip(strides));
                match element_count(&shape) {
                    Err(error) => assert_eq!(measured, Err(error)),
                    Ok(0) => assert_eq!(measured.unwrap().count, 0),
                    Ok(count) => {
                        let extent = element_extent(&shape, &strides).ok();
                        assert_eq!(measured, Ok(Measure { count, extent }));
                    }
                }
            }
        }
    }

    #[test]
    fn element_extent_mixed_strides_spans_both_directions() {
        let extent = element_extent(&[3, 4], &[-4, 1]).unwrap();
        assert_eq!(extent, ElementExtent { lowest: -8, highest: 3 });
        let bytes = byte_extent(extent, DataType::FLOAT32, false).unwrap();
        assert_eq!(bytes, ByteExtent { start: -32, end: 16 });
        assert_eq!(element_extent(&[1, 2], &[i64::MIN, 1]).unwrap().lowest, 0);
        assert_eq!(element_extent(&[3], &[i64::MAX]), Err(Error::TooLarge));
        assert_eq!(element_extent(&[2, 2], &[i64::MAX, i64::MAX]), Err(Error::TooLarge));
    }

    #[test]
    fn byte_extent_packed_elements_share_bytes() {
        let extent = ElementExtent { lowest: 0, highest: 4 };
        let packed = byte_extent(extent, DataType::FLOAT4_E2M1FN, false).unwrap();
        let padded = byte_extent(extent, DataType::FLOAT4_E2M1FN, true).unwrap();
        assert_eq!((packed.end, padded.end), (3, 5));
        let reversed = ElementExtent { lowest: -1, highest: 0 };
        assert_eq!(byte_extent(reversed, DataType::FLOAT6_E2M3FN, false).unwrap().start, -1);
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn byte_extent_beyond_address_space_is_refused() {
        let extent = ElementExtent { lowest: 0, highest: i64::MAX - 1 };
        assert!(byte_extent(extent, DataType::UINT8, false).is_ok());
        assert_eq!(byte_extent(extent, DataType::UINT16, false), Err(Error::TooLarge));
        let both = ElementExtent { lowest: i64::MIN, highest: i64::MAX };
        assert_eq!(byte_extent(both, DataType::UINT8, false), Err(Error::TooLarge));
    }

    #[test]
    fn is_contiguous_strides_of_extent_one_or_zero_are_ignored() {
        assert!(is_c_contiguous(&[2, 1, 3], &[3, 77, 1]));
        assert!(is_c_contiguous(&[1, 3], &[-9, 1]));
        assert!(is_c_contiguous(&[2, 0, 3], &[0, 0, 0]));
        assert!(is_c_contiguous(&[], &[]));
        assert!(!is_c_contiguous(&[2, 3], &[1, 2]));
        assert!(!is_c_contiguous(&[4], &[2]));
        assert!(!is_c_contiguous(&[4], &[-1]));
        assert!(is_f_contiguous(&[2, 3], &[1, 2]));
        assert!(!is_f_contiguous(&[2, 3], &[3, 1]));
    }

    #[test]
    fn c_strides_zero_extent_counts_as_one() {
        let mut strides = [0; 3];
        c_strides(&[2, 0, 3], |axis, stride| strides[axis] = stride);
        assert_eq!(strides, [3, 3, 1]);
    }

    #[test]
    fn may_overlap_known_layouts_is_correct() {
        assert!(!may_overlap(&[2, 3], &[3, 1]));
        assert!(!may_overlap(&[2, 3], &[-3, 1]));
        assert!(!may_overlap(&[2, 3], &[1, -2]));
        assert!(!may_overlap(&[2, 1], &[1, 0]));
        assert!(!may_overlap(&[2, 0], &[0, 0]));
        assert!(may_overlap(&[2, 3], &[0, 1]));
        assert!(may_overlap(&[2, 3], &[2, 1]));
        assert!(may_overlap(&[2, 2], &[1, -1]));
        assert!(!may_overlap(&[2, 2], &[i64::MAX, i64::MIN]));
    }

    #[test]
    fn may_overlap_small_strides_misses_no_overlap() {
        let strides = || (-4..=4_i64).step_by(if cfg!(miri) { 4 } else { 1 });
        for s0 in strides() {
            for s1 in strides() {
                for shape in [[2, 2], [3, 2], [2, 3], [1, 3], [3, 3]] {
                    let mut seen = alloc::collections::BTreeSet::new();
                    let distinct = (0..shape[0])
                        .flat_map(|i| (0..shape[1]).map(move |j| i * s0 + j * s1))
                        .all(|element| seen.insert(element));
                    assert!(distinct || may_overlap(&shape, &[s0, s1]), "{shape:?} {s0} {s1}");
                }
            }
        }
    }
}
