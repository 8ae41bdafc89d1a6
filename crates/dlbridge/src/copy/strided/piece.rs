//! Pieces that one instruction moves, and plain loops over them.

use super::axis::{Axis, Ends};

/// A number that processors move in one instruction, aligned or not.
pub(super) trait Piece: Copy + Default {
    /// The value to write for the value read.
    fn moved(self) -> Self;
}

/// A number whose bytes the copy reverses.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(super) struct Swapped<N>(N);

macro_rules! pieces {
    ($($number:ty)*) => {$(
        impl Piece for $number {
            #[inline(always)]
            fn moved(self) -> Self {
                self
            }
        }

        impl Piece for Swapped<$number> {
            #[inline(always)]
            fn moved(self) -> Self {
                Self(self.0.swap_bytes())
            }
        }
    )*};
}

pieces! { u8 u16 u32 u64 u128 }

/// Copies pieces without choosing a strategy.
///
/// # Safety
/// Places, for pieces of the size of `P`.
pub(super) unsafe fn one_by_one<P: Piece>(axes: &[Axis], ends: Ends) {
    // SAFETY: Places: without axes one piece is at the ends; one axis is passed on with its own strides, also inside
    // one index of a second one; of more axes, those inside one index of the outer one.
    unsafe {
        match axes {
            [] => {
                let piece = ends.from.cast::<P>().read_unaligned().moved();
                ends.to.cast::<P>().write_unaligned(piece);
            }
            [row] => steps::<P>(row.from, row.to, row.extent, ends),
            // Without a call for each row: rows are short here.
            [column, row] => (0..column.extent)
                .for_each(|i| steps::<P>(row.from, row.to, row.extent, ends.at(column, i))),
            [outer, inner @ ..] => {
                (0..outer.extent).for_each(|i| one_by_one::<P>(inner, ends.at(outer, i)));
            }
        }
    }
}

/// The loop itself, once for each pair of steps that are constants.
///
/// # Safety
/// Places, for one axis of this extent, with these strides, and pieces of the size of `P`.
#[inline(always)]
pub(super) unsafe fn steps<P: Piece>(from: isize, to: isize, extent: usize, ends: Ends) {
    for i in 0..extent as isize {
        // SAFETY: Places: `i` is an index of the axis, and both offsets lead to its pieces.
        unsafe {
            let piece = ends.from.offset(i * from).cast::<P>().read_unaligned().moved();
            ends.to.offset(i * to).cast::<P>().write_unaligned(piece);
        }
    }
}
