//! The borrows of this moment.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard, atomic::AtomicUsize};

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard, atomic::AtomicUsize};

use crate::label::{Label, LabelWords};
use crate::readers::Readers;
use crate::region::Region;

/// What a borrow is for.
///
/// ```
/// use dlbridge_borrow::Mode;
///
/// assert_ne!(Mode::Read, Mode::Write);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To read; others may read too.
    Read,
    /// To read and write; nobody else may do either.
    Write,
}

/// The borrows of this moment. It can be asked from any thread.
///
/// ```
/// use dlbridge_borrow::Registry;
///
/// static REGISTRY: Registry = Registry::new();
/// assert!(REGISTRY.is_empty());
/// ```
#[derive(Debug)]
pub struct Registry {
    readers: Readers,
    /// How many borrows write; changed under the lock. Without any, readers need not look at the others.
    writers: AtomicUsize,
    state: Mutex<State>,
}

/// The borrows that are not among the readers.
#[derive(Debug)]
struct State {
    /// By ticket. Places that are free are taken again.
    borrows: Vec<Borrow>,
    /// The places that are free.
    free: Vec<usize>,
}

/// A borrow, or a place for one: then the mode is `None`, and the rest is what was there before. It is
/// written where it stays, field by field, since to move it costs more than all else that a borrow does.
#[derive(Debug)]
struct Borrow {
    region: Region,
    mode: Option<Mode>,
    label: Label,
}

/// The lowest bit of a ticket that is a reader's.
const READER: usize = 1;

/// So many places stay when nothing is borrowed any more.
const KEPT: usize = 16;

impl Borrow {
    const FREE: Self = Self { region: Region::EMPTY, mode: None, label: Label::EMPTY };
}

/// A borrow that was granted, to be given back.
///
/// ```
/// use dlbridge_borrow::{Mode, Region, Registry, Ticket};
///
/// let registry = Registry::new();
/// let ticket = registry.acquire(Region::bytes(0x1000, 1), Mode::Read, "").unwrap();
/// // As a number, it can go through C.
/// registry.release(Ticket::from_number(ticket.number()));
/// assert!(registry.is_empty());
/// ```
#[derive(Debug)]
#[must_use = "a borrow lasts until it is given back"]
pub struct Ticket(usize);

impl Ticket {
    /// The ticket as a number.
    ///
    /// ```
    /// use dlbridge_borrow::{Mode, Region, Registry};
    ///
    /// let registry = Registry::new();
    /// let region = Region::bytes(0x1000, 1);
    /// let first = registry.acquire(region.clone(), Mode::Read, "").unwrap();
    /// let second = registry.acquire(region.clone(), Mode::Read, "").unwrap();
    /// assert_ne!(first.number(), second.number());
    /// ```
    pub fn number(&self) -> usize {
        self.0
    }

    /// The ticket of a number.
    ///
    /// ```
    /// assert_eq!(dlbridge_borrow::Ticket::from_number(7).number(), 7);
    /// ```
    pub fn from_number(number: usize) -> Self {
        Self(number)
    }
}

/// The borrow that is in the way of another one.
///
/// ```
/// use dlbridge_borrow::{Mode, Region, Registry};
///
/// let registry = Registry::new();
/// let _held = registry.acquire(Region::bytes(0x1000, 8), Mode::Write, "a matrix").unwrap();
/// let conflict = registry.acquire(Region::bytes(0x1004, 8), Mode::Read, "a row").unwrap_err();
/// assert_eq!((conflict.label.as_str(), conflict.mode), ("a matrix", Mode::Write));
/// ```
#[derive(Debug)]
pub struct Conflict {
    /// What the borrow is called.
    pub label: Label,
    /// What it is for.
    pub mode: Mode,
    /// Its bytes.
    pub region: Region,
}

impl State {
    /// The borrow that is in the way of another one.
    #[inline(never)]
    fn check(&self, region: &Region, mode: Mode) -> Result<(), Box<Conflict>> {
        let in_the_way = self.borrows.iter().find(|held| {
            let matters = match held.mode {
                None => false,
                Some(held) => mode == Mode::Write || held == Mode::Write,
            };
            matters && held.region.overlaps(region)
        });
        match in_the_way {
            Some(&Borrow { ref region, mode: Some(mode), label }) => {
                Err(Box::new(Conflict { label, mode, region: region.clone() }))
            }
            _ => Ok(()),
        }
    }
}

impl Registry {
    const NO_BORROWS: State = State { borrows: Vec::new(), free: Vec::new() };

