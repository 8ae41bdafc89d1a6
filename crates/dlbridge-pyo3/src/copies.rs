//! Copies of elements: other Python threads run while a large one is made, and an interrupt ends it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use dlbridge::{Result, Tensor, TensorRef};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::error::to_py_err;

/// Copies of this many bytes or more let other Python threads run. To release and take the GIL costs 0.1 to 0.3 µs, less
/// than 0.2 % of a copy of this size, which takes 160 µs or more. Smaller copies hold the GIL for less than the 5 ms that Python
/// gives a thread, which is also how long the copying thread may wait to get it back.
const DETACHED: usize = 1 << 22;

/// How often a copy asks for interrupts: to be attached it may wait for 5 ms.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// Elements that work which asks by itself does between two questions whether to go on.
pub(crate) const BLOCK: usize = 1 << 22;

/// A copy in C order in new memory, at a multiple of `alignment`, a power of two. The caller holds a borrow of the
/// source, and keeps it alive.
pub(crate) fn copied(source: &TensorRef<'_>, alignment: usize) -> PyResult<Tensor> {
    detached(bytes(source), |go_on| source.to_copy_while(alignment, go_on))
}

/// The same with the bytes of each number reversed.
pub(crate) fn byte_swapped(source: &TensorRef<'_>) -> PyResult<Tensor> {
    detached(bytes(source), |go_on| source.to_byte_swapped_while(go_on))
}

/// The same with a byte for each element that is narrower.
pub(crate) fn unpacked(source: &Tensor) -> PyResult<Tensor> {
    detached(source.len(), |_| source.to_unpacked().map(Some))
}

/// The bytes that a copy of a tensor has.
fn bytes(source: &TensorRef<'_>) -> usize {
    source.nbytes().try_into().unwrap_or(usize::MAX)
}

/// Calls `work` with one block of elements after the other, and where it begins; `None` if it is not to go on.
pub(crate) fn each_block<T>(
    elements: &mut [T],
    go_on: &mut dyn FnMut() -> bool,
    mut work: impl FnMut(usize, &mut [T]),
) -> Option<()> {
    for (nth, block) in elements.chunks_mut(BLOCK).enumerate() {
        if nth > 0 && !go_on() {
            return None;
        }
        work(nth * BLOCK, block);
    }
    Some(())
}

/// Runs `work` on `bytes` bytes, detached from Python if they are `DETACHED` or more. `work` calls its argument now and then,
/// and returns `None` if that returns false: then an interrupt is pending, and is raised.
pub(crate) fn detached<R: Send>(
    bytes: usize,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<Option<R>> + Send,
) -> PyResult<R> {
    let (mut work, mut done) = (Some(work), None);
    while_detached(bytes, &mut |go_on| done = work.take().map(|work| work(go_on)))?;
    let done = done.expect("the work was done").map_err(to_py_err)?;
    Ok(done.expect("it was told to go on"))
}

/// As [`detached`], compiled once for all kinds of work.
fn while_detached(
    bytes: usize,
    work: &mut (dyn FnMut(&mut dyn FnMut() -> bool) + Send),
) -> PyResult<()> {
    if bytes < DETACHED {
        work(&mut || true);
        return Ok(());
    }
    Python::attach(|py| {
        let mut interrupt = None;
        py.detach(|| {
            let mut asked = Instant::now();
            work(&mut || {
                if asked.elapsed() >= ASKED_EVERY {
                    // Not where Python ends, and this is a thread that it does not wait for.
                    let signals = Python::try_attach(|py| py.check_signals());
                    interrupt = signals.and_then(std::result::Result::err);
                    asked = Instant::now();
                }
                interrupt.is_none()
            });
        });
        // Or one that came since the last question.
        let done = interrupt.map_or_else(|| py.check_signals(), Err);
        INTERRUPT.set(done.as_ref().err().map_or(0, |interrupt| address(py, interrupt)));
        done
    })
}

thread_local! {
    /// The address of the exception that ended this thread's last large copy, until an import begins: another exception
    /// may get the address later.
    static INTERRUPT: Cell<usize> = const { Cell::new(0) };
}

fn address(py: Python<'_>, error: &PyErr) -> usize {
    error.value(py).as_ptr().addr()
}

/// Called where an import begins.
pub(crate) fn forget_interrupt() {
    INTERRUPT.set(0);
}

/// Returns true for an exception that ends what the program does, so that no other protocol is tried and no other refusal takes its
/// place: `KeyboardInterrupt` and others that are not an `Exception`, and those of [signal handlers](is_interrupt).
pub(crate) fn must_be_raised(py: Python<'_>, error: &PyErr) -> bool {
    !error.is_instance_of::<PyException>(py) || is_interrupt(py, error)
}

/// Returns true for an exception of a signal handler that ended a copy of the import that is made, and false for one of a
/// producer.
pub(crate) fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    INTERRUPT.get() == address(py, error)
}
