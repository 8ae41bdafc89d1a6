//! Copies from, to and between CUDA devices.

use std::ptr;

use dlbridge::{Access, ArcTensor, Device, DeviceType, RawParts, Tensor, TensorRef};

use super::driver::{Driver, Failure, MemoryFunctions, Result, StreamHandle};
use super::event::order;
use super::release::AfterStream;
use super::staging::Transfer;
use super::stream::Stream;

/// Memory of a device. If the driver has pools, the memory is freed on the legacy stream, without a wait; otherwise the
/// driver waits for the device.
struct DeviceMemory {
    driver: &'static Driver,
    functions: MemoryFunctions,
    device: i32,
    in_order: bool,
    address: u64,
}

impl DeviceMemory {
    /// Allocates memory for work on the stream of a transfer.
    fn new(transfer: &Transfer, size: usize) -> Result<Self> {
        let &Transfer { functions, stream } = transfer;
        let (driver, device) = (stream.driver(), stream.device());
        let in_order = driver.has_pools(device);
        let _entered = driver.enter(device)?;
        let mut address = 0;
        // SAFETY: the stream is live (Live), and `address` is writable.
        let status = unsafe {
            match in_order {
                true => (functions.alloc_async)(&mut address, size, stream.handle()),
                false => (functions.alloc)(&mut address, size),
            }
        };
        driver.check(&format!("give {size} bytes on cuda:{device}"), status)?;
        Ok(Self { driver, functions, device, in_order, address })
    }

    /// Allocates memory, and returns it with its address. Dropping it frees the memory when the stream's pending work
    /// is done. Call this before the first copy to the memory: a copy that failed may still be running.
    fn after_stream(transfer: &Transfer, size: usize) -> Result<(AfterStream, u64)> {
        let memory = Self::new(transfer, size)?;
        let address = memory.address;
        Ok((AfterStream::new(Box::new(memory), transfer.stream), address))
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        const LEGACY: StreamHandle = 0;
        // The memory cannot be freed without its device, so try to enter the device twice.
        let enter = || self.driver.enter(self.device);
        let Ok(_entered) = enter().or_else(|_| enter()) else { return };
        // SAFETY: the driver allocated the memory, and nothing uses it any more: the work of the copy's stream is done.
        // A failure, for example while a graph is captured, cannot be reported, and leaks the memory: the driver does
        // not report if the memory is freed, and its address may already be that of other memory.
        unsafe {
            match self.in_order {
                true => (self.functions.free_async)(self.address, LEGACY),
                false => (self.functions.free)(self.address),
            };
        }
    }
}

/// The target of a copy, and the stream of the source or target device that runs it.
///
/// ```
/// use dlbridge::Device;
/// use dlbridge_gpu::Place;
///
/// let to_the_cpu = Place { device: Device::CPU, stream: 0 };
/// assert_eq!(to_the_cpu.stream, 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The device that holds the copy.
    pub device: Device,
    /// The stream that runs the copy.
    pub stream: StreamHandle,
}

/// Copies a tensor between the CPU and a CUDA device, or between two CUDA devices.
///
/// `passed` is the stream of the tensor's device with the pending writes to the tensor, if the caller knows it.
///
/// A copy on the CPU is complete, in C order, when this returns. A copy on a device is ready for work on the stream; it
/// is in C order if the source is on the CPU, and otherwise has the strides of its source. Dropping a copy on a device
/// releases its memory when the stream's pending work is done.
///
/// # Errors
/// Returns an error if the driver is missing or refuses, if memory runs out, and while a graph is captured on the
/// stream.
///
/// # Safety
/// Both handles are those of live streams of their devices, or of default streams. The stream of a copy on a device
/// lives as long as the copy.
///
/// ```
/// use dlbridge::{Device, DeviceType, Tensor};
/// use dlbridge_gpu::{Place, copied};
///
/// let tensor = Tensor::from(vec![1.0_f32, 2.0]).into_shared();
/// let to = Place { device: Device::new(DeviceType::CUDA, 0), stream: 0 };
/// // SAFETY: the handle of the default stream.
/// match unsafe { copied(&tensor, None, to) } {
///     Ok(copy) => assert_eq!(copy.shape(), [2]),
///     Err(failure) => println!("{failure}"),
/// }
/// ```
pub unsafe fn copied(
    tensor: &ArcTensor,
    passed: Option<StreamHandle>,
    to: Place,
) -> Result<Tensor> {
    let from = tensor.device();
    let to_host = to.device == Device::CPU;
    // The stream's device.
    let device = if to_host { from } else { to.device };
    let driver = Driver::of(device.device_type())?;
    driver.memory()?;
    if tensor.is_empty() {
        return nothing(tensor, to.device);
    }
    // SAFETY: the caller guarantees that the stream lives during this call, and as long as a copy on a device; the
    // value is not used longer.
    let stream = unsafe { Stream::of(driver, device.id(), to.stream) }?;
    if stream.device() != device.id() {
        return Err(Failure::new(format!(
            "the stream {:#x} is of cuda:{}, and the copy is made on {device}",
            to.stream,
            stream.device()
        )));
    }
    let transfer = Transfer::on(stream)?;
    match passed {
        Some(passed) if from != device || passed != to.stream => {
            // SAFETY: the caller guarantees that both streams live.
            unsafe { order((from, passed), (device, to.stream)) }?;
        }
        _ => {}
    }
    // SAFETY: the match calls the function for the tensor's device, and the stream runs after the pending writes that
    // the caller named (`order`).
    unsafe {
        match to_host {
            true => fetched(tensor, &transfer),
            false if from.device_type().is_host_accessible() => sent(tensor, to.device, &transfer),
            false => moved(tensor, to.device, &transfer),
        }
    }
}

