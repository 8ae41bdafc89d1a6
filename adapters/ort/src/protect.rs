//! Memory that inputs are over: a model whose output is its input hands it on, and nothing else tells who it
//! belongs to.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ort::value::DynTensor;

/// All such memory.
static PROTECTED: Mutex<Vec<Protected>> = Mutex::new(Vec::new());

/// The memory of an input.
#[derive(Clone, PartialEq)]
struct Protected {
    bytes: Range<usize>,
    read_only: bool,
}

/// Keeps memory protected for as long as it lives.
pub(crate) struct Protection(Protected);

impl Protection {
    pub(crate) fn new(bytes: Range<usize>, read_only: bool) -> Self {
        let memory = Protected { bytes, read_only };
        protected().push(memory.clone());
        Self(memory)
    }
}

impl Drop for Protection {
    fn drop(&mut self) {
        let mut all = protected();
        if let Some(place) = all.iter().position(|memory| *memory == self.0) {
            all.swap_remove(place);
        }
    }
}

/// The addresses of the elements of a value on the host.
pub(crate) fn bytes_of(value: &DynTensor) -> Range<usize> {
    let start = value.data_ptr().addr();
    start..start + value.size().unwrap_or(0)
}

/// Whether an input is over just these bytes, which protects them as well.
pub(crate) fn covers(bytes: &Range<usize>, read_only: bool) -> bool {
    protected().iter().any(|memory| memory.bytes == *bytes && (memory.read_only || !read_only))
}

/// Whether an input is over a part of the bytes.
pub(crate) fn is_protected(bytes: &Range<usize>) -> bool {
    protected().iter().any(|memory| overlap(&memory.bytes, bytes))
}

/// Whether an input is over a part of the bytes that must not be written.
pub(crate) fn is_read_only(bytes: &Range<usize>) -> bool {
    protected().iter().any(|memory| memory.read_only && overlap(&memory.bytes, bytes))
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}

fn protected() -> MutexGuard<'static, Vec<Protected>> {
    PROTECTED.lock().unwrap_or_else(PoisonError::into_inner)
}
