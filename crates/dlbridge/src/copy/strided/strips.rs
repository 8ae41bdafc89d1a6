//! Pieces one by one, in loops with steps that the compiler knows where they are common, so that it
//! moves several at once.
//!
//! The loops are compiled twice on x86-64: for all its processors, which have registers of 16 bytes and
//! little that moves bytes within one, and for those with AVX2, which are nearly all.

use super::axis::{Axis, Ends};
use super::dispatch::for_each_processor;
use super::piece::{Piece, steps};

/// Pieces on one side of a block: what both sides touch of it stays in the first cache.
const BLOCK: usize = 1024;

/// Copies the pieces along one axis.
///
/// # Safety
/// Places, for pieces of the size of `P`.
#[inline(always)]
unsafe fn strip<P: Piece>(axis: &Axis, ends: Ends) {
    let size = size_of::<P>() as isize;
    // SAFETY: Places: the extent of the axis, with strides that are its own: `to` is `size` behind the first test, and where
    // `from` is passed as a product, the match found it to be that.
    unsafe {
        if axis.to != size {
            return steps::<P>(axis.from, axis.to, axis.extent, ends);
        }
        match axis.from / size {
            _ if axis.from % size != 0 => steps::<P>(axis.from, size, axis.extent, ends),
            1 => steps::<P>(size, size, axis.extent, ends),
            -1 => steps::<P>(-size, size, axis.extent, ends),
            0 => fill::<P>(axis.extent, ends),
            2 => steps::<P>(2 * size, size, axis.extent, ends),
            3 => steps::<P>(3 * size, size, axis.extent, ends),
            4 => steps::<P>(4 * size, size, axis.extent, ends),
            _ => steps::<P>(axis.from, size, axis.extent, ends),
        }
    }
}

/// Writes one piece again and again.
///
/// # Safety
/// Places, for an axis that is adjacent in the target and stands still in the source.
#[inline(always)]
unsafe fn fill<P: Piece>(extent: usize, ends: Ends) {
    if extent > 0 {
        // SAFETY: Places: every index leads to the piece at `from`, and index `i` to the one behind `i` others at `to`.
        unsafe {
            let piece = ends.from.cast::<P>().read_unaligned().moved();
            for i in 0..extent {
                ends.to.cast::<P>().add(i).write_unaligned(piece);
            }
        }
    }
}

/// Copies a plane that is not one of tiles.
///
/// # Safety
/// Places, for two axes and pieces of the size of `P`.
pub(super) unsafe fn plane<P: Piece>(column: &Axis, row: &Axis, ends: Ends) {
    // SAFETY: Places: the axes and ends of the caller, in either order. Where `weave` is called, `weaves` is true, and `K` is the
    // extent of the row.
    unsafe {
        match (column.extent, row.extent) {
            // The channels of a picture, from planes of their own to one pixel after the other.
            (_, 2) if weaves::<P>(column, row) => weave::<P, 2>(column, row, ends),
            (_, 3) if weaves::<P>(column, row) => weave::<P, 3>(column, row, ends),
            (_, 4) if weaves::<P>(column, row) => weave::<P, 4>(column, row, ends),
            (height, width) if width < 8 && width < height => blocks::<P>(row, column, ends),
            _ => blocks::<P>(column, row, ends),
        }
    }
}

/// Whether the column is adjacent in the source, and both axes together are in the target.
fn weaves<P: Piece>(column: &Axis, row: &Axis) -> bool {
    let size = size_of::<P>() as isize;
    (column.from, row.to, column.to) == (size, size, row.extent as isize * size)
}

for_each_processor! {
    /// Copies pieces from `K` places in turn, one behind the other.
    ///
    /// # Safety
    /// Places, of axes of which [`weaves`] is true, for pieces of the size of `P`; the row has `K` indices.
    #[inline]
    unsafe fn weave<P, K>(column, row, ends) by weave_loops
}

/// # Safety
/// That of [`weave`].
#[inline(always)]
unsafe fn weave_loops<P: Piece, const K: usize>(column: &Axis, row: &Axis, ends: Ends) {
    let places: [*const P; K] = core::array::from_fn(|k| ends.at(row, k).from.cast());
    let to = ends.to.cast::<P>();
    for i in 0..column.extent {
        for (k, from) in places.iter().enumerate() {
            // SAFETY: Places: index `i` of the column and `k` of the row. `weaves` found the column contiguous in the
            // source, and both axes together in the target.
            unsafe { to.add(i * K + k).write_unaligned(from.add(i).read_unaligned().moved()) }
        }
    }
}

for_each_processor! {
    /// Copies strips along the inner axis, in blocks if another axis than that is nearer on either side.
    ///
    /// # Safety
    /// Places, for two axes and pieces of the size of `P`.
    #[inline]
    pub(super) unsafe fn blocks<P>(outer, inner, ends) by blocks_loops
}

/// # Safety
/// That of [`blocks`].
#[inline(always)]
unsafe fn blocks_loops<P: Piece>(outer: &Axis, inner: &Axis, ends: Ends) {
    let nearer = |outer: isize, inner: isize| outer.unsigned_abs() < inner.unsigned_abs();
    if !nearer(outer.from, inner.from) && !nearer(outer.to, inner.to) {
        for i in 0..outer.extent {
            // SAFETY: Places: the inner axis, inside one index of the outer one.
            unsafe { strip::<P>(inner, ends.at(outer, i)) }
        }
        return;
    }
    let height = outer.extent.min(32);
    let width = BLOCK / height;
    for top in (0..outer.extent).step_by(height) {
        for left in (0..inner.extent).step_by(width) {
            let part = Axis { extent: width.min(inner.extent - left), ..*inner };
            for i in top..outer.extent.min(top + height) {
                // SAFETY: Places: some indices of the inner axis, inside one index of the outer one.
                unsafe { strip::<P>(&part, ends.at(outer, i).at(inner, left)) }
            }
        }
    }
}
