//! Finds what was crafted by its address. A field, a capsule's name or a deleter may lie about it: tests need that.
//!
//! Only threads attached to the interpreter take the lock, and they run no Python code meanwhile. So `os.fork` never copies it locked.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A thing at an address, where it stays until the process ends.
#[derive(Clone, Copy)]
pub(crate) enum What {
    /// The struct of a [`Block`](crate::block::Block).
    Struct,
    /// A table of the C exchange API.
    Table,
    /// So many numbers of a shape, or of strides.
    Numbers(usize),
}

static MADE: Mutex<BTreeMap<usize, What>> = Mutex::new(BTreeMap::new());

/// Remembers what was put at an address for ever.
pub(crate) fn add(address: usize, what: What) {
    locked(&MADE).insert(address, what);
}

/// Returns what was crafted at an address.
pub(crate) fn at(address: usize) -> Option<What> {
    locked(&MADE).get(&address).copied()
}

/// The value in a lock, also after a panic of a thread that held it.
pub(crate) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
