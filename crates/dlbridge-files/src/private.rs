//! Private pages of a file: a page is copied when it is written, and the file stays as it is.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::{hint, ptr, thread};

use dlbridge::fork::ForkMutex;
use dlbridge::{Access, Owner};
use memmap2::{MmapOptions, MmapRaw};

/// The largest number of [`OwnMap`] that live. Linux gives a process 65 530 maps, which other code needs too.
const MAX_MAPS: usize = 30_000;

/// The number of [`OwnMap`] that live.
static MAPS: AtomicUsize = AtomicUsize::new(0);

/// A private map of a whole file. Each byte is given to at most one [`Part`].
///
/// The system maps neighbouring pages of one map together, so that its tensors need fewer page faults than with a map
/// for each.
///
/// No thread waits for the lock of the state: a child of a fork would wait for ever for a thread that it does not have.
/// Without the lock, a tensor gets an [`OwnMap`]. Tensors of a storage must get the same pages, so they take [`TURN`].
#[derive(Debug, Default)]
pub(crate) struct PrivateMap {
    state: Arc<Mutex<State>>,
    /// The pages of storages, by the first byte. Only the thread that has [`TURN`] takes this lock.
    storages: Mutex<BTreeMap<usize, Weak<Pages>>>,
}

/// The turn to request a storage, of any file. No thread has it at a fork.
static TURN: ForkMutex<()> = ForkMutex::new(());

/// Private pages of a file, which only this uses.
#[derive(Debug)]
pub(crate) enum Pages {
    Part(Part),
    Own(OwnMap),
}

/// Private pages that the tensors of a storage share.
pub(crate) struct Storage(Arc<Pages>);

#[derive(Debug, Default)]
enum State {
    /// No tensor was requested yet.
    #[default]
    Unmapped,
    /// The system does not map the file.
    Refused,
    Mapped {
        map: Arc<MmapRaw>,
        /// The ranges that were given, by their beginnings. No two overlap.
        given: BTreeMap<usize, Given>,
    },
}

/// A range that was given.
#[derive(Debug)]
struct Given {
    end: usize,
    /// True until its part is dropped.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux makes parts"))]
    lives: bool,
}

impl PrivateMap {
    /// Returns bytes of a file; `None` if the system refuses a map.
    ///
    /// # Safety
    /// The file is always the same. No program changes it, or makes it shorter, while this or the result lives.
    pub(crate) unsafe fn pages(&self, file: &File, range: Range<usize>) -> Option<Pages> {
        // SAFETY: the contract of this function.
        if let Some(part) = unsafe { self.part(file, range.clone()) } {
            return Some(Pages::Part(part));
        }
        // SAFETY: as above.
        unsafe { OwnMap::new(file, range.start as u64, range.len()) }.map(Pages::Own)
    }

    /// Returns the bytes of a storage, which are the same while one result lives.
    ///
    /// # Safety
    /// As for [`pages`](Self::pages).
    pub(crate) unsafe fn storage(&self, file: &File, range: Range<usize>) -> Option<Storage> {
        let _turn = TURN.lock();
        let mut storages = self.storages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pages) = storages.get(&range.start).and_then(Weak::upgrade) {
            return Some(Storage(pages));
        }
        let first = range.start;
        // SAFETY: the contract of this function.
        let pages = Arc::new(unsafe { self.pages(file, range) }?);
        storages.insert(first, Arc::downgrade(&pages));
        Some(Storage(pages))
    }

    /// Returns bytes of a file, which this maps for the first of them. `None` if they are not in the file or were given
    /// before, if the system refuses the map, and if another thread has the lock for long.
    ///
    /// Only Linux can drop the copies of single pages, so that a [`Part`] frees its memory before the others end.
    ///
    /// # Safety
    /// The file is always the same. No program changes it, or makes it shorter, while this or a part of it lives.
    unsafe fn part(&self, file: &File, range: Range<usize>) -> Option<Part> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let mut state = lock(&self.state)?;
        if let State::Unmapped = *state {
            // Without a reservation, a file may be larger than the memory.
            // SAFETY: the caller promises that no program changes the file while this or a part of it lives.
            let map = unsafe { MmapOptions::new().no_reserve_swap().map_copy(file) };
            *state = match map {
                Ok(map) => State::Mapped { map: Arc::new(map.into()), given: BTreeMap::new() },
                Err(_) => State::Refused,
            };
        }
        let State::Mapped { map, given } = &mut *state else { return None };
        if range.is_empty() || range.end > map.len() {
            return None;
        }
        let before = given.range(..range.end).next_back();
        if before.is_some_and(|(_, before)| before.end > range.start) {
            return None;
        }
        given.insert(range.start, Given { end: range.end, lives: true });
        Some(Part { map: Arc::clone(map), range, of: Arc::clone(&self.state) })
    }
}

/// Takes the lock, unless another thread has it for longer than a request takes.
fn lock<T>(state: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for turn in 0..1020 {
        match state.try_lock() {
            Ok(state) => return Some(state),
            Err(TryLockError::Poisoned(state)) => return Some(state.into_inner()),
            Err(TryLockError::WouldBlock) if turn < 1000 => hint::spin_loop(),
            // The other thread may wait for a processor.
            Err(TryLockError::WouldBlock) => thread::yield_now(),
        }
    }
    None
}

