//! Events: points of a stream that others wait for.

use dlbridge::Device;

use super::driver::{Driver, EventHandle, Failure, Result, StreamHandle};
use super::stream::Stream;

/// The kind of event that is no clock.
const DISABLE_TIMING: u32 = 2;
const NOT_READY: i32 = 600;

/// What a stream had under way when it was recorded.
pub(super) struct Event {
    driver: &'static Driver,
    device: i32,
    handle: EventHandle,
}

impl Event {
    /// Records what is under way on a stream.
    pub(super) fn on(stream: Stream) -> Result<Self> {
        let (driver, device) = (stream.driver(), stream.device());
        let _entered = driver.enter(device)?;
        let mut handle = 0;
        // SAFETY: a place for the event.
        let status = unsafe { (driver.event_create)(&mut handle, DISABLE_TIMING) };
        driver.check("create an event", status)?;
        let event = Self { driver, device, handle };
        // SAFETY: Live, and an event of the stream's device.
        let status = unsafe { (driver.event_record)(handle, stream.handle()) };
        driver.check("record an event", status)?;
        Ok(event)
    }

    /// Makes a stream wait for it.
    pub(super) fn wait_on(&self, stream: Stream) -> Result<()> {
        let _entered = self.driver.enter(stream.device())?;
        // SAFETY: Live, and a recorded event.
        let status = unsafe { (self.driver.stream_wait_event)(stream.handle(), self.handle, 0) };
        self.driver.check("let a stream wait", status)
    }

    /// Whether it has passed.
    pub(super) fn has_passed(&self) -> Result<bool> {
        let _entered = self.driver.enter(self.device)?;
        // SAFETY: a recorded event.
        match unsafe { (self.driver.event_query)(self.handle) } {
            NOT_READY => Ok(false),
            status => self.driver.check("look at an event", status).map(|()| true),
        }
    }

    /// Waits for it on this thread.
    pub(super) fn wait(&self) -> Result<()> {
        let _entered = self.driver.enter(self.device)?;
        // SAFETY: a recorded event.
        let status = unsafe { (self.driver.event_synchronize)(self.handle) };
        self.driver.check("wait for an event", status)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // An event is destroyed by its handle, also if its device cannot be made the current one.
        let _entered = self.driver.enter(self.device);
        // SAFETY: an event that is used no more. There is nobody to tell of a failure, and the driver does not say whether
        // the event is gone: it is not tried again.
        unsafe { (self.driver.event_destroy)(self.handle) };
    }
}

/// Makes the stream `waiting` wait for what is on `passed`. A stream may be of another device than is meant, whose memory it
/// reaches.
///
/// Nothing is done that would spoil the capture of a graph.
///
/// # Errors
/// Returns an error without the driver, if the driver refuses, and if a graph is captured on one of the streams alone.
///
/// # Safety
/// Live streams, or the handles of default ones of these devices.
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
    // SAFETY: the caller guarantees that both streams live during this call, at whose end the values are gone.
    let (passed, waiting) = unsafe {
        let passed = Stream::of(driver, passed_on.id(), passed)?;
        (passed, Stream::of(driver, waiting_on.id(), waiting)?)
    };
    let (before, after) = (Capture::of(passed)?, Capture::of(waiting)?);
    if before != after || before == Capture::OfAnother {
        let what = "and cannot be put in order with a stream that is not";
        before.expect_none(passed, what)?;
        after.expect_none(waiting, what)?;
    }
    Event::on(passed)?.wait_on(waiting)
}

/// Waits for what is under way on a stream.
///
/// # Errors
/// Returns an error without the driver, if the driver refuses, and while a graph is captured on the stream.
///
/// # Safety
/// A live stream of the device, or the handle of a default one.
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
    // SAFETY: the caller guarantees that the stream lives during this call, at whose end the value is gone.
    let stream = unsafe { Stream::of(driver, device.id(), stream) }?;
    Capture::of(stream)?.expect_none(stream, "and cannot be waited for")?;
    Event::on(stream)?.wait()
}

/// Whether work on a stream becomes part of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// It is done.
    None,
    /// It does, of the capture of that number.
    Of(u64),
    /// The stream is the legacy one, and another is captured that would wait for it: nothing can be put on it.
    OfAnother,
}

impl Capture {
    /// Whether a stream is captured.
    pub(super) fn of(stream: Stream) -> Result<Self> {
        const CAPTURE_IMPLICIT: i32 = 906;
        let driver = stream.driver();
        let _entered = driver.enter(stream.device())?;
        let (mut status, mut number) = (0, 0);
        // SAFETY: Live, and places for both.
        match unsafe { (driver.stream_capture_info)(stream.handle(), &mut status, &mut number) } {
            CAPTURE_IMPLICIT => Ok(Self::OfAnother),
            answer => {
                driver.check("say whether a stream is captured", answer)?;
                Ok(if status == 0 { Self::None } else { Self::Of(number) })
            }
        }
    }

    /// The refusal of what cannot be part of a graph, or would spoil one.
    pub(super) fn expect_none(self, stream: Stream, what: &str) -> Result<()> {
        match self {
            Self::None => Ok(()),
            Self::Of(_) => Err(Failure::new(format!(
                "the stream {:#x} is being captured in a graph, {what}: exchange the tensor before the \
                 capture, or on the captured stream from the beginning; or pass stream=-1, and see to the order \
                 yourself",
                stream.handle()
            ))),
            Self::OfAnother => Err(Failure::new(
                "the default stream cannot be used while a graph is captured: exchange the tensor before the \
                 capture, or pass stream=-1, and see to the order yourself",
            )),
        }
    }
}
