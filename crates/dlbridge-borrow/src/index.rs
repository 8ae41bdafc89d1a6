//! Finds the borrows near a region among many, without a look at each of them.
//!
//! Borrows are sorted by the size class of their span, and by their start. A borrow of class `k` spans at most `2^k`
//! bytes and more than half of that. So those that meet a region start less than `2^k` bytes before it: neighbours in
//! the order, and few of them if they do not overlap each other.

use std::collections::BTreeSet;

use crate::label::Mode;
use crate::region::Region;

/// The places of the borrows that are not empty.
#[derive(Debug, Default)]
pub(crate) struct Index {
    readers: Sorted,
    writers: Sorted,
}

/// The number of size classes: the last one has spans of more than half of the address space.
const CLASSES: usize = usize::BITS as usize + 1;

#[derive(Debug)]
struct Sorted {
    /// The start and the place of each borrow, by class.
    classes: [BTreeSet<(usize, usize)>; CLASSES],
    /// The classes that have borrows, as bits.
    used: u128,
}

impl Default for Sorted {
    fn default() -> Self {
        Self { classes: [const { BTreeSet::new() }; CLASSES], used: 0 }
    }
}

impl Index {
    pub(crate) fn insert(&mut self, place: usize, region: &Region, mode: Mode) {
        if let Some(class) = class(region) {
            let sorted = self.sorted(mode);
            sorted.classes[class].insert((region.start(), place));
            sorted.used |= 1 << class;
        }
    }

    pub(crate) fn remove(&mut self, place: usize, region: &Region, mode: Mode) {
        if let Some(class) = class(region) {
            let sorted = self.sorted(mode);
            sorted.classes[class].remove(&(region.start(), place));
            if sorted.classes[class].is_empty() {
                sorted.used &= !(1 << class);
            }
        }
    }

    /// Returns the places whose borrows may conflict with a new one: all that do, and some that do not.
    pub(crate) fn near(&self, region: &Region, mode: Mode) -> impl Iterator<Item = usize> {
        let readers = (mode == Mode::Write).then_some(&self.readers);
        let (start, end) = (region.start(), region.end());
        let sets = readers.into_iter().chain([&self.writers]);
        sets.flat_map(move |sorted| sorted.near(start, end))
    }

    fn sorted(&mut self, mode: Mode) -> &mut Sorted {
        match mode {
            Mode::Read => &mut self.readers,
            Mode::Write => &mut self.writers,
        }
    }
}

impl Sorted {
    fn near(&self, start: usize, end: usize) -> impl Iterator<Item = usize> {
        let mut used = self.used;
        let classes = std::iter::from_fn(move || {
            let class = used.trailing_zeros() as usize;
            used &= used.wrapping_sub(1);
            (class < CLASSES).then_some(class)
        });
        classes
            .flat_map(move |class| {
                let longest = 1_usize.checked_shl(class as u32).unwrap_or(usize::MAX);
                self.classes[class].range((start.saturating_sub(longest), 0)..(end, 0))
            })
            .map(|&(_, place)| place)
    }
}

/// Returns the least `k` such that a region spans at most `2^k` bytes; `None` for an empty region, which conflicts with
/// no borrow.
fn class(region: &Region) -> Option<usize> {
    let last = (region.end() - region.start()).checked_sub(1)?;
    Some((usize::BITS - last.leading_zeros()) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_leaves_out_distant_borrows() {
        let mut index = Index::default();
        let region = |n: usize| Region::bytes(0x1_0000 + 100 * n, 96);
        for n in 0..1000 {
            index.insert(n, &region(n), if n % 2 == 0 { Mode::Write } else { Mode::Read });
        }
        for n in 1..1000 {
            let near: Vec<_> = index.near(&region(n), Mode::Write).collect();
            assert!(near.contains(&n) && near.len() <= 4, "{n}: {near:?}");
        }
        assert!(index.near(&region(0), Mode::Read).all(|place| place % 2 == 0));
        (0..1000).for_each(|n| {
            index.remove(n, &region(n), if n % 2 == 0 { Mode::Write } else { Mode::Read });
        });
        assert_eq!(index.near(&Region::bytes(0, usize::MAX), Mode::Write).count(), 0);
    }

    #[test]
    fn class_is_the_power_of_two_that_holds_the_span() {
        assert_eq!(class(&Region::bytes(8, 0)), None);
        let classes = [1, 2, 3, 4, 5, usize::MAX].map(|span| class(&Region::bytes(0, span)));
        assert_eq!(classes, [0, 1, 2, 2, 3, usize::BITS as usize].map(Some));
    }
}
