//! Events: points of a stream that other streams and threads wait for.

use dlbridge::Device;

use super::driver::{Driver, EventHandle, Failure, Result, StreamHandle};
use super::stream::Stream;

/// The flag of an event that records no time.
const DISABLE_TIMING: u32 = 2;
const NOT_READY: i32 = 600;

/// The work that was pending on a stream when the event was recorded.
pub(super) struct Event {
    driver: &'static Driver,
    device: i32,
    handle: EventHandle,
}

impl Event {
    /// Records the pending work of a stream.
    pub(super) fn on(stream: Stream) -> Result<Self> {
        let (driver, device) = (stream.driver(), stream.device());
        let _entered = driver.enter(device)?;
        let mut handle = 0;
        // SAFETY: `handle` is writable.
        let status = unsafe { (driver.event_create)(&mut handle, DISABLE_TIMING) };
        driver.check("create an event", status)?;
        let event = Self { driver, device, handle };
        // SAFETY: the stream is live (Live), and the event is of the stream's device.
        let status = unsafe { (driver.event_record)(handle, stream.handle()) };
        driver.check("record an event", status)?;
        Ok(event)
    }

    /// Makes a stream wait for the event.
    pub(super) fn wait_on(&self, stream: Stream) -> Result<()> {
        let _entered = self.driver.enter(stream.device())?;
        // SAFETY: the stream is live (Live), and the event is recorded.
        let status = unsafe { (self.driver.stream_wait_event)(stream.handle(), self.handle, 0) };
        self.driver.check("let a stream wait", status)
    }

    /// Returns true if the recorded work is done.
    pub(super) fn has_passed(&self) -> Result<bool> {
        let _entered = self.driver.enter(self.device)?;
        // SAFETY: the event is recorded, and destroyed only in `drop`.
        match unsafe { (self.driver.event_query)(self.handle) } {
            NOT_READY => Ok(false),
            status => self.driver.check("look at an event", status).map(|()| true),
        }
    }

    /// Makes this thread wait for the event.
    pub(super) fn wait(&self) -> Result<()> {
        let _entered = self.driver.enter(self.device)?;
        // SAFETY: the event is recorded, and destroyed only in `drop`.
        let status = unsafe { (self.driver.event_synchronize)(self.handle) };
        self.driver.check("wait for an event", status)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // The driver destroys an event by its handle, also if its device cannot be made the current one.
        let _entered = self.driver.enter(self.device);
        // SAFETY: nothing uses the event any more. A failure cannot be reported, and a second try would be wrong if the
        // event is gone, which the driver does not report.
        unsafe { (self.driver.event_destroy)(self.handle) };
    }
}

/// Makes the stream `waiting` wait for the pending work of `passed`.
///
/// A stream may belong to another device than the one beside it, if it reaches that device's memory. The call never
/// spoils the capture of a graph.
///
/// # Errors
/// Returns an error if the driver is missing or refuses, and if a graph is captured on one of the streams alone.
///
/// # Safety
/// Both handles are those of live streams, or of default streams of these devices.
///
/// ```
/// use dlbridge::{Device, DeviceType};
/// use dlbridge_gpu::order;
///
/// let device = Device::new(DeviceType::CUDA, 0);
/// // SAFETY: the handles of default streams.
/// if let Err(failure) = unsafe { order((device, 0), (device, 2)) } {
///     println!("{failure}");
/// }
/// ```
pub unsafe fn order(
    (passed_on, passed): (Device, StreamHandle),
    (waiting_on, waiting): (Device, StreamHandle),
) -> Result<()> {
    let driver = Driver::of(passed_on.device_type())?;
    // SAFETY: the caller guarantees that both streams live during this call; the values are not used longer.
    let (passed, waiting) = unsafe {
        let passed = Stream::of(driver, passed_on.id(), passed)?;
        (passed, Stream::of(driver, waiting_on.id(), waiting)?)
    };
    let (before, after) = (Capture::of(passed)?, Capture::of(waiting)?);
    if before != after || before == Capture::OfAnother {
        let what = "and cannot be ordered with a stream that is not";
        before.expect_none(passed, what)?;
        after.expect_none(waiting, what)?;
    }
    Event::on(passed)?.wait_on(waiting)
}

/// Waits for the pending work of a stream.
///
/// # Errors
/// Returns an error if the driver is missing or refuses, and while a graph is captured on the stream.
///
/// # Safety
/// `stream` is a live stream of the device, or the handle of a default one.
///
/// ```
/// use dlbridge::{Device, DeviceType};
/// use dlbridge_gpu::wait;
///
/// // SAFETY: the handle of the default stream.
/// if let Err(failure) = unsafe { wait(Device::new(DeviceType::CUDA, 0), 0) } {
///     println!("{failure}");
/// }
/// ```
pub unsafe fn wait(device: Device, stream: StreamHandle) -> Result<()> {
    let driver = Driver::of(device.device_type())?;
    // SAFETY: the caller guarantees that the stream lives during this call; the value is not used longer.
    let stream = unsafe { Stream::of(driver, device.id(), stream) }?;
    Capture::of(stream)?.expect_none(stream, "and cannot be waited for")?;
    Event::on(stream)?.wait()
}

/// The capture of a stream: work on a captured stream becomes part of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// Not captured: the work runs.
    None,
    /// Captured, in the capture with this number.
    Of(u64),
    /// The stream is the legacy one, and a captured stream would wait for it: the stream accepts no work.
    OfAnother,
}

impl Capture {
    /// Returns the capture of a stream.
    pub(super) fn of(stream: Stream) -> Result<Self> {
        const CAPTURE_IMPLICIT: i32 = 906;
        let driver = stream.driver();
        let _entered = driver.enter(stream.device())?;
        let (mut status, mut number) = (0, 0);
        // SAFETY: the stream is live (Live), and `status` and `number` are writable.
        match unsafe { (driver.stream_capture_info)(stream.handle(), &mut status, &mut number) } {
            CAPTURE_IMPLICIT => Ok(Self::OfAnother),
            answer => {
                driver.check("report if a stream is captured", answer)?;
                Ok(if status == 0 { Self::None } else { Self::Of(number) })
            }
        }
    }

    /// Refuses work that cannot be part of a graph, or would spoil one.
    pub(super) fn expect_none(self, stream: Stream, what: &str) -> Result<()> {
        match self {
            Self::None => Ok(()),
            Self::Of(_) => Err(Failure::new(format!(
                "the stream {:#x} is being captured in a graph, {what}: exchange the tensor before the \
                 capture, or on the captured stream from the beginning; or pass stream=-1, and synchronise \
                 yourself",
                stream.handle()
            ))),
            Self::OfAnother => Err(Failure::new(
                "the default stream cannot be used while a graph is captured: exchange the tensor before the \
                 capture, or pass stream=-1, and synchronise yourself",
            )),
        }
    }
}
