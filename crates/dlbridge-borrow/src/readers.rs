//! Borrows to read a run of bytes, which are most of all borrows: taken and given back without a lock.
//!
//! A reader takes a place, and looks whether anybody writes; a writer says that it writes, and looks at the
//! places. In whatever order they do that, one of the two sees the other:
//!
//! - **Order.** To take a place and to say that one writes are read-modify-write operations, what either
//!   looks at next is loaded, and all four are `SeqCst`. Who comes second in their one order sees the first.
//!   A reader who sees a writer leaves, and asks under the lock.
//! - **Place.** What is in a place is written by the thread that took it, between `TAKEN` and `HELD`. Its
//!   count is another one each time, so who read the same `HELD` before and after has read what belongs to
//!   it. Nothing that waits, allocates or may panic is between, so that a writer who finds `TAKEN` can wait.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, fence};

use crate::label::{Label, LabelWords, WORD, WORDS};
use crate::region::Region;

/// The places. A reader who finds none asks under the lock, as all others do.
#[derive(Debug)]
pub(crate) struct Readers {
    places: [Place; PLACES],
}

/// A writer looks at all of them.
#[cfg(not(loom))]
const PLACES: usize = 32;
#[cfg(loom)]
const PLACES: usize = 2;

/// The places that a reader looks at.
const PROBES: usize = 4;

/// A borrow, or a place for one. Alone in its cache lines, and in those that are fetched with them: two
/// threads do not wait for each other.
#[derive(Debug)]
#[repr(align(128))]
struct Place {
    /// How often somebody was here, and in the lowest bits what is here now.
    state: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    label: [AtomicUsize; WORDS],
    label_len: AtomicUsize,
}

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

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { places: std::array::from_fn(|_| Place::new()) }
    }

    /// Takes a place for some bytes; the number with which it is given back. `None` if there are writers, or if
    /// the places that were looked at are taken.
    #[inline]
    pub(crate) fn take(
        &self,
        start: usize,
        end: usize,
        label: &LabelWords,
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
            // Place: nothing below is seen before `TAKEN` is.
            fence(Release);
            place.start.store(start, Relaxed);
            place.end.store(end, Relaxed);
            place.set_label(label);
            if writers.load(SeqCst) > 0 {
                place.state.store(state.wrapping_add(ONCE), Release);
                return None;
            }
            place.state.store(state + HELD, Release);
            return Some(number(state, index));
        }
        None
    }

    /// Gives a place back; whether it was held by this number.
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

    /// The reader that is in the way of a writer, who has said that it writes.
    pub(crate) fn in_the_way(&self, region: &Region) -> Option<(Label, Region)> {
        ordered();
        self.places.iter().find_map(|place| place.in_the_way(region))
    }

    /// In a child after `fork`, frees the places that a thread which the child lacks had taken and not filled. The unfinished
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

/// Where to look first for a place for memory that begins here. All bits of the address count: large memory begins
/// where a page does.
#[inline]
fn scattered(address: usize) -> usize {
    /// 2^64 by the golden ratio, which scatters what is evenly spaced.
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    ((address as u64).wrapping_mul(GOLDEN) >> 32) as usize
}

/// The number of a place at one time. The highest two bits are left free, for who keeps it.
fn number(state: usize, index: usize) -> usize {
    let count = state / ONCE;
    count.wrapping_mul(PLACES).wrapping_add(index) & usize::MAX >> 2
}

/// Order, for the model checker: it takes `SeqCst` for less than it is, but for fences.
#[inline(always)]
fn ordered() {
    #[cfg(loom)]
    fence(SeqCst);
}

impl Place {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self {
            state: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            label: [const { AtomicUsize::new(0) }; WORDS],
            label_len: AtomicUsize::new(0),
        }
    }

    #[cfg(loom)]
    fn new() -> Self {
        let nought = || AtomicUsize::new(0);
        let label = std::array::from_fn(|_| nought());
        Self { state: nought(), start: nought(), end: nought(), label, label_len: nought() }
    }

    #[inline]
    fn set_label(&self, label: &LabelWords) {
        for (to, &word) in self.label.iter().zip(&label.words).take(label.used) {
            to.store(word, Relaxed);
        }
        self.label_len.store(label.len, Relaxed);
    }

    fn label(&self) -> Label {
        let mut text = [0; WORDS * WORD];
        for (bytes, word) in text.chunks_mut(WORD).zip(&self.label) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        Label::new(text.get(..self.label_len.load(Relaxed)).unwrap_or_default())
    }

    /// What is here, if it shares a byte with a region.
    fn in_the_way(&self, region: &Region) -> Option<(Label, Region)> {
        loop {
            let state = self.state.load(SeqCst);
            match state & WHAT {
                FREE => return None,
                // Another thread is between two lines of `take`.
                TAKEN => {
                    yield_now();
                    continue;
                }
                _ => {}
            }
            let (start, end) = (self.start.load(Relaxed), self.end.load(Relaxed));
            let found = Region::bytes(start, end.wrapping_sub(start));
            let found = found.overlaps(region).then(|| (self.label(), found));
            fence(Acquire);
            if self.state.load(Relaxed) == state {
                return found;
            }
        }
    }
}

fn yield_now() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}
