//! Copies elements from one layout to another: chooses the loops and the number of threads.
//!
//! It sorts the axes by the strides of the target, and joins axes that step evenly on both sides. One of four cases is
//! left: a run of bytes, runs with gaps (`runs.rs`), single pieces in a similar order on both sides (`strips.rs`), or
//! the transpose of a plane (`tiles.rs`). Without the feature `fast-copies`, whose code is large, plain loops copy
//! single pieces (`piece.rs`).
//!
//! - **Places.** The caller of a function with axes and [`Ends`] guarantees this: each index leads to a readable piece
//!   at `from` and a writable piece at `to`; no byte is in two pieces of the target, or in a piece of each side; no
//!   other code writes any of them. A function that passes on some indices of an axis, or the axes inside one index,
//!   passes on Places.

mod axis;
#[cfg(feature = "fast-copies")]
mod dispatch;
mod piece;
mod runs;
#[cfg(feature = "fast-copies")]
mod squares;
#[cfg(feature = "fast-copies")]
mod strips;
#[cfg(test)]
mod tests;
#[cfg(feature = "fast-copies")]
mod tiles;

use alloc::vec::Vec;

use crate::copy::blocks::Blocks;
use crate::threads;
pub(crate) use axis::Layouts;
use axis::{Axis, Ends, SIDE, with_axes};
use piece::{Piece, Swapped};

/// Loops that copy pieces of the given number of bytes. Their contract is Places.
type Loops = unsafe fn(&[Axis], Ends, usize);

/// Copies elements to the same indices of another layout.
///
/// # Safety
/// The layout has at least one element. `from` and `to` point at the element at index zero; `from` is valid for reads
/// of the byte extent of its layout, `to` for writes of its own, and no byte is in both. No two indices lead to the
/// same element of the target.
pub(super) unsafe fn copy_strided(from: *const u8, to: *mut u8, layouts: &Layouts<'_>) {
    // SAFETY: the caller guarantees the same of the same pointers and layouts; blocks change nothing about them.
    unsafe { copy_strided_while(from, to, layouts, &mut Blocks::one(&mut || true)) };
}

/// The same in blocks. Returns true if all elements were copied.
///
/// # Safety
/// That of [`copy_strided`].
pub(super) unsafe fn copy_strided_while(
    from: *const u8,
    to: *mut u8,
    layouts: &Layouts<'_>,
    blocks: &mut Blocks<'_>,
) -> bool {
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
        unsafe { in_blocks(axes, Ends { from, to }, size, loops, blocks) }
    })
}

/// True if [`copy_swapped`] can reverse numbers of this size.
pub(super) const fn can_swap(number: usize) -> bool {
    matches!(number, 2 | 4 | 8 | 16)
}

/// The same, with the bytes of each `number` bytes of an element reversed.
///
/// # Safety
/// That of [`copy_strided`]. Elements are whole numbers, of a size that [`can_swap`] knows.
pub(super) unsafe fn copy_swapped(
    from: *const u8,
    to: *mut u8,
    layouts: &Layouts<'_>,
    number: usize,
    blocks: &mut Blocks<'_>,
) -> bool {
    debug_assert!(can_swap(number));
    with_axes(layouts, Some(number), |axes, size| {
        let loops = match size {
            2 => pieces::<Swapped<u16>>,
            4 => pieces::<Swapped<u32>>,
            8 => pieces::<Swapped<u64>>,
            _ => pieces::<Swapped<u128>>,
        };
        // SAFETY: Places, of the numbers of both layouts: `size` is `number`.
        unsafe { in_blocks(axes, Ends { from, to }, size, loops, blocks) }
    })
}