    /// A registry without borrows.
    ///
    /// ```
    /// assert!(dlbridge_borrow::Registry::new().is_empty());
    /// ```
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            readers: Readers::new(),
            writers: AtomicUsize::new(0),
            state: Mutex::new(Self::NO_BORROWS),
        }
    }

    /// A registry without borrows.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            readers: Readers::new(),
            writers: AtomicUsize::new(0),
            state: Mutex::new(Self::NO_BORROWS),
        }
    }

    /// Borrows the bytes of a region. A region without bytes is never in anybody's way.
    ///
    /// # Errors
    /// The borrow that is in the way: one that shares a byte, where either of the two writes.
    ///
    /// ```
    /// use dlbridge_borrow::{Mode, Region, Registry};
    ///
    /// let registry = Registry::new();
    /// let _left = registry.acquire(Region::bytes(0x1000, 8), Mode::Write, "left").unwrap();
    /// let _right = registry.acquire(Region::bytes(0x1008, 8), Mode::Write, "right").unwrap();
    /// assert!(registry.acquire(Region::bytes(0x1000, 16), Mode::Read, "both").is_err());
    /// ```
    #[inline]
    pub fn acquire(
        &self,
        region: Region,
        mode: Mode,
        label: impl AsRef<[u8]>,
    ) -> Result<Ticket, Box<Conflict>> {
        if mode == Mode::Read
            && let Some((start, end)) = region.run()
            && let Some(ticket) = self.take(start, end, &LabelWords::new(&label))
        {
            return Ok(ticket);
        }
        self.acquire_locked(region, mode, label.as_ref())
    }

    /// Borrows a run of bytes to read, without a lock. `None` if only [`acquire`](Registry::acquire) can tell whether that
    /// may be: there are writers, or many readers.
    ///
    /// ```
    /// use dlbridge_borrow::{LabelWords, Mode, Region, Registry};
    ///
    /// let (registry, label) = (Registry::new(), LabelWords::new("a matrix"));
    /// let ticket = registry.read(0x1000, 8, &label).unwrap();
    /// assert!(registry.acquire(Region::bytes(0x1000, 8), Mode::Write, "").is_err());
    /// registry.release(ticket);
    ///
    /// let _writer = registry.acquire(Region::bytes(0x2000, 8), Mode::Write, "").unwrap();
    /// assert!(registry.read(0x1000, 8, &label).is_none());
    /// assert!(registry.acquire(Region::bytes(0x1000, 8), Mode::Read, "").is_ok());
    /// ```
    #[inline]
    pub fn read(&self, address: usize, count: usize, label: &LabelWords) -> Option<Ticket> {
        self.take(address, address.checked_add(count)?, label)
    }

    #[inline]
    fn take(&self, start: usize, end: usize, label: &LabelWords) -> Option<Ticket> {
        let number = self.readers.take(start, end, label, &self.writers)?;
        Some(Ticket(number << 1 | READER))
    }

    #[inline(never)]
    fn acquire_locked(
        &self,
        region: Region,
        mode: Mode,
        label: &[u8],
    ) -> Result<Ticket, Box<Conflict>> {
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
            state.borrows.push(Borrow::FREE);
            state.borrows.len() - 1
        });
        let borrow = &mut state.borrows[place];
        (borrow.region, borrow.mode) = (region, Some(mode));
        borrow.label.set(label);
        Ok(Ticket(place << 1))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a borrow back.
    ///
    /// # Panics
    /// If the ticket is not one of this registry, or was given back before: then somebody else's
    /// borrow might go. Of two threads that give one ticket back at the same time, neither may notice.
    ///
    /// ```
    /// use dlbridge_borrow::{Mode, Region, Registry};
    ///
    /// let registry = Registry::new();
    /// let ticket = registry.acquire(Region::bytes(0x1000, 8), Mode::Write, "").unwrap();
    /// registry.release(ticket);
    /// assert!(registry.is_empty());
    /// ```
    #[inline]
    pub fn release(&self, ticket: Ticket) {
        let given_back = match ticket.0 & READER {
            READER => self.readers.give_back(ticket.0 >> 1),
            _ => self.release_locked(ticket.0 >> 1),
        };
        assert!(given_back, "a ticket is given back once");
    }

    #[inline(never)]
    fn release_locked(&self, place: usize) -> bool {
        let mut state = self.lock();
        let borrow = state.borrows.get_mut(place).and_then(|borrow| borrow.mode.take());
        let Some(mode) = borrow else { return false };
        if mode == Mode::Write {
            self.writers.fetch_sub(1, SeqCst);
        }
        state.free.push(place);
        // Who writes looks at all places.
        if state.borrows.len() > KEPT && state.free.len() == state.borrows.len() {
            state.free.clear();
            state.borrows.clear();
        }
        true
    }

    /// Keeps all other threads out of the lock, for a fork: a lock that another thread holds meanwhile would stay locked
    /// in the child. Borrows that need no lock are still taken and given back.
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

    /// Whether nothing is borrowed.
    ///
    /// ```
    /// assert!(dlbridge_borrow::Registry::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        let state = self.lock();
        state.free.len() == state.borrows.len() && self.readers.is_empty()
    }
}

/// The lock of a registry, held over a fork until this is dropped.
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
    /// Releases the lock in a child, where this thread is the only one. All borrows stay; a place that another thread was
    /// about to fill becomes free, since a writer would wait for that thread.
    ///
    /// ```
    /// use dlbridge_borrow::{Mode, Region, Registry};
    ///
    /// let registry = Registry::new();
    /// let ticket = registry.acquire(Region::bytes(0x1000, 8), Mode::Read, "").unwrap();
    /// registry.hold().release_in_child();
    /// assert!(registry.acquire(Region::bytes(0x1000, 8), Mode::Write, "").is_err());
    /// registry.release(ticket);
    /// ```
    pub fn release_in_child(self) {
        self.registry.readers.free_taken();
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}
