//! The current borrows, and an index that finds those near a region among many, without a look at each of them.
//!
//! The index sorts borrows by the size class of their span, and by their start. A borrow of class `k` spans at most `2^k`
//! bytes and more than half of that. So those that meet a region start less than `2^k` bytes before it: neighbours in
//! the order, and few of them if they do not overlap each other.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard, atomic::AtomicUsize};

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard, atomic::AtomicUsize};

use crate::readers::Readers;
use crate::region::Region;
use crate::{Label, Mode};

/// The current borrows. Any thread can use it.
///
/// ```
/// use dlbridge_borrow::Registry;
///
/// static REGISTRY: Registry = Registry::new();
/// assert!(REGISTRY.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct Registry {
    readers: Readers,
    /// The number of borrows that write; changed under the lock. If it is 0, a reader need not check other borrows.
    writers: AtomicUsize,
    state: Mutex<State>,
}

/// The borrows that are not among the readers.
#[derive(Debug, Default)]
struct State {
    /// The borrows by ticket. Later borrows reuse free places.
    borrows: Vec<Borrow>,
    /// The free places.
    free: Vec<usize>,
    /// The number of times that more than `FEW` places were checked one after the other.
    scans: usize,
    /// The borrows by address, after `SCANS` scans.
    index: Option<Box<Index>>,
}

/// A borrow, or a free place for one: then the mode is `None`, and the rest is left from the last borrow. It is
/// written in place, field by field, because moving it costs more than everything else that a borrow does.
#[derive(Debug)]
struct Borrow {
    region: Region,
    mode: Option<Mode>,
    label: Label,
}

/// The lowest bit of a ticket of a lock-free reader. Other tickets are twice a place, counted from one.
const READER: usize = 1;

/// Up to this many places stay allocated when the last borrow ends.
const KEPT: usize = 16;

/// Up to this many places are always checked one after the other, which is faster than an index.
const FEW: usize = 32;

/// Making the index takes about as long as this many scans. A function that reads many tensors and writes one makes
/// none.
const SCANS: usize = 64;

/// The existing borrow that conflicts with a new one.
///
/// ```
/// use dlbridge_borrow::{Label, Mode, Region, Registry};
///
/// let registry = Registry::new();
/// let _held = registry.acquire(Region::bytes(0x1000, 8), Mode::Write, &Label::new(b"a matrix")).unwrap();
/// let conflict = registry.acquire(Region::bytes(0x1004, 8), Mode::Read, &Label::new(b"a row")).unwrap_err();
/// assert_eq!((conflict.label.as_str(), conflict.mode), ("a matrix", Mode::Write));
/// ```
#[derive(Debug)]
pub struct Conflict {
    /// The name of the borrow.
    pub label: Label,
    /// Its mode.
    pub mode: Mode,
    /// Its bytes.
    pub region: Region,
}

