//! Transposes a tile in registers, in squares one register wide.

use super::piece::Piece;

/// Writes the columns of a tile as rows that are `step` bytes apart.
///
/// # Safety
/// The tile is readable, and `T` pieces are writable at each of `T` steps from `to` on. Sixteen bytes are one piece, or
/// a number of pieces that divides `T`.
#[inline(always)]
pub(super) unsafe fn transpose<P: Piece, const T: usize>(
    tile: *const [P; T],
    to: *mut u8,
    step: isize,
) {
    // SAFETY: the caller guarantees the tile and the target. The side of a square is the number of pieces in sixteen
    // bytes, which the caller guarantees to divide `T`.
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

/// Compilers do not choose these instructions by themselves. All x86-64 processors have them.
#[cfg(target_arch = "x86_64")]
mod sse2 {
    use core::arch::x86_64::*;
    use core::array;

    use super::Piece;

    /// Transposes `N` by `N` pieces at a time, which fill `N` registers.
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
                // SAFETY: `N` divides `T`, so `i + k` and `j + k` are below it. `N` pieces, sixteen bytes, follow place
                // `i` in line `j + k` of the tile, and place `j` in row `i + k` of the target.
                unsafe {
                    let line = |k| tile.add(j + k).cast::<P>().add(i);
                    let mut rows: [_; N] = array::from_fn(|k| _mm_loadu_si128(line(k).cast()));
                    // One shuffle per halving of `N`; unrolled, because a loop would keep the rows in memory.
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

    /// Interleaves the first half of the rows with the second half, like a riffle shuffle of cards. After log2(`N`)
    /// rounds the square is transposed.
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
