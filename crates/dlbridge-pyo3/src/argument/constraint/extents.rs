//! Fixed extents.

use super::{Constraint, Requirement, Sealed};

/// A free extent in [`Dims`].
///
/// ```
/// use dlbridge_pyo3::{ANY, Constraint, Dims};
///
/// assert_eq!(Dims::<ANY, 3>::REQUIREMENT.dims, [None, Some(3)]);
/// ```
pub const ANY: i64 = -1;

/// A missing dimension in [`Dims`].
const NONE: i64 = -2;

/// Extents, one for each dimension, up to six: a number for a fixed one, [`ANY`] for a free one. The macro
/// [`dims!`](crate::dims) writes this type.
///
/// ```
/// use dlbridge_pyo3::{ANY, Constraint, Dims};
///
/// assert_eq!(Dims::<ANY, ANY, 3>::REQUIREMENT.dims, [None, None, Some(3)]);
/// ```
pub struct Dims<
    const A: i64,
    const B: i64 = NONE,
    const C: i64 = NONE,
    const D: i64 = NONE,
    const E: i64 = NONE,
    const F: i64 = NONE,
>;

impl<const A: i64, const B: i64, const C: i64, const D: i64, const E: i64, const F: i64>
    Dims<A, B, C, D, E, F>
{
    const EXTENTS: [Option<usize>; 6] = [
        Self::extent(A),
        Self::extent(B),
        Self::extent(C),
        Self::extent(D),
        Self::extent(E),
        Self::extent(F),
    ];

    const fn extent(extent: i64) -> Option<usize> {
        assert!(extent >= NONE, "an extent is a number or ANY");
        if extent < 0 { None } else { Some(extent as usize) }
    }

    const fn count() -> usize {
        let all = [A, B, C, D, E, F];
        let mut count = 0;
        while count < all.len() && all[count] != NONE {
            count += 1;
        }
        let mut rest = count;
        while rest < all.len() {
            assert!(all[rest] == NONE, "an extent is a number or ANY");
            rest += 1;
        }
        count
    }
}

impl<const A: i64, const B: i64, const C: i64, const D: i64, const E: i64, const F: i64> Sealed
    for Dims<A, B, C, D, E, F>
{
}

impl<const A: i64, const B: i64, const C: i64, const D: i64, const E: i64, const F: i64> Constraint
    for Dims<A, B, C, D, E, F>
{
    const REQUIREMENT: Requirement =
        Requirement { dims: Self::EXTENTS.split_at(Self::count()).0, ..Requirement::NONE };
}

/// The type [`Dims`] with these extents; `_` is a free one.
///
/// ```
/// use dlbridge_pyo3::{Constraint, dims};
///
/// const CHANNELS: i64 = 4;
/// assert_eq!(<dims!(_, 2, { CHANNELS })>::REQUIREMENT.dims, [None, Some(2), Some(4)]);
/// ```
#[macro_export]
macro_rules! dims {
    (@ [$($known:tt)*]) => { $crate::Dims<$($known)*> };
    (@ [$($known:tt)*] _ $(, $($rest:tt)*)?) => {
        $crate::dims!(@ [$($known)* { $crate::ANY },] $($($rest)*)?)
    };
    (@ [$($known:tt)*] $extent:tt $(, $($rest:tt)*)?) => {
        $crate::dims!(@ [$($known)* $extent,] $($($rest)*)?)
    };
    ($($extent:tt)+) => { $crate::dims!(@ [] $($extent)+) };
}