/// Bytes of a [`PrivateMap`] that nothing else uses, before or after.
#[derive(Debug)]
pub(crate) struct Part {
    map: Arc<MmapRaw>,
    range: Range<usize>,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux makes parts"))]
    of: Arc<Mutex<State>>,
}

impl Pages {
    fn bytes(&self) -> *mut [u8] {
        match self {
            Self::Part(Part { map, range, .. }) => {
                // SAFETY: `part` has checked that the range is within the map.
                let first = unsafe { map.as_mut_ptr().add(range.start) };
                ptr::slice_from_raw_parts_mut(first, range.len())
            }
            Self::Own(OwnMap { map, .. }) => {
                ptr::slice_from_raw_parts_mut(map.as_mut_ptr(), map.len())
            }
        }
    }
}

// SAFETY: `PrivateMap::part` gives each byte of the map once, and an `OwnMap` has its own, so only this reads or writes
// these. They are in a map, which does not move and which this keeps.
unsafe impl Owner for Pages {
    type Item = u8;
    const ACCESS: Access = Access::Exclusive;
    const IS_LEAF: bool = true;

    fn items(&mut self) -> *mut [u8] {
        self.bytes()
    }
}

// SAFETY: as above; but other tensors have these bytes too, so that none of them is exclusive.
unsafe impl Owner for Storage {
    type Item = u8;
    const ACCESS: Access = Access::Shared;
    const IS_LEAF: bool = true;

    fn items(&mut self) -> *mut [u8] {
        self.0.bytes()
    }
}

impl Drop for Part {
    /// Frees the copied pages. Those that also have bytes of a part that lives are freed after it.
    #[cfg(target_os = "linux")]
    fn drop(&mut self) {
        let page = rustix::param::page_size();
        let (first, last) = (self.range.start / page * page, self.range.end.next_multiple_of(page));
        let whole = self.range.start.next_multiple_of(page)..self.range.end / page * page;
        // SAFETY: all bytes of these pages are those of this part, and nothing uses it any more.
        unsafe { free(&self.map, whole.clone()) };
        let Some(mut state) = lock(&self.of) else { return };
        let State::Mapped { given, .. } = &mut *state else { return };
        end(given, &self.range);
        let last_page = (last - page > first).then_some(last - page);
        for begin in [Some(first), last_page].into_iter().flatten() {
            let pages = begin..begin + page;
            let inside = given.range(..pages.end).rev();
            let mut inside = inside.take_while(|(_, given)| given.end > begin);
            if !whole.contains(&begin) && !inside.any(|(_, given)| given.lives) {
                // SAFETY: no part with a byte of this page lives, and none is given while this has the lock.
                unsafe { free(&self.map, pages) };
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn drop(&mut self) {}
}

/// Notes that the part of a range was dropped. Neighbours that were dropped become one range, so that a page has few.
#[cfg(target_os = "linux")]
fn end(given: &mut BTreeMap<usize, Given>, range: &Range<usize>) {
    let mut ended = range.clone();
    if let Some((begin, before)) = given.range(..range.start).next_back()
        && !before.lives
        && before.end == range.start
    {
        ended.start = *begin;
    }
    if let Some(after) = given.get(&range.end).filter(|after| !after.lives) {
        ended.end = after.end;
        given.remove(&range.end);
    }
    given.remove(&range.start);
    given.insert(ended.start, Given { end: ended.end, lives: false });
}

/// Frees the copies of whole pages, which then have the bytes of the file again.
///
/// # Safety
/// Nothing uses these bytes at this time.
#[cfg(target_os = "linux")]
unsafe fn free(map: &MmapRaw, pages: Range<usize>) {
    if !pages.is_empty() {
        let free = memmap2::UncheckedAdvice::DontNeed;
        // An error leaves the copies until the map ends.
        // SAFETY: the caller promises that nothing uses these bytes now. The range ends with the map.
        let _ = unsafe {
            map.unchecked_advise_range(free, pages.start, pages.len().min(map.len() - pages.start))
        };
    }
}

/// A private map of some bytes, for one tensor.
#[derive(Debug)]
pub(crate) struct OwnMap {
    map: MmapRaw,
    _counted: Counted,
}

impl OwnMap {
    /// Maps bytes of a file. Returns `None` if too many such maps live, or the system refuses the map.
    ///
    /// # Safety
    /// No program changes the file, or makes it shorter, while the map lives.
    unsafe fn new(file: &File, offset: u64, len: usize) -> Option<Self> {
        let counted = Counted::new();
        if MAPS.load(Ordering::Relaxed) > MAX_MAPS {
            return None;
        }
        let mut options = MmapOptions::new();
        options.offset(offset).len(len).no_reserve_swap();
        // SAFETY: the caller promises that no program changes the file while the map lives.
        let map = unsafe { options.map_copy(file) };
        map.ok().map(|map| Self { map: map.into(), _counted: counted })
    }
}

/// An [`OwnMap`] that lives.
#[derive(Debug)]
struct Counted;

impl Counted {
    fn new() -> Self {
        MAPS.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        MAPS.fetch_sub(1, Ordering::Relaxed);
    }
}
