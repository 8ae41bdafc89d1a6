//! Long copies in blocks, between which the caller may stop them.

/// Bytes of a block: a few milliseconds of copying, on several threads.
const BLOCK: usize = if cfg!(any(test, miri)) { 1 << 10 } else { 1 << 26 };

/// The block size of a copy, and the caller's function that can stop the copy between two blocks.
pub(crate) struct Pace<'a> {
    block: usize,
    go_on: &'a mut dyn FnMut() -> bool,
}

impl<'a> Pace<'a> {
    /// For a copy in one block, which cannot be stopped.
    pub(crate) fn unbroken(go_on: &'a mut dyn FnMut() -> bool) -> Self {
        Self { block: usize::MAX, go_on }
    }

    /// For a copy that ends when `go_on` returns false.
    pub(crate) fn in_blocks(go_on: &'a mut dyn FnMut() -> bool) -> Self {
        Self { block: BLOCK, go_on }
    }

    /// The number of blocks in a copy of `bytes` bytes, at least one.
    pub(crate) fn blocks(&self, bytes: usize) -> usize {
        (bytes / self.block).max(1)
    }

    pub(crate) fn goes_on(&mut self) -> bool {
        (self.go_on)()
    }
}
