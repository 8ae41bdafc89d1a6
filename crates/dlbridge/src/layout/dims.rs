//! The extents and strides of a layout.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use super::{ElementExtent, Measure, c_strides, element_count, measure};
use crate::{Error, MAX_NDIM, Result};

/// One extent and one stride for each dimension: borrowed from a tensor, or owned by a view.
#[derive(Clone)]
pub(crate) enum Dims<'a> {
    Borrowed {
        shape: &'a [i64],
        strides: &'a [i64],
    },
    /// Enough for most tensors, without a heap allocation.
    Few {
        ndim: u32,
        shape: [i64; INLINE],
        strides: [i64; INLINE],
    },
    Many {
        shape: Vec<i64>,
        strides: Vec<i64>,
    },
}

impl<'a> Dims<'a> {
    #[inline]
    pub(crate) fn borrowed(shape: &'a [i64], strides: &'a [i64]) -> Self {
        Self::Borrowed { shape, strides }
    }

    /// Dims with the same number of extents and strides.
    pub(crate) fn own(shape: Numbers, strides: Numbers) -> Self {
        match (shape, strides) {
            (Numbers::Inline { len, numbers: shape }, Numbers::Inline { numbers: strides, .. }) => {
                Self::Few { ndim: len as u32, shape, strides }
            }
            (shape, strides) => Self::Many { shape: shape.into(), strides: strides.into() },
        }
    }

    /// Dims with the given extent and stride for each axis.
    pub(crate) fn new(axes: impl Iterator<Item = (i64, i64)>) -> Self {
        let (mut shape, mut strides) = (Numbers::new(), Numbers::new());
        for (extent, stride) in axes {
            shape.push(extent);
            strides.push(stride);
        }
        Self::own(shape, strides)
    }

    /// Dims from the caller, whose lengths are checked, with their [`measure`].
    #[inline]
    pub(crate) fn checked<S, T>(shape: &[S], strides: &[T]) -> Result<(Self, Measure)>
    where
        S: Copy + TryInto<i64>,
        T: Copy + TryInto<i64>,
    {
        let ndim = shape.len();
        if ndim > MAX_NDIM {
            return Err(Error::InvalidNdim { ndim: ndim as i64 });
        }
        if strides.len() != ndim {
            return Err(Error::StridesLength { ndim, strides: strides.len() });
        }
        let dims = Self::own(Numbers::checked(shape)?, Numbers::checked(strides)?);
        let measure = measure(dims.axes())?;
        Ok((dims, measure))
    }

    /// Dims from the caller with the strides of C order, and their [`measure`].
    pub(crate) fn in_c_order<S: Copy + TryInto<i64>>(shape: &[S]) -> Result<(Self, Measure)> {
        let ndim = shape.len();
        if ndim > MAX_NDIM {
            return Err(Error::InvalidNdim { ndim: ndim as i64 });
        }
        let shape = Numbers::checked(shape)?;
        let count = element_count(&shape)?;
        let mut strides: Numbers = shape.iter().map(|_| 0).collect();
        c_strides(&shape, |axis, stride| strides[axis] = stride);
        let highest = count.saturating_sub(1) as i64;
        let extent = Some(ElementExtent { lowest: 0, highest });
        Ok((Self::own(shape, strides), Measure { count, extent }))
    }

    /// Positive extents with the strides of C order and the number of elements; `None` if there are too many or they
    /// are too large. Inlined, all results stay in registers.
    #[inline(always)]
    pub(crate) fn few_in_c_order(extents: &[i64]) -> Option<([i64; INLINE], [i64; INLINE], usize)> {
        let ndim = extents.len();
        if ndim > INLINE {
            return None;
        }
        let (mut shape, mut strides, mut product) = ([0; INLINE], [0; INLINE], 1_isize);
        // Not a loop: the compiler would unroll it only after it has assigned registers.
        macro_rules! add {
            ($($axis:literal)*) => {$(
                if $axis < ndim {
                    let extent = isize::try_from(extents[$axis]).ok()?;
                    if extent <= 0 {
                        return None;
                    }
                    (shape[$axis], strides[$axis]) = (extent as i64, product as i64);
                    product = product.checked_mul(extent)?;
                }
            )*};
        }
        const { assert!(INLINE == 4) };
        add!(3 2 1 0);
        Some((shape, strides, product as usize))
    }

