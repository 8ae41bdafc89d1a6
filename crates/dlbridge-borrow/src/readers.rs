//! Borrows that read a contiguous run of bytes, the most common ones: acquired and released without a lock.
//!
//! A reader takes a place, and then checks for writers. A writer announces itself in the count of writers, and then
//! checks the places. In either order, one of the two sees the other:
//!
//! - **Order.** Taking a place and announcing a writer are read-modify-write operations, each check is a load,
//!   and all four are `SeqCst`. The second one in their single total order sees the first.
//!   A reader that sees a writer leaves its place, and borrows under the lock.
//! - **Place.** The thread that took a place writes the entry, between `TAKEN` and `HELD`. The place's count
//!   changes each time, so a thread that reads the same `HELD` before and after has read the entry that belongs
//!   to it. Between the two states nothing waits, allocates or may panic, so a writer that finds `TAKEN` can wait.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

#[cfg(loom)]
use loom::{
    sync::atomic::{AtomicUsize, fence},
    thread::yield_now,
};
#[cfg(not(loom))]
use std::{
    sync::atomic::{AtomicUsize, fence},
    thread::yield_now,
};

use crate::Label;
use crate::region::Region;

/// The places. A reader that finds no free place borrows under the lock, like all other borrowers.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    places: [Place; PLACES],
}

/// A writer checks all of them.
#[cfg(not(loom))]
const PLACES: usize = 32;
#[cfg(loom)]
const PLACES: usize = 2;

/// The number of places that a reader tries.
const PROBES: usize = 4;

/// A borrow, or a free place for one. The alignment gives it its own cache line, and the line that the processor fetches
/// with it: threads that use two places do not wait for each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place {
    /// The number of times that the place was freed, and in the lowest bits the present state.
    state: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    label: [AtomicUsize; Label::MAX / WORD],
    label_len: AtomicUsize,
}

const WORD: usize = size_of::<usize>();

/// The states.
const FREE: usize = 0;
const TAKEN: usize = 1;
const HELD: usize = 2;
const WHAT: usize = 3;
const ONCE: usize = 4;

impl Readers {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { places: [const { Place::new() }; PLACES] }
    }

    /// Takes a place for some bytes, and returns the number to release it with. Returns `None` if there are writers, or
    /// if all the places that it tries are taken.
    #[inline]
    pub(crate) fn take(
        &self,
        start: usize,
        end: usize,
        label: &Label,
        writers: &AtomicUsize,
    ) -> Option<usize> {
        let first = scattered(start);
        for probe in 0..PROBES.min(PLACES) {
            let index = (first + probe) % PLACES;
            let (place, state) = (&self.places[index], self.places[index].state.load(Relaxed));
            if state & WHAT != FREE
                || place.state.compare_exchange(state, state + TAKEN, SeqCst, Relaxed).is_err()
            {
                continue;
            }
            ordered();
            // Place: no thread sees a store below before it sees `TAKEN`.
            fence(Release);
            place.start.store(start, Relaxed);
            place.end.store(end, Relaxed);
            let words = label.text.as_chunks().0.iter().take(label.len.div_ceil(WORD));
            for (to, &word) in place.label.iter().zip(words) {
                to.store(usize::from_ne_bytes(word), Relaxed);
            }
            place.label_len.store(label.len, Relaxed);
            if writers.load(SeqCst) > 0 {
                place.state.store(state.wrapping_add(ONCE), Release);
                return None;
            }
            place.state.store(state + HELD, Release);
            return Some(number(state, index));
        }
        None
    }

    /// Releases a place. Returns true if this number held it.
    #[inline]
    pub(crate) fn give_back(&self, ticket: usize) -> bool {
        let index = ticket % PLACES;
        let place = &self.places[index];
        let state = place.state.load(Relaxed);
        let held = state & WHAT == HELD && number(state, index) == ticket;
        if held {
            place.state.store((state - HELD).wrapping_add(ONCE), Release);
        }
        held
    }

    /// Returns the reader that conflicts with a writer, which has announced itself.
    pub(crate) fn in_the_way(&self, region: &Region) -> Option<(Label, Region)> {
        ordered();
        self.places.iter().find_map(|place| place.in_the_way(region))
    }

    /// In a child after `fork`, frees the places that a thread of the parent had taken and not filled. The unfinished
    /// entry is lost; no thread of the child knows if the borrow was granted.
    pub(crate) fn free_taken(&self) {
        for place in &self.places {
            let state = place.state.load(SeqCst);
            if state & WHAT == TAKEN {
                place.state.store((state - TAKEN).wrapping_add(ONCE), SeqCst);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.iter().all(|place| place.state.load(SeqCst) & WHAT == FREE)
    }
}

/// Returns the first place to try for memory that begins at an address. All bits of the address count, because large
/// memory begins at a page.
#[inline]
fn scattered(address: usize) -> usize {
    /// 2^64 divided by the golden ratio, which scatters evenly spaced numbers.
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    ((address as u64).wrapping_mul(GOLDEN) >> 32) as usize
}

/// Returns the number of one borrow in a place. The highest two bits stay free for the caller.
fn number(state: usize, index: usize) -> usize {
    let count = state / ONCE;
    count.wrapping_mul(PLACES).wrapping_add(index) & usize::MAX >> 2
}

/// Order, for the model checker, which gives `SeqCst` its full strength only in fences.
#[inline(always)]
fn ordered() {
    #[cfg(loom)]
    fence(SeqCst);
}

impl Place {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self {
            state: AtomicUsize::new(FREE),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            label: [const { AtomicUsize::new(0) }; Label::MAX / WORD],
            label_len: AtomicUsize::new(0),
        }
    }

    /// Returns the borrow in this place if it shares a byte with a region.
    fn in_the_way(&self, region: &Region) -> Option<(Label, Region)> {
        loop {
            let state = self.state.load(SeqCst);
            match state & WHAT {
                FREE => return None,
                // Another thread is in `take`, and is about to set `HELD` or to free the place.
                TAKEN => {
                    yield_now();
                    continue;
                }
                _ => {}
            }
            let (start, end) = (self.start.load(Relaxed), self.end.load(Relaxed));
            let found = Region::bytes(start, end.wrapping_sub(start));
            let found = found.overlaps(region).then(|| {
                let mut label = Label { text: [0; Label::MAX], len: self.label_len.load(Relaxed) };
                for (bytes, word) in label.text.as_chunks_mut().0.iter_mut().zip(&self.label) {
                    *bytes = word.load(Relaxed).to_ne_bytes();
                }
                (label, found)
            });
            fence(Acquire);
            if self.state.load(Relaxed) == state {
                return found;
            }
        }
    }
}