/// Copies pieces of `size` bytes in blocks. Returns true if all were copied.
///
/// # Safety
/// Places.
unsafe fn in_blocks(
    axes: &[Axis],
    ends: Ends,
    size: usize,
    loops: Loops,
    blocks: &mut Blocks<'_>,
) -> bool {
    let pieces = axes.iter().fold(1, |pieces, axis| pieces * axis.extent);
    let count = blocks.count(size * pieces);
    if count == 1 {
        // SAFETY: Places: the axes and ends of the caller.
        unsafe { on_threads(axes, ends, size, loops) };
        return true;
    }
    // As for threads: cuts an axis that gives each block many indices, or else the longest, unless one piece fills a
    // block.
    let even = axes.iter().position(|axis| axis.extent >= SIDE * count);
    let longest = (0..axes.len()).max_by_key(|&axis| axes[axis].extent);
    let cut = even.or(longest.filter(|_| blocks.count(size) == 1));
    let extent = cut.or((!axes.is_empty()).then_some(0)).map_or(size, |axis| axes[axis].extent);
    let block = if cut.is_none() && !axes.is_empty() { 1 } else { extent.div_ceil(count) };
    for begin in (0..extent).step_by(block) {
        if begin != 0 && !blocks.go_on() {
            return false;
        }
        let end = extent.min(begin + block);
        match (cut, axes) {
            (Some(cut), _) => {
                let (mut part, ends) = (Vec::from(axes), ends.at(&axes[cut], begin));
                part[cut].extent = end - begin;
                // SAFETY: Places, for some indices of one axis.
                unsafe { on_threads(&part, ends, size, loops) };
            }
            (None, [outer, inner @ ..]) => {
                // SAFETY: Places, for one index of the outer axis.
                if !unsafe { in_blocks(inner, ends.at(outer, begin), size, loops, blocks) } {
                    return false;
                }
            }
            (None, []) => {
                let ends = ends.at(&Axis { extent, from: 1, to: 1 }, begin);
                // SAFETY: Places, for some bytes of the one piece.
                unsafe { copy_bytes(ends.from, ends.to, end - begin) };
            }
        }
    }
    true
}

/// Copies pieces of `size` bytes, on several threads if that pays.
///
/// # Safety
/// Places.
unsafe fn on_threads(axes: &[Axis], ends: Ends, size: usize, loops: Loops) {
    let pieces = axes.iter().fold(1, |pieces, axis| pieces * axis.extent);
    let parts = threads::parts(size * pieces);
    if parts == 1 {
        // SAFETY: Places: the axes and ends of the caller. `loops` was chosen for pieces of `size` bytes.
        return unsafe { loops(axes, ends, size) };
    }
    // Cuts the outermost axis that divides evenly, or else the longest, unless one piece has work for all threads.
    let even = axes.iter().position(|axis| axis.extent >= 8 * parts);
    let longest = (0..axes.len()).max_by_key(|&axis| axes[axis].extent);
    match even.or(longest.filter(|_| threads::parts(size) == 1)) {
        Some(cut) => threads::split(axes[cut].extent, parts, SIDE, &|begin, end| {
            let (mut axes, ends) = (Vec::from(axes), ends.at(&axes[cut], begin));
            axes[cut].extent = end - begin;
            // SAFETY: Places, for some indices of one axis, which no other thread has.
            unsafe { loops(&axes, ends, size) }
        }),
        // SAFETY: Places: the axes and ends of the caller.
        None => unsafe { long_runs(axes, ends, size) },
    }
}

/// Copies pieces one after the other; all threads share each piece.
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

/// Copies contiguous bytes, on several threads if that pays.
///
/// # Safety
/// `bytes` bytes are readable at `from` and `bytes` others writable at `to`; no other code writes either.
pub(super) unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    let (axis, ends) = (Axis { extent: bytes, from: 1, to: 1 }, Ends { from, to });
    // Whole pages, so that no two threads write to the same new page.
    threads::split(bytes, threads::parts(bytes), 4096, &|begin, end| {
        let ends = ends.at(&axis, begin);
        // SAFETY: `end` is at most `bytes`, which the caller guarantees at both ends; no other thread has these.
        unsafe { ends.from.copy_to_nonoverlapping(ends.to, end - begin) }
    });
}

/// Below this number of pieces, choosing a strategy costs more than copying.
#[cfg(feature = "fast-copies")]
const FEW: usize = 64;

/// Copies pieces of the size of `P`: one by one if they are few, else plane by plane.
///
/// # Safety
/// Places, for pieces of the size of `P`.
unsafe fn pieces<P: Piece>(axes: &[Axis], ends: Ends, _: usize) {
    // SAFETY: Places: the axes and ends of the caller, for pieces of the size of `P`.
    unsafe {
        #[cfg(feature = "fast-copies")]
        if axes.iter().fold(1, |pieces, axis| pieces * axis.extent) > FEW {
            return planes::<P>(axes, ends);
        }
        piece::one_by_one::<P>(axes, ends)
    }
}

/// Copies the planes of the two innermost axes.
///
/// # Safety
/// Places, for pieces of the size of `P`.
#[cfg(feature = "fast-copies")]
unsafe fn planes<P: Piece>(axes: &[Axis], ends: Ends) {
    // SAFETY: Places: all axes of the caller, besides one that has a single index; in the last case the axes inside one
    // index of the outer axis. `transpose` gets what `fits` accepts.
    unsafe {
        match axes {
            [] => piece::one_by_one::<P>(axes, ends),
            [row] => strips::strips::<P>(&Axis { extent: 1, ..*row }, row, ends),
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
