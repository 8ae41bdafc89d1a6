//! The elements of one layout written to another: which loops do it, and on how many threads.
//!
//! The axes are put in the order of the target and joined where both sides step evenly. What is left
//! is one of four things: a run of bytes, runs with gaps (`runs.rs`), single pieces in much the same
//! order on both sides (`strips.rs`), or the transpose of a plane (`tiles.rs`).
//!
//! - **Places.** A function that takes axes and [`Ends`] is given ones where each index leads to a piece
//!   that can be read, at `from`, and to one that can be written, at `to`; no byte is in two pieces
//!   of the target, or in one of each side, and nobody else writes any.

mod axis;
mod piece;
mod runs;
mod squares;
mod strips;
#[cfg(test)]
mod tests;
mod tiles;

use alloc::vec::Vec;

use super::threads;
use axis::{Axis, Ends, with_axes};
use piece::{Piece, Swapped};

/// Two layouts of the same shape, and the bytes of an element. Strides count elements.
pub(super) struct Layouts<'a> {
    pub(super) shape: &'a [i64],
    pub(super) from: &'a [i64],
    pub(super) to: &'a [i64],
    pub(super) itemsize: usize,
}

/// Loops that copy pieces of so many bytes. Their contract is Places.
type Loops = unsafe fn(&[Axis], Ends, usize);

/// Copies elements to the same indices of another layout.
///
/// # Safety
/// There are elements. `from` and `to` point at the element at index zero; `from` is valid for reads
/// of the byte extent of its layout, `to` for writes of its own, and no byte is in both. No two
/// indices lead to the same element of the target.
pub(super) unsafe fn copy_strided(from: *const u8, to: *mut u8, layouts: &Layouts<'_>) {
    with_axes(layouts, None, |axes, size| {
        let loops = match size {
            1 => pieces::<u8>,
            2 => pieces::<u16>,
            4 => pieces::<u32>,
            8 => pieces::<u64>,
            16 => pieces::<u128>,
            _ => runs::copy,
        };
        // SAFETY: Places, of the elements of both layouts, or of runs of them.
        unsafe { on_threads(axes, Ends { from, to }, size, loops) }
    });
}

/// Whether [`copy_swapped`] can reverse so many bytes.
pub(super) const fn can_swap(number: usize) -> bool {
    matches!(number, 2 | 4 | 8 | 16)
}

/// The same, with the bytes of each number reversed: of each `number` bytes of an element.
///
/// # Safety
/// That of [`copy_strided`]. Elements are whole numbers, of a size that [`can_swap`] knows.
pub(super) unsafe fn copy_swapped(
    from: *const u8,
    to: *mut u8,
    layouts: &Layouts<'_>,
    number: usize,
) {
    debug_assert!(can_swap(number));
    with_axes(layouts, Some(number), |axes, size| {
        let loops = match size {
            2 => pieces::<Swapped<u16>>,
            4 => pieces::<Swapped<u32>>,
            8 => pieces::<Swapped<u64>>,
            _ => pieces::<Swapped<u128>>,
        };
        // SAFETY: Places, of the numbers of both layouts: `size` is `number`.
        unsafe { on_threads(axes, Ends { from, to }, size, loops) }
    });
}

/// Copies pieces of `size` bytes, on several threads if it is worth it.
///
/// # Safety
/// Places.
unsafe fn on_threads(axes: &[Axis], ends: Ends, size: usize, loops: Loops) {
    let pieces = axes.iter().fold(1, |pieces, axis| pieces * axis.extent);
    let bytes = size * pieces;
    let parts = threads::parts(bytes, if moves_several(axes, size) { pieces / 8 } else { pieces });
    if parts == 1 {
        // SAFETY: by contract.
        return unsafe { loops(axes, ends, size) };
    }
    // The outermost axis that can be cut evenly; or else, unless one piece is enough for all threads,
    // the longest.
    let even = axes.iter().position(|axis| axis.extent >= 8 * parts);
    let longest = (0..axes.len()).max_by_key(|&axis| axes[axis].extent);
    match even.or(longest.filter(|_| threads::parts(size, 1) == 1)) {
        Some(cut) => threads::split(axes[cut].extent, parts, tiles::SIDE, &|begin, end| {
            let (mut axes, ends) = (Vec::from(axes), ends.at(&axes[cut], begin));
            axes[cut].extent = end - begin;
            // SAFETY: Places, for some indices of one axis, which no other thread has.
            unsafe { loops(&axes, ends, size) }
        }),
        // SAFETY: by contract.
        None => unsafe { long_runs(axes, ends, size) },
    }
}

/// Whether the loops are ones that move several pieces at once.
fn moves_several(axes: &[Axis], size: usize) -> bool {
    axes.last().is_none_or(|row| {
        let near = row.from.unsigned_abs() <= 4 * size;
        row.extent <= 4 || (near && row.to == size as isize)
    })
}

/// Copies pieces one after the other, all threads at the same one.
///
/// # Safety
/// Places.
unsafe fn long_runs(axes: &[Axis], ends: Ends, size: usize) {
    if let [outer, inner @ ..] = axes {
        for i in 0..outer.extent {
            // SAFETY: Places, for one index of the outer axis.
            unsafe { long_runs(inner, ends.at(outer, i), size) }
        }
        return;
    }
    // SAFETY: Places, for one piece.
    unsafe { copy_bytes(ends.from, ends.to, size) }
}

/// Copies adjacent bytes, on several threads if it is worth it.
///
/// # Safety
/// So many bytes can be read at `from`, and as many others written at `to`, by nobody else.
pub(super) unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    let (axis, ends) = (Axis { extent: bytes, from: 1, to: 1 }, Ends { from, to });
    // Whole pages, so that no two threads meet in a new one.
    threads::split(bytes, threads::parts(bytes, 1), 4096, &|begin, end| {
        let ends = ends.at(&axis, begin);
        // SAFETY: by contract, for bytes that no other thread has.
        unsafe { ends.from.copy_to_nonoverlapping(ends.to, end - begin) }
    });
}

/// Pieces that are copied sooner than it is found out how best to copy them.
const FEW: usize = 64;

/// Copies pieces of the size of `P` one by one, or plane by plane if they are many.
///
/// # Safety
/// Places, for pieces of the size of `P`.
unsafe fn pieces<P: Piece>(axes: &[Axis], ends: Ends, _: usize) {
    let pieces = axes.iter().fold(1, |pieces, axis| pieces * axis.extent);
    // SAFETY: by contract.
    unsafe {
        match pieces <= FEW {
            true => strips::one_by_one::<P>(axes, ends),
            false => planes::<P>(axes, ends),
        }
    }
}

/// Copies the planes of the two innermost axes.
///
/// # Safety
/// Places, for pieces of the size of `P`.
unsafe fn planes<P: Piece>(axes: &[Axis], ends: Ends) {
    // SAFETY: by contract; for one index of the outer axis in the last case.
    unsafe {
        match axes {
            [] => strips::one_by_one::<P>(axes, ends),
            [row] => strips::blocks::<P>(&Axis { extent: 1, ..*row }, row, ends),
            [column, row] if tiles::fits::<P>(column, row) => {
                tiles::transpose::<P>(column, row, ends);
            }
            [column, row] => strips::plane::<P>(column, row, ends),
            // Each axis has two indices at least, so the depth is below the bits of an address.
            [outer, inner @ ..] => {
                (0..outer.extent).for_each(|i| planes::<P>(inner, ends.at(outer, i)));
            }
        }
    }
}
