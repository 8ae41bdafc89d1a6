//! Runs of contiguous bytes with gaps between them.

use super::axis::{Axis, Ends};

/// Copies pieces of `size` bytes, in blocks where one side is the transpose of the other.
///
/// # Safety
/// Places.
pub(super) unsafe fn copy(axes: &[Axis], ends: Ends, size: usize) {
    // SAFETY: Places: a run is that of one index of each axis, all below their extents; a recursive call gets the axes
    // inside one index.
    unsafe {
        match axes {
            [] => run(ends, size),
            [row] => (0..row.extent).for_each(|j| run(ends.at(row, j), size)),
            [column, row] => {
                let (height, width) = (column.extent.min(32), row.extent.min(32));
                for top in (0..column.extent).step_by(height) {
                    for left in (0..row.extent).step_by(width) {
                        for i in top..column.extent.min(top + height) {
                            let ends = ends.at(column, i);
                            for j in left..row.extent.min(left + width) {
                                run(ends.at(row, j), size);
                            }
                        }
                    }
                }
            }
            [outer, inner @ ..] => {
                (0..outer.extent).for_each(|i| copy(inner, ends.at(outer, i), size))
            }
        }
    }
}

/// Copies one run. A short run is copied as two words that may overlap, which is faster than a call.
///
/// # Safety
/// Places, for one piece.
#[inline(always)]
pub(super) unsafe fn run(Ends { from, to }: Ends, size: usize) {
    /// # Safety
    /// `size` is at least one word and at most two.
    #[inline(always)]
    unsafe fn ends_of<W: Copy>(from: *const u8, to: *mut u8, size: usize) {
        let rest = size - size_of::<W>();
        // SAFETY: both words are within the run.
        unsafe {
            let (first, last) = (from.cast::<W>().read_unaligned(), from.add(rest).cast::<W>());
            let last = last.read_unaligned();
            to.cast::<W>().write_unaligned(first);
            to.add(rest).cast::<W>().write_unaligned(last);
        }
    }
    // SAFETY: Places: `size` bytes can be read at `from`, and as many others written at `to`. In each arm a word has
    // at most `size` bytes, and two words have at least `size` bytes.
    unsafe {
        match size {
            2..=4 => ends_of::<u16>(from, to, size),
            5..=8 => ends_of::<u32>(from, to, size),
            9..=16 => ends_of::<u64>(from, to, size),
            17..=32 => ends_of::<u128>(from, to, size),
            33..=64 => ends_of::<[u128; 2]>(from, to, size),
            _ => from.copy_to_nonoverlapping(to, size),
        }
    }
}