    /// Dims from the caller, as an extent and a stride for each axis, with their [`measure`], in one pass.
    #[inline(always)]
    pub(crate) fn measured(
        mut axes: impl ExactSizeIterator<Item = (i64, i64)>,
    ) -> Result<(Self, Measure)> {
        let len = axes.len();
        if len > INLINE {
            return Self::many_measured(len, &mut || axes.next());
        }
        let (mut shape, mut strides, mut count) = ([0; INLINE], [0; INLINE], 0);
        let places = shape.iter_mut().zip(&mut strides).take(len);
        let measure = measure(places.zip(axes).map(|((first, second), (extent, stride))| {
            (*first, *second) = (extent, stride);
            count += 1;
            (extent, stride)
        }))?;
        // `len` comes from safe code and may be wrong.
        assert!(count == len, "an iterator yields another number of items than its length");
        Ok((Self::Few { ndim: len as u32, shape, strides }, measure))
    }

    /// As [`measured`](Self::measured), for dims that are not kept inline: shared by all iterators.
    #[cold]
    fn many_measured(
        len: usize,
        next: &mut dyn FnMut() -> Option<(i64, i64)>,
    ) -> Result<(Self, Measure)> {
        if len > MAX_NDIM {
            return Err(Error::InvalidNdim { ndim: len as i64 });
        }
        let dims = Self::new(core::iter::from_fn(next).take(len));
        assert!(dims.ndim() == len, "an iterator yields another number of items than its length");
        let measure = measure(dims.axes())?;
        Ok((dims, measure))
    }

    #[inline]
    pub(crate) fn shape(&self) -> &[i64] {
        match self {
            Self::Borrowed { shape, .. } => shape,
            Self::Few { ndim, shape, .. } => &shape[..(*ndim as usize).min(INLINE)],
            Self::Many { shape, .. } => shape,
        }
    }

    #[inline]
    pub(crate) fn strides(&self) -> &[i64] {
        match self {
            Self::Borrowed { strides, .. } => strides,
            Self::Few { ndim, strides, .. } => &strides[..(*ndim as usize).min(INLINE)],
            Self::Many { strides, .. } => strides,
        }
    }

    #[inline]
    pub(crate) fn ndim(&self) -> usize {
        self.shape().len()
    }

    /// Extent and stride of each axis.
    #[inline]
    pub(crate) fn axes(&self) -> impl DoubleEndedIterator<Item = (i64, i64)> + ExactSizeIterator {
        self.shape().iter().copied().zip(self.strides().iter().copied())
    }

    /// The same elements, without the repetitions along axes of stride 0.
    pub(crate) fn distinct(&self) -> Dims<'static> {
        Dims::new(self.axes().map(|(extent, stride)| match stride {
            0 => (extent.min(1), 0),
            _ => (extent, stride),
        }))
    }

    /// The same elements in the same order with fewer axes: axes of extent 1 are left out, and neighbours that step
    /// evenly together become one.
    pub(crate) fn coalesced(&self) -> Dims<'static> {
        let (mut shape, mut strides) = (Numbers::new(), Numbers::new());
        for (extent, stride) in self.axes().filter(|&(extent, _)| extent != 1) {
            let last = shape.len().wrapping_sub(1);
            if strides.get(last).is_some_and(|&outer| extent.checked_mul(stride) == Some(outer)) {
                shape[last] *= extent;
                strides[last] = stride;
            } else {
                shape.push(extent);
                strides.push(stride);
            }
        }
        Dims::own(shape, strides)
    }
}