impl State {
    /// Returns the borrow that conflicts with a new one as an error.
    #[inline(never)]
    fn check(&mut self, region: &Region, mode: Mode) -> Result<(), Box<Conflict>> {
        let conflicts = |held: &&Borrow| {
            let matters = match held.mode {
                None => false,
                Some(held) => mode == Mode::Write || held == Mode::Write,
            };
            matters && held.region.overlaps(region)
        };
        if self.index.is_none() && self.borrows.len() > FEW {
            self.scans += 1;
            if self.scans > SCANS {
                self.make_index();
            }
        }
        let in_the_way = match &self.index {
            None => self.borrows.iter().find(conflicts),
            Some(index) => {
                index.near(region, mode).map(|place| &self.borrows[place]).find(conflicts)
            }
        };
        match in_the_way {
            Some(&Borrow { ref region, mode: Some(mode), label }) => {
                Err(Box::new(Conflict { label, mode, region: region.clone() }))
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn make_index(&mut self) {
        let index = self.index.insert(Box::default());
        for (place, borrow) in self.borrows.iter().enumerate() {
            if let Some(mode) = borrow.mode {
                index.insert(place, &borrow.region, mode);
            }
        }
    }

    /// Frees a place. Returns the mode of its borrow, or `None` if it was free.
    fn remove(&mut self, place: usize) -> Option<Mode> {
        let borrow = self.borrows.get_mut(place)?;
        let mode = borrow.mode.take()?;
        if let Some(index) = &mut self.index {
            index.remove(place, &borrow.region, mode);
        }
        self.free.push(place);
        // A writer checks all places while they are few, so remove them when none is used.
        if self.borrows.len() > KEPT && self.free.len() == self.borrows.len() {
            self.free.clear();
            self.borrows.clear();
            (self.scans, self.index) = (0, None);
        }
        Some(mode)
    }
}

impl Registry {
    /// A registry without borrows.
    ///
    /// ```
    /// assert!(dlbridge_borrow::Registry::new().is_empty());
    /// ```
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        let state = State { borrows: Vec::new(), free: Vec::new(), scans: 0, index: None };
        Self { readers: Readers::new(), writers: AtomicUsize::new(0), state: Mutex::new(state) }
    }

    /// Borrows the bytes of a region, and returns the number to release the borrow with. An empty region conflicts with
    /// no borrow.
    ///
    /// # Errors
    /// Returns the conflicting borrow: one that shares a byte, where at least one of the two writes.
    ///
    /// ```
    /// use dlbridge_borrow::{Label, Mode, Region, Registry};
    ///
    /// let registry = Registry::new();
    /// let _left = registry.acquire(Region::bytes(0x1000, 8), Mode::Write, &Label::new(b"left")).unwrap();
    /// let _right = registry.acquire(Region::bytes(0x1008, 8), Mode::Write, &Label::new(b"right")).unwrap();
    /// assert!(registry.acquire(Region::bytes(0x1000, 16), Mode::Read, &Label::new(b"both")).is_err());
    /// ```
    #[inline(always)]
    pub fn acquire(
        &self,
        region: Region,
        mode: Mode,
        label: &Label,
    ) -> Result<NonZeroUsize, Box<Conflict>> {
        if mode == Mode::Read
            && region.axes().is_empty()
            && let Some(ticket) = self.read(region.start(), region.run(), label)
        {
            return Ok(ticket);
        }
        self.acquire_locked(region, mode, label)
    }

    /// Borrows a contiguous run of bytes for reading, without a lock. Returns `None` if there are writers or many
    /// readers: then call [`acquire`](Registry::acquire).
    ///
    /// ```
    /// use dlbridge_borrow::{Label, Mode, Region, Registry};
    ///
    /// let (registry, label) = (Registry::new(), Label::new(b"a matrix"));
    /// let ticket = registry.read(0x1000, 8, &label).unwrap();
    /// assert!(registry.acquire(Region::bytes(0x1000, 8), Mode::Write, &Label::new(b"")).is_err());
    /// registry.release(ticket);
    ///
    /// let _writer = registry.acquire(Region::bytes(0x2000, 8), Mode::Write, &Label::new(b"")).unwrap();
    /// assert!(registry.read(0x1000, 8, &label).is_none());
    /// assert!(registry.acquire(Region::bytes(0x1000, 8), Mode::Read, &Label::new(b"")).is_ok());
    /// ```
    #[inline(never)]
    pub fn read(&self, address: usize, count: usize, label: &Label) -> Option<NonZeroUsize> {
        let end = address.checked_add(count)?;
        let number = self.readers.take(address, end, label, &self.writers)?;
        NonZeroUsize::new(number << 1 | READER)
    }

    #[inline(never)]
    fn acquire_locked(
        &self,
        region: Region,
        mode: Mode,
        label: &Label,
    ) -> Result<NonZeroUsize, Box<Conflict>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        if mode == Mode::Write || self.writers.load(SeqCst) > 0 {
            state.check(&region, mode)?;
        }
        if mode == Mode::Write {
            self.writers.fetch_add(1, SeqCst);
            if let Some((label, region)) = self.readers.in_the_way(&region) {
                self.writers.fetch_sub(1, SeqCst);
                return Err(Box::new(Conflict { label, mode: Mode::Read, region }));
            }
        }
        let place = state.free.pop().unwrap_or_else(|| {
            let (region, label) = (Region::bytes(0, 0), Label::new(b""));
            state.borrows.push(Borrow { region, mode: None, label });
            state.borrows.len() - 1
        });
        let borrow = &mut state.borrows[place];
        (borrow.region, borrow.mode, borrow.label) = (region, Some(mode), *label);
        if let Some(index) = &mut state.index {
            index.insert(place, &borrow.region, mode);
        }
        Ok(NonZeroUsize::MIN.saturating_add(place << 1 | 1))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a borrow.
    ///
    /// # Panics
    /// Panics if no borrow of this registry has the ticket. Release each ticket once, in the registry that granted it:
    /// after a second release, or in another registry, the ticket may be that of another borrow, and then this ends
    /// that borrow. The check can also miss two threads that release one ticket at the same time.
    ///
    /// ```
    /// use dlbridge_borrow::{Label, Mode, Region, Registry};
    ///
    /// let registry = Registry::new();
    /// let ticket = registry.acquire(Region::bytes(0x1000, 8), Mode::Write, &Label::new(b"")).unwrap();
    /// registry.release(ticket);
    /// assert!(registry.is_empty());
    /// ```
    #[inline]
    pub fn release(&self, ticket: NonZeroUsize) {
        let given_back = match ticket.get() & READER {
            READER => self.readers.give_back(ticket.get() >> 1),
            _ => self.release_locked((ticket.get() >> 1) - 1),
        };
        assert!(given_back, "release takes each ticket once");
    }

    #[inline(never)]
    fn release_locked(&self, place: usize) -> bool {
        let mut state = self.lock();
        let Some(mode) = state.remove(place) else { return false };
        if mode == Mode::Write {
            self.writers.fetch_sub(1, SeqCst);
        }
        true
    }

    /// Holds the lock during a fork: a lock that another thread held would stay locked in the child. Other threads can
    /// still acquire and release borrows that need no lock.
    ///
    /// ```
    /// let registry = dlbridge_borrow::Registry::new();
    /// let held = registry.hold();
    /// // In the parent after a fork; a child calls `held.release_in_child()`.
    /// drop(held);
    /// assert!(registry.is_empty());
    /// ```
    pub fn hold(&self) -> Held<'_> {
        Held { registry: self, _state: self.lock() }
    }

    /// Returns true if nothing is borrowed.
    ///
    /// ```
    /// assert!(dlbridge_borrow::Registry::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        let state = self.lock();
        state.free.len() == state.borrows.len() && self.readers.is_empty()
    }
}

