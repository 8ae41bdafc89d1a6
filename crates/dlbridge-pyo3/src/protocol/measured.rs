//! Facts about the descriptions of a type's objects, found when the first of them was imported.

use std::sync::atomic::{AtomicU8, Ordering};

/// The known facts about the descriptions of a type's objects.
pub(crate) struct Measured(AtomicU8);

impl Measured {
    pub(super) const UNKNOWN: u8 = 0;
    pub(super) const YES: u8 = 1;
    pub(super) const NO: u8 = 2;

    pub(super) const fn unknown() -> Self {
        Self(AtomicU8::new(Self::UNKNOWN))
    }

    #[inline]
    pub(super) fn is(&self, state: u8) -> bool {
        self.0.load(Ordering::Relaxed) == state
    }

    pub(super) fn set(&self, state: u8) {
        self.0.store(state, Ordering::Relaxed);
    }
}
