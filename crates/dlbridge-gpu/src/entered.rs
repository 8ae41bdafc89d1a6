//! The device that a thread works on: made the current one for a call, and the one before it again after that.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::driver::{ContextHandle, Driver, Result, StreamContext, StreamHandle, Switch};

/// The contexts of CUDA's devices that are held, by the numbers of the devices; 0 for one that is not.
static CONTEXTS: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// A device is the current one of this thread until this is dropped.
pub(super) struct Entered<'d> {
    driver: &'d Driver,
    /// The mode of captures before, if another is set.
    capture_mode: Option<c_int>,
    // Dropped last.
    _current: Current<'d>,
}

impl Driver {
    /// Makes a device the current one of this thread, until the returned value is dropped. Calls in
    /// between do not spoil the capture of a graph on another stream.
    pub(super) fn enter(&self, device: i32) -> Result<Entered<'_>> {
        const RELAXED: c_int = 2;
        let _current = match self.switch {
            Switch::Cuda { .. } => self.push(self.context(device)?, "enter its context")?,
            Switch::Rocm { get, set } => {
                let mut before = 0;
                // SAFETY: a place for the number.
                self.check("name the device", unsafe { get(&mut before) })?;
                // SAFETY: a number, which the driver checks.
                self.check("change the device", unsafe { set(device) })?;
                Current { driver: self, before }
            }
        };
        let mut mode = RELAXED;
        // SAFETY: a place that has the new mode, and gets the old one.
        let status = unsafe { (self.exchange_capture_mode)(&mut mode) };
        // The driver may have changed the mode and report an earlier error.
        let capture_mode = (mode != RELAXED).then_some(mode);
        let entered = Entered { driver: self, capture_mode, _current };
        self.check("change its mode of captures", status)?;
        Ok(entered)
    }

    /// Makes a context of CUDA the current one.
    fn push(&self, context: ContextHandle, what: &str) -> Result<Current<'_>> {
        if let Switch::Cuda { push, .. } = self.switch {
            // SAFETY: a context that is held, or that of a live stream.
            self.check(what, unsafe { push(context) })?;
        }
        Ok(Current { driver: self, before: 0 })
    }

    /// The context of a device that all libraries share, which is held from then on.
    pub(super) fn context(&self, device: i32) -> Result<ContextHandle> {
        let Switch::Cuda { retain, .. } = self.switch else { return Ok(0) };
        // A device without a place is asked for each time.
        let place = usize::try_from(device).ok().and_then(|number| CONTEXTS.get(number));
        let known = place.map_or(0, |place| place.load(Ordering::Acquire));
        if known != 0 {
            return Ok(known);
        }
        let mut context = 0;
        // SAFETY: a place for the context; the driver checks the number.
        self.check("name the context of the device", unsafe { retain(&mut context, device) })?;
        // Two threads may both hold it, which does no harm.
        if let Some(place) = place {
            place.store(context, Ordering::Release);
        }
        Ok(context)
    }

    /// The device of a stream; `meant` for the handle of a default stream.
    ///
    /// # Safety
    /// A live stream, or the handle of a default one.
    pub(super) unsafe fn device_of(&self, stream: StreamHandle, meant: i32) -> Result<i32> {
        const PER_THREAD: StreamHandle = 2;
        if stream <= PER_THREAD {
            return Ok(meant);
        }
        let mut device = 0;
        let status = match self.stream_context {
            // SAFETY: a place for the number; the caller guarantees that the stream lives.
            StreamContext::Rocm(of_stream) => unsafe { of_stream(stream, &mut device) },
            StreamContext::Cuda { of_stream, device: of_context } => {
                let _entered = self.enter(meant)?;
                let mut context = 0;
                // SAFETY: a place for the context; the caller guarantees that the stream lives.
                let status = unsafe { of_stream(stream, &mut context) };
                self.check("say of which device a stream is", status)?;
                let _current = self.push(context, "enter the context of a stream")?;
                // SAFETY: a place for the number.
                unsafe { of_context(&mut device) }
            }
        };
        self.check("say of which device a stream is", status)?;
        Ok(device)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.capture_mode {
            let set = || {
                let mut mode = before;
                // SAFETY: a place that has the new mode, and gets the old one.
                unsafe { (self.driver.exchange_capture_mode)(&mut mode) == 0 }
            };
            at_most_twice(set);
        }
    }
}

/// The current device or context of this thread until this is dropped.
struct Current<'d> {
    driver: &'d Driver,
    /// The number of the device before, which only ROCm needs.
    before: i32,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        at_most_twice(|| match self.driver.switch {
            Switch::Cuda { pop, .. } => {
                let mut popped = 0;
                // SAFETY: a place for the context that was pushed.
                let _ = unsafe { pop(&mut popped) };
                // Not the status: the driver may have done it and report an error of something before.
                popped != 0
            }
            // SAFETY: the number of a device.
            Switch::Rocm { set, .. } => unsafe { set(self.before) == 0 },
        });
    }
}

/// Puts something back on this thread, once more if that failed: the program's own code works on it afterwards. Nobody can
/// be told of a second failure.
fn at_most_twice(mut put_back: impl FnMut() -> bool) {
    let _ = put_back() || put_back();
}
