//! Visits each place that a layout reaches, once.

use alloc::vec;
use alloc::vec::Vec;

use super::{Dims, Offsets, element_count, element_extent, may_overlap};

const WORD: usize = u64::BITS as usize;

/// Returns true if `check` accepts the offset of every element. If many indices lead to the same few elements, each is
/// checked once: a producer may export a few bytes as any number of elements.
///
/// The layout must be that of a tensor in memory.
pub(crate) fn all_reached(dims: &Dims<'_>, mut check: impl FnMut(isize) -> bool) -> bool {
    // Drops repetitions by a stride of 0.
    let distinct = dims.distinct();
    let (shape, strides) = (distinct.shape(), distinct.strides());
    let indices = element_count(shape).unwrap_or(0);
    if may_overlap(shape, strides)
        && let Ok(extent) = element_extent(shape, strides)
        && let Some(span) = extent.highest.checked_sub(extent.lowest)
        && (span as u64) < indices as u64
    {
        return places(&distinct, extent.lowest, span as usize + 1).all(check);
    }
    Offsets::new(&distinct).all(&mut check)
}

/// The reached offsets of a span from `lowest` on, in rising order.
fn places(dims: &Dims<'_>, lowest: i64, span: usize) -> impl Iterator<Item = isize> {
    let mut reached = Reached(vec![0; span.div_ceil(WORD)]);
    reached.0[lowest.unsigned_abs() as usize / WORD] |=
        1 << (lowest.unsigned_abs() % u64::BITS as u64);
    for (extent, stride) in dims.axes().filter(|&(extent, stride)| extent > 1 && stride != 0) {
        // Doubles the number of steps each time: each shift repeats all places reached so far.
        let mut steps = 1;
        while steps < extent {
            let more = steps.min(extent - steps);
            reached.add_shifted((more * stride).unsigned_abs() as usize, stride > 0);
            steps += more;
        }
    }
    (0..span)
        .filter(move |&place| reached.0[place / WORD] >> (place % WORD) & 1 == 1)
        .map(move |place| (place as i64 + lowest) as isize)
}

/// A bit for each place.
struct Reached(Vec<u64>);

impl Reached {
    /// Adds a copy of the reached places, shifted up or down by `places`.
    fn add_shifted(&mut self, places: usize, up: bool) {
        let (words, bits, len) = (places / WORD, places % WORD, self.0.len());
        let word = |all: &[u64], nth: Option<usize>| {
            nth.and_then(|nth| all.get(nth).copied()).unwrap_or(0)
        };
        for nth in 0..len {
            // Words are read before they change: from the top for a shift upwards.
            let nth = if up { len - 1 - nth } else { nth };
            let (near, far) = match up {
                true => (nth.checked_sub(words), nth.checked_sub(words + 1)),
                false => (nth.checked_add(words), nth.checked_add(words + 1)),
            };
            let (near, far) = (word(&self.0, near), word(&self.0, far));
            self.0[nth] |= match (up, bits) {
                (_, 0) => near,
                (true, _) => near << bits | far >> (WORD - bits),
                (false, _) => near >> bits | far << (WORD - bits),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn all_reached_any_layout_visits_every_place() {
        let layouts: &[(&[i64], &[i64])] = &[
            (&[4, 4], &[1, 1]),
            (&[4, 4], &[-1, 1]),
            (&[5, 3, 2], &[3, -2, 1]),
            (&[70, 70], &[1, 2]),
            (&[70, 9], &[-3, 7]),
            (&[9, 70, 3], &[64, -1, 0]),
            (&[2, 2, 2, 2, 2, 2], &[1, 1, 2, 2, 65, -65]),
            (&[3, 3], &[1 << 40, 1 << 40]),
            (&[2, 3], &[3, 1]),
            (&[1, 1], &[5, -5]),
            (&[], &[]),
            (&[0, 3], &[1, 1]),
        ];
        // Miri is slow.
        let small = |shape: &[i64]| !cfg!(miri) || shape.iter().product::<i64>() < 200;
        for &(shape, strides) in layouts.iter().filter(|(shape, _)| small(shape)) {
            let dims = Dims::borrowed(shape, strides);
            let expected: BTreeSet<isize> = Offsets::new(&dims).collect();
            let mut found = BTreeSet::new();
            assert!(all_reached(&dims, |offset| {
                found.insert(offset);
                true
            }));
            assert_eq!(found, expected, "{shape:?} {strides:?}");
        }
    }

    #[test]
    fn all_reached_overlapping_indices_visits_each_place_once() {
        // The most dimensions of extent 2 whose number of elements fits in `isize`.
        const DIMS: usize = usize::BITS as usize - 2;
        let mut asked = 0;
        assert!(all_reached(&Dims::borrowed(&[2; DIMS], &[1; DIMS]), |offset| {
            asked += 1;
            (0..=DIMS as isize).contains(&offset)
        }));
        assert_eq!(asked, DIMS + 1);
        let dims = Dims::borrowed(&[2; DIMS], &[-1; DIMS]);
        assert!(!all_reached(&dims, |offset| offset > -(DIMS as isize)));
    }
}
