//! Long copies in blocks, between which the caller may stop them.

/// Bytes of a block: a few milliseconds of copying, on several threads.
const BLOCK: usize = if cfg!(any(test, miri)) { 1 << 10 } else { 1 << 26 };

/// The size of the blocks of a copy, and the caller's function that can stop the copy between two of them.
pub(crate) struct Blocks<'a> {
    size: usize,
    go_on: &'a mut dyn FnMut() -> bool,
}

impl<'a> Blocks<'a> {
    /// For a copy in one block, which cannot be stopped.
    pub(crate) fn one(go_on: &'a mut dyn FnMut() -> bool) -> Self {
        Self { size: usize::MAX, go_on }
    }

    /// For a copy that ends when `go_on` returns false.
    pub(crate) fn stopped_by(go_on: &'a mut dyn FnMut() -> bool) -> Self {
        Self { size: BLOCK, go_on }
    }

    /// The number of blocks in a copy of `bytes` bytes, at least one.
    pub(crate) fn count(&self, bytes: usize) -> usize {
        (bytes / self.size).max(1)
    }

    /// Returns false if the copy must stop.
    pub(crate) fn go_on(&mut self) -> bool {
        (self.go_on)()
    }
}
