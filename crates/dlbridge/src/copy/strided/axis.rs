//! The axes of a copy: joined into as few as possible, and sorted by the strides of the target.

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

/// The addresses of the piece at index zero in source and target.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
}

// SAFETY: these are only addresses. Each function that reads or writes through them has a contract for it (Places).
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

/// Up to this number of axes need no allocation.
const FEW: usize = 8;

/// Calls `copy` with the axes and the size of a piece in bytes. A piece is a run that is contiguous on both sides, or
/// one number if its bytes are `swapped`.
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
            // Steps between two elements stay within the byte extent, so they do not overflow.
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

/// Sorts axes by the strides of the target. There are few axes, mostly in order already; the standard library's sort
/// would add 8 kB of code.
fn outermost_first(axes: &mut [Axis]) {
    for next in 1..axes.len() {
        let mut place = next;
        while place > 0 && axes[place - 1].to.unsigned_abs() < axes[place].to.unsigned_abs() {
            axes.swap(place - 1, place);
            place -= 1;
        }
    }
}

/// Joins neighbours that step evenly on both sides, and returns the number of axes left.
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

/// Moves the axis with the smallest source stride next to the last one, the target's fastest, unless they are the same
/// axis. The two span the plane to transpose.
fn nearest_last_but_one(axes: &mut [Axis]) {
    let near = |&axis: &usize| match axes[axis].from.unsigned_abs() {
        // A stride of 0 repeats the same elements, so its order does not matter.
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
