//! The bytes that a strided view covers, and a test if two such regions share a byte.
//!
//! The address of a byte is the region's start, plus a multiple of each stride within the extent, plus a place
//! within the element. Two regions share a byte if this equation has a solution in whole numbers within bounds:
//!
//! ```text
//! start a + sum(stride * index) + place  =  start b + sum(stride * index) + place
//! ```
//!
//! With the indices of `b` counted from their ends, all terms are on one side and positive:
//! `sum(coefficient * unknown) = target`. The search goes from the largest coefficient down; the most that the
//! smaller ones add up to leaves few values for each. In general this problem is hard, so the steps are counted.

/// The bytes of a strided view: those of its elements, without the gaps between them.
///
/// ```
/// use dlbridge_borrow::Region;
///
/// let even = Region::new(0x1000, 4, [(3, 8)]);
/// let odd = Region::new(0x1004, 4, [(3, 8)]);
/// assert_eq!((even.start(), even.end()), (0x1000, 0x1014));
/// assert!(!even.overlaps(&odd));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The lowest byte, and the one after the highest; equal if the region is empty.
    start: usize,
    end: usize,
    /// The number of contiguous bytes that the axes repeat.
    run: usize,
    /// The axes with more than one index, all strides above zero.
    axes: Vec<Axis>,
}

impl Region {
    /// Returns the bytes of elements of `item` bytes each. `address` is that of the element at index zero. Each
    /// dimension has an extent and a stride in bytes, which may be negative or zero. A negative extent counts as zero.
    ///
    /// A region that would span more than half of the address space, or reach outside of it, covers all bytes from its
    /// lowest to its highest.
    ///
    /// ```
    /// use dlbridge_borrow::Region;
    ///
    /// let reversed = Region::new(0x1010, 4, [(5, -4)]);
    /// assert_eq!(reversed, Region::bytes(0x1000, 20));
    /// assert!(Region::new(0x1000, 4, [(2, 4), (0, 4)]).is_empty());
    /// ```
    pub fn new<I>(address: usize, item: usize, dimensions: I) -> Self
    where
        I: IntoIterator<Item = (i64, i64), IntoIter: DoubleEndedIterator>,
    {
        let (mut below, mut above) = (0_u128, item as u128);
        let (mut run, mut axes) = (item, Vec::new());
        // In C order, the last dimension has the smallest stride.
        for (extent, stride) in dimensions.into_iter().rev() {
            if extent <= 0 {
                return Self::bytes(address, 0);
            }
            let (last, step) = (extent.unsigned_abs() - 1, stride.unsigned_abs());
            if last == 0 || step == 0 {
                continue;
            }
            let side = if stride < 0 { &mut below } else { &mut above };
            *side = side.saturating_add(u128::from(last) * u128::from(step));
            match step == run as u64 {
                true => run = run.saturating_mul(extent as usize),
                false => axes.push([last, step]),
            }
        }
        let start = usize::try_from(below).ok().and_then(|below| address.checked_sub(below));
        let end = usize::try_from(above).ok().and_then(|above| address.checked_add(above));
        match (start, end) {
            _ if item == 0 => Self::bytes(address, 0),
            (Some(start), Some(end)) if isize::try_from(end - start).is_ok() => {
                Self { start, end, run, axes }
            }
            (start, end) => {
                let (start, end) = (start.unwrap_or(0), end.unwrap_or(usize::MAX));
                Self::bytes(start, end - start)
            }
        }
    }

