//! Copies pieces one by one. Common steps are constants in these loops, so the compiler vectorises them.
//!
//! The loops are compiled twice on x86-64: for all processors, which have 16-byte registers and few instructions to
//! move bytes within one, and for AVX2, which nearly all processors have.

use super::axis::{Axis, Ends};
use super::dispatch::for_each_processor;
use super::piece::{Piece, steps};

/// Pieces along one side of a block: the bytes of both sides fit in the first-level cache.
const BLOCK: usize = 1024;

/// Copies the pieces along one axis.
///
/// # Safety
/// Places, for pieces of the size of `P`.
#[inline(always)]
unsafe fn strip<P: Piece>(axis: &Axis, ends: Ends) {
    let size = size_of::<P>() as isize;
    // SAFETY: Places: the extent of the axis with its own strides. After the first test `to` is `size`, and the match
    // found `from` equal to each product that is passed for it.
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

/// Fills a run with one piece.
///
/// # Safety
/// Places, for an axis that is contiguous in the target and has a source stride of 0.
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

/// Copies a plane that `tiles` does not handle.
///
/// # Safety
/// Places, for two axes and pieces of the size of `P`.
pub(super) unsafe fn plane<P: Piece>(column: &Axis, row: &Axis, ends: Ends) {
    // SAFETY: Places: the axes and ends of the caller, in either order. At each call of `weave`, `weaves` is true and
    // `K` is the extent of the row.
    unsafe {
        match (column.extent, row.extent) {
            // The channels of a picture: from one plane per channel to interleaved pixels.
            (_, 2) if weaves::<P>(column, row) => weave::<P, 2>(column, row, ends),
            (_, 3) if weaves::<P>(column, row) => weave::<P, 3>(column, row, ends),
            (_, 4) if weaves::<P>(column, row) => weave::<P, 4>(column, row, ends),
            (height, width) if width < 8 && width < height => blocks::<P>(row, column, ends),
            _ => blocks::<P>(column, row, ends),
        }
    }
}

/// True if the column is contiguous in the source, and both axes together in the target.
fn weaves<P: Piece>(column: &Axis, row: &Axis) -> bool {
    let size = size_of::<P>() as isize;
    (column.from, row.to, column.to) == (size, size, row.extent as isize * size)
}

for_each_processor! {
    /// Interleaves pieces from `K` places.
    ///
    /// # Safety
    /// Places, for axes that [`weaves`] accepts and pieces of the size of `P`; the row has `K` indices.
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

/// Copies strips along the inner axis, in blocks if the outer axis has the smaller stride on either side.
///
/// # Safety
/// Places, for two axes and pieces of the size of `P`.
#[inline(always)]
unsafe fn blocks<P: Piece>(outer: &Axis, inner: &Axis, ends: Ends) {
    let nearer = |outer: isize, inner: isize| outer.unsigned_abs() < inner.unsigned_abs();
    // SAFETY: Places: the axes and ends of the caller.
    unsafe {
        match nearer(outer.from, inner.from) || nearer(outer.to, inner.to) {
            true => block_by_block::<P>(outer, inner, ends),
            false => strips::<P>(outer, inner, ends),
        }
    }
}

/// # Safety
/// That of [`blocks`].
#[inline(never)]
unsafe fn block_by_block<P: Piece>(outer: &Axis, inner: &Axis, ends: Ends) {
    let height = outer.extent.min(32);
    let width = BLOCK / height;
    for top in (0..outer.extent).step_by(height) {
        for left in (0..inner.extent).step_by(width) {
            let rows = Axis { extent: height.min(outer.extent - top), ..*outer };
            let part = Axis { extent: width.min(inner.extent - left), ..*inner };
            // SAFETY: Places: some indices of both axes.
            unsafe { strips::<P>(&rows, &part, ends.at(outer, top).at(inner, left)) }
        }
    }
}

for_each_processor! {
    /// Copies strips along the inner axis.
    ///
    /// # Safety
    /// Places, for two axes and pieces of the size of `P`.
    #[inline]
    pub(super) unsafe fn strips<P>(outer, inner, ends) by strips_loops
}

/// # Safety
/// That of [`strips`].
#[inline(always)]
unsafe fn strips_loops<P: Piece>(outer: &Axis, inner: &Axis, ends: Ends) {
    for i in 0..outer.extent {
        // SAFETY: Places: the inner axis, inside one index of the outer one.
        unsafe { strip::<P>(inner, ends.at(outer, i)) }
    }
}