fn shape_of(tensor: &TensorRef<'_>) -> Vec<usize> {
    tensor.shape().iter().map(|&extent| extent as usize).collect()
}

fn nothing(tensor: &Tensor, device: Device) -> Result<Tensor> {
    let parts = RawParts {
        device,
        access: Access::Exclusive,
        subbyte_padded: tensor.is_subbyte_padded(),
        ..RawParts::new(ptr::null_mut(), tensor.dtype())
    };
    // SAFETY: the tensor is empty, so nothing reads the NULL pointer.
    unsafe { Tensor::from_raw_parts((), parts, tensor.shape(), None::<&[i64]>) }
        .map_err(Failure::core)
}

/// Returns the address of the lowest byte of a tensor's elements, and the number of bytes up to the highest.
fn span(tensor: &Tensor) -> (u64, usize) {
    let bounds = TensorRef::from(tensor).byte_bounds();
    let first = (tensor.data().addr() as u64)
        .wrapping_add(tensor.byte_offset())
        .wrapping_add_signed(bounds.start as i64);
    (first, bounds.len())
}

/// Copies from a device to the CPU.
///
/// # Safety
/// The tensor's device is that of the transfer, and the transfer's stream runs after the pending writes to the tensor.
unsafe fn fetched(tensor: &ArcTensor, transfer: &Transfer) -> Result<Tensor> {
    let (first, count) = span(tensor);
    let mut bytes = Tensor::zeros::<u8>([count]).map_err(Failure::core)?;
    let mut view = bytes.view_mut::<u8>().map_err(Failure::core)?;
    let target = view.as_mut_slice().expect("new memory is contiguous");
    // SAFETY: `span` returned the bytes of the tensor's elements. The tensor is alive until the copy is complete, or
    // after an error until the stream's pending work is done.
    if let Err(failure) = unsafe { transfer.fetch(first, target) } {
        // Work queued on the stream before still reads the tensor.
        transfer.after_stream(Box::new(tensor.clone()));
        return Err(failure);
    }
    let start = TensorRef::from(&**tensor).byte_bounds().start;
    let parts = RawParts {
        access: Access::Exclusive,
        subbyte_padded: tensor.is_subbyte_padded(),
        ..RawParts::new(bytes.data().wrapping_byte_offset(-start), tensor.dtype())
    };
    // SAFETY: the owner alone has all bytes from the lowest to the highest, and a `u8` tensor is valid with any bytes.
    let host =
        unsafe { Tensor::from_raw_parts(bytes, parts, tensor.shape(), Some(tensor.strides())) }
            .map_err(Failure::core)?;
    match host.is_c_contiguous() {
        true => Ok(host),
        false => host.to_copy().map_err(Failure::core),
    }
}

/// Copies from the CPU to the device of a transfer.
///
/// # Safety
/// `to` is the device of the transfer.
unsafe fn sent(tensor: &Tensor, to: Device, transfer: &Transfer) -> Result<Tensor> {
    let copy;
    let mut source = TensorRef::from(tensor);
    if !source.is_c_contiguous() {
        copy = source.to_copy().map_err(Failure::core)?;
        source = TensorRef::from(&copy);
    }
    let bytes = source.as_bytes().map_err(Failure::core)?;
    let (memory, address) = DeviceMemory::after_stream(transfer, bytes.len())?;
    // SAFETY: the memory has this size, on the device of the transfer, which the caller guarantees to be `to`. It is
    // freed only when the stream's pending work is done.
    unsafe {
        transfer.send(bytes, address)?;
        over(memory, address, 0, &source, None, to)
    }
}

/// Copies from a device to new memory of the same device or another one.
///
/// # Safety
/// The tensor is on a CUDA device, and the transfer's stream runs after the pending writes to the tensor.
unsafe fn moved(tensor: &ArcTensor, to: Device, transfer: &Transfer) -> Result<Tensor> {
    let (first, count) = span(tensor);
    let stream = transfer.stream;
    let source = TensorRef::from(&**tensor);
    let start = source.byte_bounds().start;
    let (memory, address) = DeviceMemory::after_stream(transfer, count)?;
    let from = tensor.device();
    // Held before the copy starts, so that the source is released after it even if a call fails.
    let held = AfterStream::new(Box::new(tensor.clone()), stream);
    // SAFETY: `span` returned the bytes of the tensor's elements, and the memory has this size. Both are released only
    // when the stream's pending work is done.
    unsafe {
        match from.device_type() == DeviceType::CUDA && from.id() != to.id() {
            true => transfer.copy_from_device(address, (from.id(), first), count)?,
            false => transfer.copy(address, first, count)?,
        }
        drop(held);
        over(memory, address, start, &source, Some(source.strides()), to)
    }
}

/// Returns a tensor that owns new memory. The lowest byte of the memory is `start` bytes from the first element.
///
/// # Safety
/// The memory is on `device`, and has at least the bytes that the elements take from `address` on.
unsafe fn over(
    memory: AfterStream,
    address: u64,
    start: isize,
    like: &TensorRef<'_>,
    strides: Option<&[i64]>,
    device: Device,
) -> Result<Tensor> {
    let address = ptr::without_provenance_mut::<u8>(address as usize);
    let parts = RawParts {
        device,
        access: Access::Exclusive,
        subbyte_padded: like.is_subbyte_padded(),
        ..RawParts::new(address.wrapping_byte_offset(-start).cast(), like.dtype())
    };
    // SAFETY: the caller guarantees room for the elements, in memory that the owner alone has and keeps.
    unsafe { Tensor::from_raw_parts(memory, parts, &shape_of(like), strides) }
        .map_err(Failure::core)
}