    /// Returns a contiguous run of bytes.
    ///
    /// ```
    /// use dlbridge_borrow::Region;
    ///
    /// assert!(Region::bytes(0x1000, 16).overlaps(&Region::bytes(0x100f, 16)));
    /// ```
    #[inline]
    pub const fn bytes(address: usize, count: usize) -> Self {
        let end = address.saturating_add(count);
        Self { start: address, end, run: end - address, axes: Vec::new() }
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

    /// The number of contiguous bytes that each index of the [axes](Self::axes) leads to.
    ///
    /// ```
    /// assert_eq!(dlbridge_borrow::Region::new(0x1000, 4, [(3, 40), (10, 4)]).run(), 120);
    /// ```
    pub fn run(&self) -> usize {
        self.run
    }

    /// The last index of each axis along which the run repeats, and the bytes from one index to the next; none for
    /// contiguous bytes.
    ///
    /// ```
    /// use dlbridge_borrow::Region;
    ///
    /// let columns = Region::new(0x1000, 4, [(3, -40), (5, 4)]);
    /// assert_eq!((columns.start(), columns.run(), columns.axes()), (0x1000 - 80, 20, &[[2, 40]][..]));
    /// assert_eq!(Region::from_axes(columns.start(), columns.run(), columns.axes()), columns);
    /// ```
    pub fn axes(&self) -> &[[u64; 2]] {
        &self.axes
    }

    /// Returns the region with the [start](Self::start), the [run](Self::run) and the [axes](Self::axes) of another one.
    ///
    /// ```
    /// use dlbridge_borrow::Region;
    ///
    /// assert_eq!(Region::from_axes(0x1000, 16, &[]), Region::bytes(0x1000, 16));
    /// ```
    pub fn from_axes(start: usize, run: usize, axes: &[[u64; 2]]) -> Self {
        if run == 0 {
            return Self::bytes(start, 0);
        }
        let reach = |&[last, step]: &[u64; 2]| last.saturating_mul(step) as usize;
        let end = axes.iter().map(reach).fold(start.saturating_add(run), usize::saturating_add);
        Self { start, end, run, axes: axes.to_vec() }
    }

    /// Returns true if the region is empty.
    ///
    /// ```
    /// assert!(dlbridge_borrow::Region::bytes(0x1000, 0).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns true if the two regions share a byte. `false` is always right for memory; `true` may be wrong for disjoint
    /// regions if the proof takes too long, or if one would reach outside of the address space.
    ///
    /// ```
    /// use dlbridge_borrow::Region;
    ///
    /// // The left and the right half of a matrix of four rows of six bytes.
    /// let left = Region::new(0x1000, 1, [(4, 6), (3, 1)]);
    /// let right = Region::new(0x1003, 1, [(4, 6), (3, 1)]);
    /// assert!(!left.overlaps(&right));
    /// assert!(left.overlaps(&Region::new(0x1002, 1, [(4, 6), (3, 1)])));
    /// ```
    pub fn overlaps(&self, other: &Self) -> bool {
        let apart = self.end <= other.start || other.end <= self.start;
        !apart && !self.is_empty() && !other.is_empty() && self.shares_a_byte(other)
    }

    /// Returns true if two regions whose spans meet share a byte, and also if the proof takes too long.
    fn shares_a_byte(&self, other: &Self) -> bool {
        if self.axes.is_empty() && other.axes.is_empty() {
            return true;
        }
        let places = [[self.run as u64 - 1, 1], [other.run as u64 - 1, 1]];
        // Backwards from the highest byte of `other`, each of its terms has the sign of those of `self`.
        let target = other.end - 1 - self.start;
        is_sum(target as u128, self.axes.iter().chain(&other.axes).copied().chain(places))
    }
}

/// An axis: the last index, and the bytes from one index to the next.
type Axis = [u64; 2];

/// After this many steps, two regions count as overlapping. Views of one matrix need a few.
const BUDGET: u32 = 2_000;

/// A coefficient with the largest value of its unknown.
struct Term {
    coefficient: u128,
    most: u128,
    /// The most that this and all smaller terms add up to.
    reach: u128,
    /// The greatest common divisor of this and all smaller coefficients.
    divisor: u128,
}

/// Returns true if `target` is a sum of one multiple of each axis' coefficient, each factor from 0 to the axis' last
/// index, and also if the search takes too long.
fn is_sum(target: u128, axes: impl Iterator<Item = Axis>) -> bool {
    // The largest coefficient first; equal ones become one term.
    let mut terms: Vec<Term> = Vec::new();
    for [most, coefficient] in axes.filter(|axis| !axis.contains(&0)) {
        let (most, coefficient) = (u128::from(most), u128::from(coefficient));
        let place = terms.partition_point(|term| term.coefficient > coefficient);
        match terms.get_mut(place) {
            Some(term) if term.coefficient == coefficient => term.most += most,
            _ => terms.insert(place, Term { coefficient, most, reach: 0, divisor: 0 }),
        }
    }
    let (mut reach, mut divisor) = (0_u128, 0);
    for term in terms.iter_mut().rev() {
        reach = reach.saturating_add(term.coefficient.saturating_mul(term.most));
        divisor = gcd(term.coefficient, divisor);
        (term.reach, term.divisor) = (reach, divisor);
    }
    let mut budget = BUDGET;
    is_solvable(&terms, target, &mut budget)
}

/// Returns true if values within bounds add up to the target, or if the budget runs out.
fn is_solvable(terms: &[Term], target: u128, budget: &mut u32) -> bool {
    let Some((term, smaller)) = terms.split_first() else { return target == 0 };
    if target > term.reach || !target.is_multiple_of(term.divisor) {
        return false;
    }
    let rest = smaller.first().map_or(0, |next| next.reach);
    let fewest = target.saturating_sub(rest).div_ceil(term.coefficient);
    let most = term.most.min(target / term.coefficient);
    (fewest..=most).any(|value| {
        let Some(left) = budget.checked_sub(1) else { return true };
        *budget = left;
        is_solvable(smaller, target - value * term.coefficient, budget)
    })
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
