//! Read-only memory that values are over: a model whose output is its input hands it on, and nothing else
//! tells who it belongs to.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The addresses of all of it.
static PROTECTED: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// Read-only memory, for as long as this lives.
pub(crate) struct Protected(Range<usize>);

impl Protected {
    pub(crate) fn new(bytes: Range<usize>) -> Self {
        protected().push(bytes.clone());
        Self(bytes)
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        let mut all = protected();
        if let Some(place) = all.iter().position(|bytes| *bytes == self.0) {
            all.swap_remove(place);
        }
    }
}

/// Whether the memory at an address must not be written.
pub(crate) fn is_protected(address: usize) -> bool {
    protected().iter().any(|bytes| bytes.contains(&address))
}

fn protected() -> MutexGuard<'static, Vec<Range<usize>>> {
    PROTECTED.lock().unwrap_or_else(PoisonError::into_inner)
}
