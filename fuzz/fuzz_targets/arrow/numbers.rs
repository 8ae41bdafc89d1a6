//! Numbers that are mostly valid.

use arbitrary::{Result, Unstructured};

/// Returns mostly the right value, otherwise a wrong one.
pub(crate) fn pick<T: Copy>(u: &mut Unstructured<'_>, right: T, wrong: &[T]) -> Result<T> {
    if u.int_in_range(0..=19)? == 19 { Ok(*u.choose(wrong)?) } else { Ok(right) }
}

/// Returns true for few inputs.
pub(crate) fn seldom(u: &mut Unstructured<'_>) -> Result<bool> {
    pick(u, false, &[true])
}

pub(crate) const COUNTS: &[i64] = &[0, 1, 2, 3, -1, i64::MIN, 1 << 62, i64::MAX];

/// Numbers of bytes and elements that exceed the address space, or nearly fill it.
pub(crate) const LARGE: &[i64] =
    &[1 << 40, 1 << 54, (1 << 57) + 1, 1 << 58, 1 << 61, 1 << 62, i64::MAX];

/// The largest number of elements that get memory.
pub(crate) const MOST_MADE: i128 = 1 << 12;

/// More bytes than this are refused.
pub(crate) const MOST: i128 = 1 << 57;
