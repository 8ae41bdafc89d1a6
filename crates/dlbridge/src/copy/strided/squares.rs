//! The transpose of a tile in registers: the smallest squares, a register wide.

use super::piece::Piece;

/// Writes the columns of a tile as rows that are `step` bytes apart.
///
/// # Safety
/// The tile can be read, and `T` pieces be written at each of `T` steps from `to` on. Sixteen bytes are one piece, or a number
/// of pieces that divides `T`.
#[inline(always)]
pub(super) unsafe fn transpose<P: Piece, const T: usize>(
    tile: *const [P; T],
    to: *mut u8,
    step: isize,
) {
    // SAFETY: the caller guarantees the tile and the target. A square has as many pieces as sixteen bytes have, which the
    // caller guarantees to divide `T`.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        match size_of::<P>() {
            1 => return sse2::squares::<P, T, 16>(tile, to, step),
            2 => return sse2::squares::<P, T, 8>(tile, to, step),
            4 => return sse2::squares::<P, T, 4>(tile, to, step),
            8 => return sse2::squares::<P, T, 2>(tile, to, step),
            _ => {}
        }
        one_by_one::<P, T>(tile, to, step);
    }
}

/// # Safety
/// That of [`transpose`].
#[inline(always)]
unsafe fn one_by_one<P: Piece, const T: usize>(tile: *const [P; T], to: *mut u8, step: isize) {
    for i in 0..T {
        // SAFETY: `i` and `j` are below `T`: a piece of the tile, and a row of the target.
        unsafe {
            let line: [P; T] = core::array::from_fn(|j| tile.add(j).cast::<P>().add(i).read());
            to.offset(i as isize * step).cast::<[P; T]>().write_unaligned(line);
        }
    }
}

/// Compilers do not find these instructions by themselves. All processors of x86-64 have them.
#[cfg(target_arch = "x86_64")]
mod sse2 {
    use core::arch::x86_64::*;
    use core::array;

    use super::Piece;

    /// Transposes `N` by `N` pieces at a time, with which `N` registers are full.
    ///
    /// # Safety
    /// That of [`transpose`](super::transpose); `N` divides `T`, and `N` pieces have 16 bytes.
    #[inline(always)]
    pub(super) unsafe fn squares<P: Piece, const T: usize, const N: usize>(
        tile: *const [P; T],
        to: *mut u8,
        step: isize,
    ) {
        for i in (0..T).step_by(N) {
            for j in (0..T).step_by(N) {
                // SAFETY: `N` divides `T`, so `i + k` and `j + k` are below it, and `N` pieces, sixteen bytes, are left of
                // line `j + k` of the tile behind place `i`, and of row `i + k` of the target behind place `j`.
                unsafe {
                    let line = |k| tile.add(j + k).cast::<P>().add(i);
                    let mut rows: [_; N] = array::from_fn(|k| _mm_loadu_si128(line(k).cast()));
                    // As often as `N` can be halved; not as a loop, which would keep them in memory.
                    rows = if N > 1 { shuffled::<P, N>(rows) } else { rows };
                    rows = if N > 2 { shuffled::<P, N>(rows) } else { rows };
                    rows = if N > 4 { shuffled::<P, N>(rows) } else { rows };
                    rows = if N > 8 { shuffled::<P, N>(rows) } else { rows };
                    let to = to.cast::<P>().add(j).cast::<u8>();
                    for (k, row) in rows.into_iter().enumerate() {
                        _mm_storeu_si128(to.offset((i + k) as isize * step).cast(), row);
                    }
                }
            }
        }
    }

    /// The pieces of the first half of the rows alternating with those of the second, like cards. When
    /// that was done often enough, each piece has changed its row with its place in it.
    #[inline(always)]
    fn shuffled<P: Piece, const N: usize>(rows: [__m128i; N]) -> [__m128i; N] {
        let mut shuffled = rows;
        for k in 0..N / 2 {
            let (a, b) = (rows[k], rows[k + N / 2]);
            // SAFETY: every processor of x86-64 has SSE2.
            let (low, high) = unsafe {
                match size_of::<P>() {
                    1 => (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)),
                    2 => (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)),
                    4 => (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)),
                    _ => (_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)),
                }
            };
            (shuffled[2 * k], shuffled[2 * k + 1]) = (low, high);
        }
        shuffled
    }
}
