//! Copies from, to and between devices of CUDA.

use std::ptr;
use std::sync::Arc;

use dlbridge::{Access, Device, DeviceType, RawParts, Tensor, TensorRef};

use super::driver::{Driver, Failure, MemoryFunctions, Result, StreamHandle};
use super::event::{Capture, order};
use super::release::AfterStream;
use super::staging::Transfer;

/// Memory of a device. If the driver can, it is freed on the legacy stream, without a wait; otherwise the driver waits for
/// the device.
struct DeviceMemory {
    driver: &'static Driver,
    functions: MemoryFunctions,
    device: i32,
    in_order: bool,
    address: u64,
}

impl DeviceMemory {
    /// Memory for work on a stream of the device, which is not captured.
    ///
    /// # Safety
    /// A live stream.
    unsafe fn new(transfer: &Transfer, size: usize) -> Result<Self> {
        let &Transfer { driver, functions, device, stream } = transfer;
        let in_order = driver.has_pools(device);
        let _entered = driver.enter(device)?;
        let mut address = 0;
        // SAFETY: a place for the address; the stream by contract.
        let status = unsafe {
            match in_order {
                true => (functions.alloc_async)(&mut address, size, stream),
                false => (functions.alloc)(&mut address, size),
            }
        };
        driver.check(&format!("give {size} bytes on cuda:{device}"), status)?;
        Ok(Self { driver, functions, device, in_order, address })
    }

