//! The loops that copy elements between two layouts: runs where both are adjacent, blocks where one
//! is the transpose of the other.

use alloc::vec::Vec;

/// One axis of a copy, with the byte strides of source and target.
#[derive(Clone, Copy)]
struct Axis {
    extent: usize,
    from: isize,
    to: isize,
}

impl Axis {
    /// How far an index is from index zero in the source, in bytes.
    #[inline(always)]
    fn from(&self, index: usize) -> isize {
        index as isize * self.from
    }

    /// The same in the target.
    #[inline(always)]
    fn to(&self, index: usize) -> isize {
        index as isize * self.to
    }
}

/// Elements in a block of a transposed copy: what both sides touch of it stays in the first cache.
const BLOCK: usize = 1024;

/// Copies elements of `itemsize` bytes to the same indices of another layout. Strides count
/// elements.
///
/// # Safety
/// There are elements. `from` and `to` point at the element at index zero; `from` is valid for reads
/// of the byte extent of its layout, `to` for writes of its own, and no byte is in both. No two
/// indices lead to the same element of the target.
pub(super) unsafe fn copy_strided(
    from: *const u8,
    from_strides: &[i64],
    to: *mut u8,
    to_strides: &[i64],
    shape: &[i64],
    itemsize: usize,
) {
    let mut axes = axes(shape, from_strides, to_strides, itemsize as isize);
    let mut size = itemsize;
    if let Some(run) = axes.pop_if(|axis| axis.from == size as isize && axis.to == size as isize) {
        size *= run.extent;
    }
    // The axis along which the source is nearest to adjacent goes last but one, if it is another
    // than that of the target.
    if let Some(nearest) = (0..axes.len()).min_by_key(|&axis| axes[axis].from.unsigned_abs())
        && nearest + 1 < axes.len()
    {
        let end = axes.len() - 1;
        axes[nearest..end].rotate_left(1);
    }
    // SAFETY: the axes lead to the elements of both layouts, each once, or to runs of them.
    unsafe {
        match size {
            1 => copy_all::<1>(&axes, from, to, size),
            2 => copy_all::<2>(&axes, from, to, size),
            4 => copy_all::<4>(&axes, from, to, size),
            8 => copy_all::<8>(&axes, from, to, size),
            16 => copy_all::<16>(&axes, from, to, size),
            _ => copy_all::<0>(&axes, from, to, size),
        }
    }
}

/// The axes that matter, in the order in which the target lies in memory, neighbours that step
/// evenly on both sides as one.
fn axes(shape: &[i64], from: &[i64], to: &[i64], itemsize: isize) -> Vec<Axis> {
    let all = (0..shape.len()).filter(|&axis| shape[axis] != 1).map(|axis| Axis {
        extent: shape[axis] as usize,
        // Within the byte extent nothing overflows where a step is taken.
        from: from[axis] as isize * itemsize,
        to: to[axis] as isize * itemsize,
    });
    let mut sorted: Vec<Axis> = all.collect();
    sorted.sort_by_key(|axis| core::cmp::Reverse(axis.to.unsigned_abs()));
    let mut axes: Vec<Axis> = Vec::with_capacity(sorted.len());
    for inner in sorted {
        let steps = |stride: isize| stride.checked_mul(inner.extent as isize);
        match axes.last_mut() {
            Some(outer)
                if steps(inner.from) == Some(outer.from) && steps(inner.to) == Some(outer.to) =>
            {
                *outer = Axis { extent: outer.extent * inner.extent, ..inner };
            }
            _ => axes.push(inner),
        }
    }
    axes
}

/// Copies pieces of `size` bytes, which is `SIZE` unless that is 0.
///
/// # Safety
/// Each index of the axes leads to a piece that can be read, and to another one that can be written.
unsafe fn copy_all<const SIZE: usize>(axes: &[Axis], from: *const u8, to: *mut u8, size: usize) {
    let piece = |from: *const u8, to: *mut u8| {
        // SAFETY: by this function's contract; the callers below pass the places of one index.
        unsafe {
            match SIZE {
                0 => from.copy_to_nonoverlapping(to, size),
                _ => from.cast::<[u8; SIZE]>().copy_to_nonoverlapping(to.cast(), 1),
            }
        }
    };
    match *axes {
        [] => piece(from, to),
        [row] => {
            for i in 0..row.extent {
                piece(from.wrapping_offset(row.from(i)), to.wrapping_offset(row.to(i)));
            }
        }
        [column, row] => {
            let height = column.extent.min(32);
            let width = row.extent.min(BLOCK / height);
            for top in (0..column.extent).step_by(height) {
                for left in (0..row.extent).step_by(width) {
                    for i in top..column.extent.min(top + height) {
                        let from = from.wrapping_offset(column.from(i));
                        let to = to.wrapping_offset(column.to(i));
                        for j in left..row.extent.min(left + width) {
                            piece(from.wrapping_offset(row.from(j)), to.wrapping_offset(row.to(j)));
                        }
                    }
                }
            }
        }
        // Each axis has two indices at least, so the depth is below the bits of an address.
        [outer, ref inner @ ..] => {
            for i in 0..outer.extent {
                let from = from.wrapping_offset(outer.from(i));
                let to = to.wrapping_offset(outer.to(i));
                // SAFETY: the same contract, for one index of the outer axis.
                unsafe { copy_all::<SIZE>(inner, from, to, size) }
            }
        }
    }
}
