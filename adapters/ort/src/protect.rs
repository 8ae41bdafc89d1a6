//! Memory of inputs. If a model's output is its input, ONNX Runtime returns that memory, and only this list shows
//! that it belongs to an input.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ort::value::DynTensor;

/// The memory of all inputs.
static PROTECTED: Mutex<Vec<Protected>> = Mutex::new(Vec::new());

/// The memory of an input.
#[derive(Clone, PartialEq)]
struct Protected {
    bytes: Range<usize>,
    read_only: bool,
}

/// Protects memory for as long as it lives.
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

/// Returns the addresses of the elements of a value on the host.
pub(crate) fn bytes_of(value: &DynTensor) -> Range<usize> {
    let start = value.data_ptr().addr();
    start..start + value.size().unwrap_or(0)
}

/// Returns whether an input has exactly these bytes, with at least this protection.
pub(crate) fn covers(bytes: &Range<usize>, read_only: bool) -> bool {
    protected().iter().any(|memory| memory.bytes == *bytes && (memory.read_only || !read_only))
}

/// Returns whether an input overlaps the bytes.
pub(crate) fn is_protected(bytes: &Range<usize>) -> bool {
    protected().iter().any(|memory| overlap(&memory.bytes, bytes))
}

/// Returns whether a read-only input overlaps the bytes.
pub(crate) fn is_read_only(bytes: &Range<usize>) -> bool {
    protected().iter().any(|memory| memory.read_only && overlap(&memory.bytes, bytes))
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}

fn protected() -> MutexGuard<'static, Vec<Protected>> {
    PROTECTED.lock().unwrap_or_else(PoisonError::into_inner)
}
