//! The transpose of a plane, in square tiles that go through a buffer.
//!
//! Rows that are a power of two apart fall into the same few places of a cache, which is why a tile is
//! read whole lines at a time and written whole lines at a time: none has to stay in the cache until
//! its next piece is due.

use core::mem::MaybeUninit;

use super::axis::{Axis, Ends};
use super::piece::Piece;
use super::strips;

/// The longest side of a tile, in pieces.
pub(super) const SIDE: usize = 64;

/// Whether a plane is the transpose of one: adjacent along the column in the source and along the row in
/// the target, and on no side narrower than a tile.
pub(super) fn fits<P: Piece>(column: &Axis, row: &Axis) -> bool {
    let (size, side) = (size_of::<P>() as isize, side::<P>());
    (column.from, row.to) == (size, size)
        && row.from.abs() > size
        && column.extent >= side
        && row.extent >= side
}

/// Pieces on a side of a tile: a line of a cache has 64 bytes.
const fn side<P>() -> usize {
    match size_of::<P>() {
        1 => 64,
        2 => 32,
        4 => 16,
        _ => 8,
    }
}

/// Copies a plane that fits.
///
/// # Safety
/// Places, for two axes and pieces of the size of `P`.
pub(super) unsafe fn transpose<P: Piece>(column: &Axis, row: &Axis, ends: Ends) {
    // SAFETY: by contract.
    unsafe {
        match side::<P>() {
            64 => by_tiles::<P, 64>(column, row, ends),
            32 => by_tiles::<P, 32>(column, row, ends),
            16 => by_tiles::<P, 16>(column, row, ends),
            _ => by_tiles::<P, 8>(column, row, ends),
        }
    }
}

/// Rows of tiles that are written side by side, so that of each page of the source more than a line
/// is read while the processor knows where it is.
const ROWS: usize = 4;

/// # Safety
/// That of [`transpose`].
unsafe fn by_tiles<P: Piece, const T: usize>(column: &Axis, row: &Axis, ends: Ends) {
    let (height, width) = (column.extent / T * T, row.extent / T * T);
    for top in (0..height).step_by(T * ROWS) {
        for left in (0..width).step_by(T) {
            for top in (top..height.min(top + T * ROWS)).step_by(T) {
                // SAFETY: by contract, for some indices of both axes.
                unsafe { tile::<P, T>(column, row, ends.at(column, top).at(row, left)) }
            }
        }
    }
    // What is left at the right, over the whole height, and at the bottom.
    let right = Axis { extent: row.extent - width, ..*row };
    let bottom = Axis { extent: column.extent - height, ..*column };
    // SAFETY: as above.
    unsafe {
        if right.extent > 0 {
            strips::plane::<P>(column, &right, ends.at(row, width));
        }
        if bottom.extent > 0 {
            strips::plane::<P>(&bottom, &Axis { extent: width, ..*row }, ends.at(column, height));
        }
    }
}

/// # Safety
/// That of [`transpose`], for `T` indices of both axes.
#[inline(always)]
unsafe fn tile<P: Piece, const T: usize>(column: &Axis, row: &Axis, ends: Ends) {
    let mut lines = [const { MaybeUninit::<[P; T]>::uninit() }; T];
    for (j, line) in lines.iter_mut().enumerate() {
        // SAFETY: by contract: adjacent in the source.
        line.write(unsafe { ends.at(row, j).from.cast::<[P; T]>().read_unaligned() });
    }
    for i in 0..T {
        // SAFETY: every line was written.
        let line: [P; T] =
            core::array::from_fn(|j| unsafe { lines[j].assume_init_ref()[i] }.moved());
        // SAFETY: by contract: adjacent in the target.
        unsafe { ends.at(column, i).to.cast::<[P; T]>().write_unaligned(line) }
    }
}
