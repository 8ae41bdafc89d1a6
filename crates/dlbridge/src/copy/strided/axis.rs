//! The axes of a copy, as few as there can be, in the order in which the target lies in memory.

use alloc::vec;

/// The longest side of a tile, in pieces.
pub(super) const SIDE: usize = 64;

/// Two layouts of the same shape, and the bytes of an element. Strides count elements.
pub(crate) struct Layouts<'a> {
    pub(crate) shape: &'a [i64],
    pub(crate) from: &'a [i64],
    pub(crate) to: &'a [i64],
    pub(crate) itemsize: usize,
}

/// One axis of a copy, with the byte strides of source and target.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Axis {
    pub(super) extent: usize,
    pub(super) from: isize,
    pub(super) to: isize,
}

/// Where the piece at index zero is, on both sides.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
}

// SAFETY: addresses. What is read and written there, and by whom, is in the contract of every function
// that does so.
unsafe impl Sync for Ends {}

impl Ends {
    /// The same for an index of an axis.
    #[inline(always)]
    pub(super) fn at(self, axis: &Axis, index: usize) -> Self {
        Self {
            from: self.from.wrapping_offset(index as isize * axis.from),
            to: self.to.wrapping_offset(index as isize * axis.to),
        }
    }
}

/// So many axes need no allocation.
const FEW: usize = 8;

/// Calls `copy` with the axes, and the bytes of a piece: of all that is adjacent on both sides, or of a
/// number if its bytes are `swapped`.
pub(super) fn with_axes<R>(
    layouts: &Layouts<'_>,
    swapped: Option<usize>,
    copy: impl FnOnce(&[Axis], usize) -> R,
) -> R {
    let (mut few, mut many);
    let axes = match layouts.shape.len() + 1 {
        ..=FEW => {
            few = [Axis::default(); FEW];
            &mut few[..]
        }
        more => {
            many = vec![Axis::default(); more];
            &mut many[..]
        }
    };
    let mut count = 0;
    let mut size = layouts.itemsize as isize;
    for (axis, &extent) in layouts.shape.iter().enumerate() {
        if extent != 1 {
            // Within the byte extent nothing overflows where a step is taken.
            let (from, to) = (layouts.from[axis] as isize * size, layouts.to[axis] as isize * size);
            axes[count] = Axis { extent: extent as usize, from, to };
            count += 1;
        }
    }
    outermost_first(&mut axes[..count]);
    if let Some(number) = swapped.filter(|&number| number as isize != size) {
        let number = number as isize;
        axes[count] = Axis { extent: (size / number) as usize, from: number, to: number };
        (count, size) = (count + 1, number);
    }
    count = join(&mut axes[..count]);
    if swapped.is_none()
        && let Some(run) = axes[..count].last()
        && (run.from, run.to) == (size, size)
    {
        (count, size) = (count - 1, size * run.extent as isize);
    }
    nearest_last_but_one(&mut axes[..count]);
    copy(&axes[..count], size as usize)
}

/// Sorts axes by the strides of the target. There are few, mostly in order already; the sort of the standard library is 8 kB of
/// code.
fn outermost_first(axes: &mut [Axis]) {
    for next in 1..axes.len() {
        let mut place = next;
        while place > 0 && axes[place - 1].to.unsigned_abs() < axes[place].to.unsigned_abs() {
            axes.swap(place - 1, place);
            place -= 1;
        }
    }
}

/// Joins neighbours that step evenly on both sides, and returns how many axes are left.
fn join(axes: &mut [Axis]) -> usize {
    let mut last = 0;
    for next in 1..axes.len() {
        let (outer, inner) = (axes[last], axes[next]);
        let steps = |stride: isize| stride.checked_mul(inner.extent as isize);
        if steps(inner.from) == Some(outer.from) && steps(inner.to) == Some(outer.to) {
            axes[last] = Axis { extent: outer.extent * inner.extent, ..inner };
        } else {
            last += 1;
            axes[last] = inner;
        }
    }
    axes.len().min(last + 1)
}

/// Puts the axis along which the source is nearest to adjacent next to that of the target, if it is
/// another one: the two make the plane that is transposed.
fn nearest_last_but_one(axes: &mut [Axis]) {
    let near = |&axis: &usize| match axes[axis].from.unsigned_abs() {
        // The same elements again: as good as any order.
        0 => usize::MAX,
        stride => stride,
    };
    if let Some(nearest) = (0..axes.len()).min_by_key(near)
        && nearest + 1 < axes.len()
    {
        let end = axes.len() - 1;
        axes[nearest..end].rotate_left(1);
    }
}
