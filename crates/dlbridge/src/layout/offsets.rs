//! The elements of a layout, one after the other.

use super::dims::{Dims, Numbers};
use super::element_count;

/// The distances of all elements from the one at index zero, in elements, in index order, the last axis fastest.
///
/// The layout must be that of a tensor in memory.
#[derive(Clone)]
pub(crate) struct Offsets {
    /// All axes except the fastest.
    outer: Dims<'static>,
    /// The current index on each of them.
    index: Numbers,
    /// The offset at which the current run along the fastest axis begins.
    start: i64,
    offset: i64,
    step: i64,
    run: usize,
    /// Elements left in the current run, and in total.
    left_in_run: usize,
    left: usize,
}

impl Offsets {
    pub(crate) fn new(dims: &Dims<'_>) -> Self {
        let left = element_count(dims.shape()).unwrap_or(0);
        let all = dims.coalesced();
        let (run, step) = all.axes().next_back().unwrap_or((1, 0));
        let outer = Dims::new(all.axes().take(all.ndim().saturating_sub(1)));
        let index = outer.shape().iter().map(|_| 0).collect();
        let run = usize::try_from(run).unwrap_or(0);
        Self { outer, index, start: 0, offset: 0, step, run, left_in_run: run, left }
    }

    /// The offsets of `len` contiguous elements.
    pub(crate) fn of_run(len: usize) -> Self {
        let (outer, index) = (Dims::new([].into_iter()), Numbers::new());
        Self { outer, index, start: 0, offset: 0, step: 1, run: len, left_in_run: len, left: len }
    }

    /// Calls a function for each run along the fastest axis, with its first offset, its step and its number of
    /// elements.
    #[inline(always)]
    pub(crate) fn each_run(mut self, mut call: impl FnMut(isize, isize, usize)) {
        while self.left > 0 {
            if self.left_in_run == 0 {
                self.next_run();
            }
            call(self.offset as isize, self.step as isize, self.left_in_run);
            self.left -= self.left_in_run;
            self.left_in_run = 0;
        }
    }

    /// Moves to the next run, which must exist.
    #[inline(never)]
    fn next_run(&mut self) {
        for (axis, (extent, stride)) in self.outer.axes().enumerate().rev() {
            self.index[axis] += 1;
            if self.index[axis] < extent {
                // May wrap in between; the final offset is inside the layout again.
                self.start = self.start.wrapping_add(stride);
                break;
            }
            self.start = self.start.wrapping_sub((extent - 1).wrapping_mul(stride));
            self.index[axis] = 0;
        }
        (self.offset, self.left_in_run) = (self.start, self.run);
    }
}

impl Iterator for Offsets {
    type Item = isize;

    #[inline]
    fn next(&mut self) -> Option<isize> {
        self.left = self.left.checked_sub(1)?;
        if self.left_in_run == 0 {
            self.next_run();
        }
        let offset = self.offset;
        self.left_in_run -= 1;
        self.offset = offset.wrapping_add(self.step);
        Some(offset as isize)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    /// A simple loop for each run, which the compiler can optimise.
    #[inline]
    fn fold<B, F: FnMut(B, isize) -> B>(mut self, init: B, mut f: F) -> B {
        let mut folded = init;
        while self.left > 0 {
            if self.left_in_run == 0 {
                self.next_run();
            }
            let (start, step) = (self.offset as isize, self.step as isize);
            for i in 0..self.left_in_run as isize {
                folded = f(folded, start.wrapping_add(i.wrapping_mul(step)));
            }
            self.left -= self.left_in_run;
            self.left_in_run = 0;
        }
        folded
    }
}

impl ExactSizeIterator for Offsets {}
impl core::iter::FusedIterator for Offsets {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn offsets(shape: &[i64], strides: &[i64]) -> Offsets {
        Offsets::new(&Dims::borrowed(shape, strides))
    }

    #[test]
    fn offsets_last_axis_is_fastest() {
        assert!(offsets(&[2, 3], &[10, 1]).eq([0, 1, 2, 10, 11, 12]));
        assert!(offsets(&[2, 3], &[1, -2]).eq([0, -2, -4, 1, -1, -3]));
        assert!(offsets(&[2, 2, 2], &[0, 5, 1]).eq([0, 1, 5, 6, 0, 1, 5, 6]));
        assert!(offsets(&[], &[]).eq([0]));
        assert_eq!(offsets(&[3, 0], &[1, 1]).next(), None);
    }

    #[test]
    fn offsets_fold_continues_after_next() {
        for taken in 0..=12 {
            let mut rest = offsets(&[2, 3, 2], &[100, 10, 2]);
            let all: Vec<_> = rest.clone().collect();
            assert!(rest.by_ref().take(taken).eq(all[..taken].iter().copied()));
            assert_eq!(rest.len(), all.len() - taken);
            let folded = rest.fold(Vec::new(), |mut v, offset| {
                v.push(offset);
                v
            });
            assert_eq!(folded, all[taken..]);
        }
    }
}
