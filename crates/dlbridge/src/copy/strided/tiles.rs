//! Transposes a plane in square tiles, through a buffer.
//!
//! Rows a power of two apart map to the same few cache sets. So a tile is read and written in whole cache lines: no
//! line has to stay in the cache until its next piece is needed.

use core::mem::MaybeUninit;

use super::axis::{Axis, Ends, SIDE};
use super::dispatch::for_each_processor;
use super::piece::Piece;
use super::{runs, squares};

/// Sides up to this length have loops of their own.
const NARROW: usize = 4;

/// True if a plane is a transpose: contiguous along the column in the source and along the row in the target.
pub(super) fn fits<P: Piece>(column: &Axis, row: &Axis) -> bool {
    let size = size_of::<P>() as isize;
    (column.from, row.to) == (size, size)
        && row.from.abs() > size
        && column.extent > NARROW
        && row.extent > NARROW
}

/// Copies a plane that fits.
///
/// # Safety
/// Places, for two axes that [`fits`] accepts, and pieces of the size of `P`.
pub(super) unsafe fn transpose<P: Piece>(column: &Axis, row: &Axis, ends: Ends) {
    // SAFETY: Places and `fits` hold for the axes and ends of the caller. A side is 64 bytes of pieces, or 8 pieces.
    unsafe {
        // A cache line has 64 bytes.
        match size_of::<P>() {
            1 => by_tiles::<P, SIDE>(column, row, ends),
            2 => by_tiles::<P, 32>(column, row, ends),
            4 => by_tiles::<P, 16>(column, row, ends),
            _ => by_tiles::<P, 8>(column, row, ends),
        }
    }
}

/// The number of tile rows written side by side: then more than one line of each source page is read while its address
/// is in the TLB.
const ROWS: usize = 8;

for_each_processor! {
    /// # Safety
    /// That of [`transpose`]; sixteen bytes are one piece, or a number of pieces that divides `T`.
    unsafe fn by_tiles<P, T>(column, row, ends) by by_tiles_loops
}

/// # Safety
/// That of [`by_tiles`].
#[inline(always)]
unsafe fn by_tiles_loops<P: Piece, const T: usize>(column: &Axis, row: &Axis, ends: Ends) {
    for top in (0..column.extent).step_by(T * ROWS) {
        for left in (0..row.extent).step_by(T) {
            for top in (top..column.extent.min(top + T * ROWS)).step_by(T) {
                // The last tiles overlap those before them, so that they are whole: some pieces are written twice.
                let top = top.min(column.extent.saturating_sub(T));
                let left = left.min(row.extent.saturating_sub(T));
                let ends = ends.at(column, top).at(row, left);
                let column = Axis { extent: T.min(column.extent - top), ..*column };
                let row = Axis { extent: T.min(row.extent - left), ..*row };
                // SAFETY: Places: some indices of both axes, `T` of each at most; `T` of each in the first case. The
                // strides are those of the caller's axes, so `fits` still holds.
                unsafe {
                    match (column.extent, row.extent) == (T, T) {
                        true => tile::<P, T>(&column, &row, ends),
                        false => part_of_tile::<P, T>(&column, &row, ends),
                    }
                }
            }
        }
    }
}

/// # Safety
/// That of [`by_tiles`], for `T` indices of both axes.
#[inline(always)]
unsafe fn tile<P: Piece, const T: usize>(column: &Axis, row: &Axis, ends: Ends) {
    let mut lines = [const { MaybeUninit::<[P; T]>::uninit() }; T];
    for (j, line) in lines.iter_mut().enumerate() {
        // SAFETY: Places: the `T` indices of the column, inside index `j` of the row. `fits` found them contiguous in
        // the source.
        let read = unsafe { ends.at(row, j).from.cast::<[P; T]>().read_unaligned() };
        line.write(read).iter_mut().for_each(|piece| *piece = piece.moved());
    }
    // SAFETY: every line was written. Places: the target has `T` pieces at each index of the column, where `fits` found
    // the row contiguous. The caller guarantees that the pieces in sixteen bytes divide `T`.
    unsafe { squares::transpose::<P, T>(lines.as_ptr().cast(), ends.to, column.to) }
}

/// The same for a tile of a plane that is narrower than a whole tile.
///
/// # Safety
/// That of [`by_tiles`], for `T` indices of an axis at most.
#[inline(never)]
unsafe fn part_of_tile<P: Piece, const T: usize>(column: &Axis, row: &Axis, ends: Ends) {
    let mut lines = [[P::default(); T]; T];
    for (j, line) in lines[..row.extent].iter_mut().enumerate() {
        let ends = Ends { to: line.as_mut_ptr().cast(), ..ends.at(row, j) };
        // SAFETY: Places: the indices of the column, inside index `j` of the row, contiguous in the source (`fits`).
        // The line has room for `T` of them, and is memory of this function.
        unsafe { runs::run(ends, column.extent * size_of::<P>()) };
    }
    let mut turned = [[P::default(); T]; T];
    let step = size_of::<[P; T]>() as isize;
    // SAFETY: both are whole tiles of this function, with rows `step` bytes apart. The caller guarantees that the
    // pieces in sixteen bytes divide `T`.
    unsafe { squares::transpose::<P, T>(lines.as_ptr(), turned.as_mut_ptr().cast(), step) };
    for (i, line) in turned[..column.extent].iter_mut().enumerate() {
        line.iter_mut().for_each(|piece| *piece = piece.moved());
        let ends = Ends { from: line.as_ptr().cast(), ..ends.at(column, i) };
        // SAFETY: Places: the indices of the row, inside index `i` of the column, contiguous in the target (`fits`).
        // The line has `T` of them, and is memory of this function.
        unsafe { runs::run(ends, row.extent * size_of::<P>()) };
    }
}
