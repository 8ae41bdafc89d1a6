//! The bytes that a strided view covers.

use crate::overlap::{self, Axis};

/// The number of axes that need no allocation.
const INLINE: usize = 4;

/// The bytes of a strided view: those of its elements, without the gaps between them.
///
/// ```
/// use dlbridge_borrow::Region;
///
/// let even = Region::new(0x1000, 4, &[3], &[8]);
/// let odd = Region::new(0x1004, 4, &[3], &[8]);
/// assert_eq!((even.start(), even.end()), (0x1000, 0x1014));
/// assert!(!even.overlaps(&odd));
/// ```
#[derive(Clone, Debug)]
pub struct Region {
    /// The lowest byte, and the one after the highest; equal if the region is empty.
    start: usize,
    end: usize,
    /// The bytes of an element.
    item: usize,
    /// The axes with more than one index, all strides above zero.
    axes: Axes,
    /// True if some bytes would be outside of the address space, where the arithmetic would be about
    /// other bytes.
    clipped: bool,
}

#[derive(Clone, Debug)]
enum Axes {
    Few([Axis; INLINE], u8),
    Many(Box<[Axis]>),
}

impl Region {
    pub(crate) const EMPTY: Self =
        Self { start: 0, end: 0, item: 0, axes: Axes::EMPTY, clipped: false };

    /// Returns the bytes of elements of `item` bytes each. `address` is that of the element at index zero.
    /// Strides count bytes, and may be negative or zero. A negative extent counts as zero.
    ///
    /// Bytes outside of the address space are left out. Such a region overlaps every region whose span meets
    /// its own.
    ///
    /// ```
    /// use dlbridge_borrow::Region;
    ///
    /// let reversed = Region::new(0x1010, 4, &[5], &[-4]);
    /// assert_eq!((reversed.start(), reversed.end()), (0x1000, 0x1014));
    /// assert!(Region::new(0x1000, 4, &[2, 0], &[4, 4]).is_empty());
    /// ```
    ///
    /// # Panics
    /// Panics if the numbers of extents and strides differ.
    pub fn new(address: usize, item: usize, shape: &[i64], byte_strides: &[i64]) -> Self {
        assert_eq!(
            shape.len(),
            byte_strides.len(),
            "the numbers of extents and strides must be equal"
        );
        if item == 0 || shape.iter().any(|&extent| extent <= 0) {
            return Self { start: address, end: address, item, axes: Axes::EMPTY, clipped: false };
        }
        let axes = || {
            let axes = shape.iter().zip(byte_strides);
            axes.filter(|&(&extent, &stride)| extent > 1 && stride != 0)
                .map(|(&extent, &stride)| (extent.unsigned_abs() - 1, stride))
        };
        let (mut below, mut above) = (0_u128, item as u128);
        for (last, stride) in axes() {
            let reach = u128::from(last) * u128::from(stride.unsigned_abs());
            let side = if stride < 0 { &mut below } else { &mut above };
            *side = side.saturating_add(reach);
        }
        let start = usize::try_from(below).ok().and_then(|below| address.checked_sub(below));
        let end = usize::try_from(above).ok().and_then(|above| address.checked_add(above));
        let clipped = start.is_none() || end.is_none();
        let (start, end) = (start.unwrap_or(0), end.unwrap_or(usize::MAX));
        let axes = Axes::collect(axes().map(|(last, stride)| (last, stride.unsigned_abs())));
        Self { start, end, item, axes, clipped }
    }

    /// Returns a contiguous run of bytes.
    ///
    /// ```
    /// use dlbridge_borrow::Region;
    ///
    /// assert!(Region::bytes(0x1000, 16).overlaps(&Region::bytes(0x100f, 16)));
    /// ```
    #[inline]
    pub fn bytes(address: usize, count: usize) -> Self {
        let end = address.checked_add(count);
        let (clipped, end) = (end.is_none(), end.unwrap_or(usize::MAX));
        Self { start: address, end, item: count, axes: Axes::EMPTY, clipped }
    }

    /// The lowest byte.
    ///
    /// ```
    /// assert_eq!(dlbridge_borrow::Region::bytes(0x1000, 16).start(), 0x1000);
    /// ```
    pub fn start(&self) -> usize {
        self.start
    }

    /// The byte after the highest one.
    ///
    /// ```
    /// assert_eq!(dlbridge_borrow::Region::bytes(0x1000, 16).end(), 0x1010);
    /// ```
    pub fn end(&self) -> usize {
        self.end
    }

    /// Returns true if the region is empty.
    ///
    /// ```
    /// assert!(dlbridge_borrow::Region::bytes(0x1000, 0).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns true if the two regions share a byte. `false` is always right; `true` may be wrong for
    /// disjoint regions if the proof takes too long, or if one reaches outside of the address space.
    ///
    /// ```
    /// use dlbridge_borrow::Region;
    ///
    /// // The left and the right half of a matrix of four rows of six bytes.
    /// let left = Region::new(0x1000, 1, &[4, 3], &[6, 1]);
    /// let right = Region::new(0x1003, 1, &[4, 3], &[6, 1]);
    /// assert!(!left.overlaps(&right));
    /// assert!(left.overlaps(&Region::new(0x1002, 1, &[4, 3], &[6, 1])));
    /// ```
    pub fn overlaps(&self, other: &Self) -> bool {
        let apart = self.end <= other.start || other.end <= self.start;
        let unknown = self.clipped || other.clipped;
        let empty = self.is_empty() || other.is_empty();
        !apart && !empty && (unknown || self.shares_a_byte(other))
    }

    /// Returns true if two regions that are not empty share a byte, and also if the proof takes too long.
    fn shares_a_byte(&self, other: &Self) -> bool {
        // Backwards from the highest byte of `other`, each of its terms has the sign of those of `self`.
        let last = other.end.checked_sub(1);
        let Some(target) = last.and_then(|last| last.checked_sub(self.start)) else {
            return false;
        };
        let places = [((self.item - 1) as u64, 1), ((other.item - 1) as u64, 1)];
        let axes = self.axes().iter().chain(other.axes()).copied().chain(places);
        let count = self.axes().len() + other.axes().len() + places.len();
        overlap::is_sum(target as u128, axes, count)
    }

    /// Returns the first byte and the one after the last, if the region is one contiguous run.
    #[inline]
    pub(crate) fn run(&self) -> Option<(usize, usize)> {
        (self.axes().is_empty() && !self.clipped).then_some((self.start, self.end))
    }

    fn axes(&self) -> &[Axis] {
        match &self.axes {
            Axes::Few(axes, count) => &axes[..usize::from(*count)],
            Axes::Many(axes) => axes,
        }
    }
}

impl Axes {
    const EMPTY: Self = Self::Few([(0, 0); INLINE], 0);

    fn collect(axes: impl Iterator<Item = Axis> + Clone) -> Self {
        let mut few = [(0, 0); INLINE];
        let mut count = 0;
        for axis in axes.clone() {
            let Some(place) = few.get_mut(usize::from(count)) else {
                return Self::Many(axes.collect());
            };
            *place = axis;
            count += 1;
        }
        Self::Few(few, count)
    }
}
