//! Copies of elements. During a large copy, other Python threads run, and a signal can stop it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use dlbridge::{Result, Tensor, TensorRef};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::python::error::to_py_err;

/// Copies of at least this many bytes release the GIL. Releasing and taking it costs 0.1 to 0.3 µs, less than 0.2 %
/// of a copy of this size, which takes 160 µs or more. Smaller copies hold the GIL for less than the 5 ms that Python
/// gives a thread, which is also how long the copying thread may wait to get it back.
const DETACHED: usize = 1 << 22;

/// Returns true if a thread copies this number of bytes while it stays attached.
pub(crate) fn is_short(bytes: u128) -> bool {
    bytes < DETACHED as u128
}

/// The time between two checks for signals: a check may wait 5 ms to attach.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// A copy in C order in new memory, aligned to `alignment` bytes, a power of two. The caller must hold a borrow of
/// the source, and keep it alive.
pub fn copied(source: &TensorRef<'_>, alignment: usize) -> PyResult<Tensor> {
    let bytes = bytes(source);
    if bytes < DETACHED {
        return source.to_aligned_copy(alignment).map_err(to_py_err);
    }
    detached(bytes, |go_on| source.to_copy_while(alignment, go_on))
}

/// As [`copied`], with the bytes of each number reversed.
pub fn byte_swapped(source: &TensorRef<'_>) -> PyResult<Tensor> {
    detached(bytes(source), |go_on| source.to_byte_swapped_while(go_on))
}

/// As [`copied`], with a byte for each element that is narrower.
pub fn unpacked(source: &Tensor) -> PyResult<Tensor> {
    detached(source.len(), |_| source.to_unpacked().map(Some))
}

/// The size of a copy in bytes.
fn bytes(source: &TensorRef<'_>) -> usize {
    source.nbytes().try_into().unwrap_or(usize::MAX)
}

/// Runs `work` on `bytes` bytes, detached from Python if they are at least `DETACHED`. `work` calls its argument now
/// and then, and returns `None` if that returns false: a signal is pending then, and its exception is raised.
pub fn detached<R: Send>(
    bytes: usize,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<Option<R>> + Send,
) -> PyResult<R> {
    let (mut work, mut done) = (Some(work), None);
    while_detached(bytes, &mut |go_on| done = work.take().map(|work| work(go_on)))?;
    let done = done.expect("the work ran").map_err(to_py_err)?;
    Ok(done.expect("no check stopped the work"))
}

/// Runs `work`, as `detached` does, compiled once for all kinds of work.
///
/// # Errors
/// The exception of a signal handler.
pub fn while_detached(
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
                    // Attaching fails when Python ends and does not wait for this thread.
                    let signals = Python::try_attach(|py| py.check_signals());
                    interrupt = signals.and_then(std::result::Result::err);
                    asked = Instant::now();
                }
                interrupt.is_none()
            });
        });
        // A signal may have come since the last check.
        let done = interrupt.map_or_else(|| py.check_signals(), Err);
        INTERRUPT.set(done.as_ref().err().map_or(0, |interrupt| address(py, interrupt)));
        done
    })
}

thread_local! {
    /// The address of the exception that stopped this thread's last large copy, until an import begins: another
    /// exception may get the same address later.
    static INTERRUPT: Cell<usize> = const { Cell::new(0) };
}

fn address(py: Python<'_>, error: &PyErr) -> usize {
    error.value(py).as_ptr().addr()
}

/// Called when an import begins.
pub(crate) fn forget_interrupt() {
    INTERRUPT.set(0);
}

/// Returns true for an exception that ends the program, so that no other protocol is tried and no other refusal
/// replaces it: `KeyboardInterrupt` and others that are not an `Exception`, and those of [signal
/// handlers](is_interrupt).
pub fn must_be_raised(py: Python<'_>, error: &PyErr) -> bool {
    !error.is_instance_of::<PyException>(py) || is_interrupt(py, error)
}

/// Returns true for an exception of a signal handler that stopped a copy of the current import, and false for one of
/// a producer.
pub fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    INTERRUPT.get() == address(py, error)
}