/// Enough dimensions for most tensors, without a heap allocation.
const INLINE: usize = 4;

/// A few numbers.
#[derive(Clone)]
pub(crate) enum Numbers {
    Inline { len: usize, numbers: [i64; INLINE] },
    Heap(Vec<i64>),
}

impl Numbers {
    pub(crate) fn new() -> Self {
        Self::Inline { len: 0, numbers: [0; INLINE] }
    }

    /// Numbers of any type, if they fit.
    #[inline]
    pub(crate) fn checked<N: Copy + TryInto<i64>>(numbers: &[N]) -> Result<Self> {
        let checked = |number: N| number.try_into().map_err(|_| Error::TooLarge);
        let len = numbers.len();
        if len > INLINE {
            return numbers
                .iter()
                .map(|&number| checked(number))
                .collect::<Result<_>>()
                .map(Self::Heap);
        }
        let mut few = [0; INLINE];
        for (place, &number) in few.iter_mut().zip(numbers) {
            *place = checked(number)?;
        }
        Ok(Self::Inline { len, numbers: few })
    }

    pub(crate) fn push(&mut self, number: i64) {
        match self {
            Self::Inline { len, numbers } if *len < INLINE => {
                numbers[*len] = number;
                *len += 1;
            }
            Self::Inline { numbers, .. } => {
                let mut heap = Vec::with_capacity(2 * INLINE);
                heap.extend(*numbers);
                heap.push(number);
                *self = Self::Heap(heap);
            }
            Self::Heap(numbers) => numbers.push(number),
        }
    }
}

impl From<Numbers> for Vec<i64> {
    fn from(numbers: Numbers) -> Self {
        match numbers {
            Numbers::Inline { len, numbers } => numbers[..len].to_vec(),
            Numbers::Heap(numbers) => numbers,
        }
    }
}

impl FromIterator<i64> for Numbers {
    fn from_iter<I: IntoIterator<Item = i64>>(iterator: I) -> Self {
        let mut numbers = Self::new();
        iterator.into_iter().for_each(|number| numbers.push(number));
        numbers
    }
}

impl Deref for Numbers {
    type Target = [i64];

    #[inline]
    fn deref(&self) -> &[i64] {
        match self {
            Self::Inline { len, numbers } => &numbers[..*len],
            Self::Heap(numbers) => numbers,
        }
    }
}

impl DerefMut for Numbers {
    fn deref_mut(&mut self) -> &mut [i64] {
        match self {
            Self::Inline { len, numbers } => &mut numbers[..*len],
            Self::Heap(numbers) => numbers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn coalesces(shape: &[i64], strides: &[i64], to: &[(i64, i64)]) {
        assert!(Dims::borrowed(shape, strides).coalesced().axes().eq(to.iter().copied()));
    }

    #[test]
    fn coalesced_even_neighbours_are_joined() {
        coalesces(&[2, 3, 4], &[12, 4, 1], &[(24, 1)]);
        coalesces(&[2, 3, 4], &[24, 8, 2], &[(24, 2)]);
        coalesces(&[2, 3, 4], &[-12, -4, -1], &[(24, -1)]);
        coalesces(&[2, 3], &[1, 2], &[(2, 1), (3, 2)]);
        coalesces(&[2, 1, 3], &[3, 77, 1], &[(6, 1)]);
        coalesces(&[5, 6], &[0, 0], &[(30, 0)]);
        coalesces(&[1, 1], &[3, 3], &[]);
        coalesces(&[2, 2], &[i64::MIN, i64::MAX], &[(2, i64::MIN), (2, i64::MAX)]);
        coalesces(&[2, 2], &[i64::MIN, 1 << 62], &[(2, i64::MIN), (2, 1 << 62)]);
    }

    #[test]
    fn numbers_beyond_inline_capacity_are_kept() {
        for len in 0..12 {
            let numbers: Numbers = (0..len).collect();
            assert!(numbers.iter().copied().eq(0..len));
        }
    }
}
