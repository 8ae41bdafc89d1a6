//! Finds crafted structs by their address, because fields, capsule names and deleters may lie about them.
//!
//! Only threads that are attached to the interpreter take the lock, and they run no Python code while they hold it. So
//! `os.fork` never copies it locked.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The kind of a crafted thing. It stays at its address until the process ends.
#[derive(Clone, Copy)]
pub(crate) enum What {
    /// The struct of a [`Block`](crate::block::Block).
    Struct,
    /// A table of the C exchange API.
    Table,
    /// The numbers of a shape or of strides: how many there are.
    Numbers(usize),
}

static MADE: Mutex<BTreeMap<usize, What>> = Mutex::new(BTreeMap::new());

/// Remembers a thing that stays at an address until the process ends.
pub(crate) fn add(address: usize, what: What) {
    locked(&MADE).insert(address, what);
}

/// Returns the kind of the crafted thing at an address.
pub(crate) fn at(address: usize) -> Option<What> {
    locked(&MADE).get(&address).copied()
}

/// The value in a lock, also after a panic of a thread that held it.
pub(crate) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
