//! What is moved in one go.

/// A number of a size that processors move at once. It may be at any address.
pub(super) trait Piece: Copy {
    const ZERO: Self;

    /// What is written of what was read.
    fn moved(self) -> Self;
}

/// A number whose bytes are reversed on the way.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Swapped<N>(N);

macro_rules! pieces {
    ($($number:ty)*) => {$(
        impl Piece for $number {
            const ZERO: Self = 0;

            #[inline(always)]
            fn moved(self) -> Self {
                self
            }
        }

        impl Piece for Swapped<$number> {
            const ZERO: Self = Self(0);

            #[inline(always)]
            fn moved(self) -> Self {
                Self(self.0.swap_bytes())
            }
        }
    )*};
}

pieces! { u8 u16 u32 u64 u128 }