    /// The same, and its address; it is given back when the stream has passed what is on it then. It is held so before
    /// anything is copied to it: a copy that fails half way may still be under way.
    ///
    /// # Safety
    /// A live stream of the device, which lives until the memory is given back.
    unsafe fn after_stream(transfer: &Transfer, size: usize) -> Result<(AfterStream, u64)> {
        let &Transfer { driver, device, stream, .. } = transfer;
        // SAFETY: by contract.
        unsafe {
            let memory = Self::new(transfer, size)?;
            let address = memory.address;
            Ok((AfterStream::new(Box::new(memory), driver, device, stream), address))
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        const LEGACY: StreamHandle = 0;
        // It cannot be freed without its device, which is asked for once more.
        let enter = || self.driver.enter(self.device);
        let Ok(_entered) = enter().or_else(|_| enter()) else { return };
        // SAFETY: memory of the driver's, used no more: the stream of the copy has passed. A failure, as while a graph is
        // captured, cannot be reported, and leaks the memory: the driver does not say whether it is freed, and its
        // address may be that of other memory already.
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
    /// Where the copy is.
    pub device: Device,
    /// The stream that runs the copy.
    pub stream: StreamHandle,
}

/// Copies a tensor, between the CPU and a device of CUDA or between two such devices. `passed` is the stream of its device with the pending writes to it, if one is known.
///
/// A copy on the CPU is complete, in C order, when this returns. A copy on a device is ready for work on the stream; it is
/// in C order if it comes from the CPU, and otherwise has the strides of its source. The memory of a
/// copy on a device is released when the stream has passed.
///
/// # Errors
/// Returns an error without the driver or memory, if the driver refuses, and while a graph is captured on the stream.
///
/// # Safety
/// Live streams of their devices, or the handles of default ones; that of a copy on a device lives as long as it.
///
/// ```
/// use std::sync::Arc;
///
/// use dlbridge::{Device, DeviceType, Tensor};
/// use dlbridge_gpu::{Place, copied};
///
/// let tensor = Arc::new(Tensor::from(vec![1.0_f32, 2.0]));
/// let to = Place { device: Device::new(DeviceType::CUDA, 0), stream: 0 };
/// // SAFETY: the handle of the default stream.
/// match unsafe { copied(&tensor, None, to) } {
///     Ok(copy) => assert_eq!(copy.shape(), [2]),
///     Err(failure) => println!("{failure}"),
/// }
/// ```
pub unsafe fn copied(
    tensor: &Arc<Tensor>,
    passed: Option<StreamHandle>,
    to: Place,
) -> Result<Tensor> {
    let from = tensor.device();
    let to_host = to.device == Device::CPU;
    // The device that the stream is of.
    let device = if to_host { from } else { to.device };
    let driver = Driver::of(device.device_type())?;
    let functions = *driver.memory()?;
    if tensor.is_empty() {
        return nothing(tensor, to.device);
    }
    // SAFETY: by contract.
    unsafe {
        let of_stream = driver.device_of(to.stream, device.id())?;
        if of_stream != device.id() {
            return Err(Failure::new(format!(
                "the stream {:#x} is of cuda:{of_stream}, and the copy is made on {device}",
                to.stream
            )));
        }
        let capture = Capture::of(driver, device.id(), to.stream)?;
        capture.expect_none(to.stream, "which cannot have this copy")?;
        match passed {
            Some(passed) if from != device || passed != to.stream => {
                order((from, passed), (device, to.stream))?;
            }
            _ => {}
        }
    }
    let transfer = Transfer { driver, functions, device: device.id(), stream: to.stream };
    // SAFETY: by contract, and not captured.
    unsafe {
        match to_host {
            true => fetched(tensor, &transfer),
            false if from.device_type().is_host_accessible() => sent(tensor, to, &transfer),
            false => moved(tensor, to, &transfer),
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
    // SAFETY: no elements.
    unsafe { Tensor::from_raw_parts((), parts, tensor.shape(), None::<&[i64]>) }
        .map_err(Failure::core)
}

/// The address of the lowest byte of a tensor's elements, and how many there are up to the highest.
fn span(tensor: &Tensor) -> (u64, usize) {
    let bounds = TensorRef::from(tensor).byte_bounds();
    let first = (tensor.data().addr() as u64)
        .wrapping_add(tensor.byte_offset())
        .wrapping_add_signed(bounds.start as i64);
    (first, bounds.len())
}

/// From a device to the CPU.
///
/// # Safety
/// Elements on the device of the transfer, whose stream is not captured.
unsafe fn fetched(tensor: &Arc<Tensor>, transfer: &Transfer) -> Result<Tensor> {
    let (first, count) = span(tensor);
    let mut bytes = Tensor::zeros::<u8>([count]).map_err(Failure::core)?;
    let mut view = bytes.view_mut::<u8>().map_err(Failure::core)?;
    let target = view.as_mut_slice().expect("new memory is contiguous");
    // SAFETY: by contract; the tensor is alive until all is there, or until the stream has passed.
    unsafe {
        if let Err(failure) = transfer.fetch(first, target) {
            // Work queued on the stream before still reads the tensor.
            transfer.after_stream(Box::new(Arc::clone(tensor)));
            return Err(failure);
        }
    }
    let start = TensorRef::from(&**tensor).byte_bounds().start;
    let parts = RawParts {
        access: Access::Exclusive,
        subbyte_padded: tensor.is_subbyte_padded(),
        ..RawParts::new(bytes.data().wrapping_byte_offset(-start), tensor.dtype())
    };
    // SAFETY: the owner has all bytes from the lowest to the highest, alone, and is sound with any.
    let host =
        unsafe { Tensor::from_raw_parts(bytes, parts, tensor.shape(), Some(tensor.strides())) }
            .map_err(Failure::core)?;
    match host.is_c_contiguous() {
        true => Ok(host),
        false => host.to_copy().map_err(Failure::core),
    }
}

/// From the CPU to a device.
///
/// # Safety
/// The stream of the transfer is not captured.
unsafe fn sent(tensor: &Tensor, to: Place, transfer: &Transfer) -> Result<Tensor> {
    let copy;
    let mut source = TensorRef::from(tensor);
    if !source.is_c_contiguous() {
        copy = source.to_copy().map_err(Failure::core)?;
        source = TensorRef::from(&copy);
    }
    let bytes = source.as_bytes().map_err(Failure::core)?;
    // SAFETY: by contract; memory of that size, given back after the stream.
    unsafe {
        let (memory, address) = DeviceMemory::after_stream(transfer, bytes.len())?;
        transfer.send(bytes, address)?;
        over(memory, address, 0, &source, None, to)
    }
}

/// From a device to new memory of the same or another one.
///
/// # Safety
/// Elements on a device; the stream of the transfer is not captured.
unsafe fn moved(tensor: &Arc<Tensor>, to: Place, transfer: &Transfer) -> Result<Tensor> {
    let (first, count) = span(tensor);
    let driver = transfer.driver;
    let source = TensorRef::from(&**tensor);
    let start = source.byte_bounds().start;
    // SAFETY: by contract; memory of that size, given back after the stream, which is when the source is let go.
    unsafe {
        let (memory, address) = DeviceMemory::after_stream(transfer, count)?;
        let from = tensor.device();
        // Held from before the copy, so that the source is let go after it even if something fails.
        let held =
            AfterStream::new(Box::new(Arc::clone(tensor)), driver, to.device.id(), to.stream);
        match from.device_type() == DeviceType::CUDA && from.id() != to.device.id() {
            true => {
                let (target, source) = ((to.device.id(), address), (from.id(), first));
                driver.copy_between(target, source, count, to.stream)?;
            }
            false => transfer.copy(address, first, count)?,
        }
        drop(held);
        over(memory, address, start, &source, Some(source.strides()), to)
    }
}

/// The tensor over new memory, whose lowest byte is `start` bytes from the first element.
///
/// # Safety
/// As many bytes as the elements take; the stream lives as long as the tensor.
unsafe fn over(
    memory: AfterStream,
    address: u64,
    start: isize,
    like: &TensorRef<'_>,
    strides: Option<&[i64]>,
    to: Place,
) -> Result<Tensor> {
    let address = ptr::without_provenance_mut::<u8>(address as usize);
    let parts = RawParts {
        device: to.device,
        access: Access::Exclusive,
        subbyte_padded: like.is_subbyte_padded(),
        ..RawParts::new(address.wrapping_byte_offset(-start).cast(), like.dtype())
    };
    // SAFETY: memory that the owner has alone.
    unsafe { Tensor::from_raw_parts(memory, parts, &shape_of(like), strides) }
        .map_err(Failure::core)
}