/// The lock of a registry, held during a fork until this is dropped.
///
/// ```
/// let registry = dlbridge_borrow::Registry::new();
/// registry.hold().release_in_child();
/// assert!(registry.is_empty());
/// ```
#[derive(Debug)]
#[must_use = "the lock is held until this is dropped"]
pub struct Held<'a> {
    registry: &'a Registry,
    _state: MutexGuard<'a, State>,
}

impl Held<'_> {
    /// Releases the lock in a child, where this thread is the only one. All borrows stay. A place that another thread
    /// was about to fill becomes free, because a writer would wait for that thread.
    ///
    /// ```
    /// use dlbridge_borrow::{Label, Mode, Region, Registry};
    ///
    /// let registry = Registry::new();
    /// let ticket = registry.acquire(Region::bytes(0x1000, 8), Mode::Read, &Label::new(b"")).unwrap();
    /// registry.hold().release_in_child();
    /// assert!(registry.acquire(Region::bytes(0x1000, 8), Mode::Write, &Label::new(b"")).is_err());
    /// registry.release(ticket);
    /// ```
    pub fn release_in_child(self) {
        self.registry.readers.free_taken();
    }
}

/// The places of the borrows that are not empty.
#[derive(Debug, Default)]
struct Index {
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
    fn insert(&mut self, place: usize, region: &Region, mode: Mode) {
        if let Some(class) = class(region) {
            let sorted = self.sorted(mode);
            sorted.classes[class].insert((region.start(), place));
            sorted.used |= 1 << class;
        }
    }

    fn remove(&mut self, place: usize, region: &Region, mode: Mode) {
        if let Some(class) = class(region) {
            let sorted = self.sorted(mode);
            sorted.classes[class].remove(&(region.start(), place));
            if sorted.classes[class].is_empty() {
                sorted.used &= !(1 << class);
            }
        }
    }

    /// Returns the places whose borrows may conflict with a new one: all that do, and some that do not.
    fn near(&self, region: &Region, mode: Mode) -> impl Iterator<Item = usize> {
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
