//! Copies between the host and devices, and between devices.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut, result};
use dlbridge::{Access, DataType, Device, DeviceType, RawParts, Tensor, TensorRef, device_copy};

use crate::order::Order;
use crate::owner::Exported;
use crate::staging::Staging;
use crate::{Result, cuda_tensor, driver, order};

/// Copies a host tensor in C order into new memory of the stream's device, on the stream, through pinned memory.
/// Returns after the copy.
///
/// # Errors
/// An error for a tensor that the CPU cannot read; [`Error::NotPrimary`](crate::Error::NotPrimary); errors of the
/// driver.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use cudarc::driver::CudaStream;
/// use dlbridge_cuda::{Result, to_device};
///
/// fn ramp(stream: &Arc<CudaStream>) -> Result<dlbridge::Tensor> {
///     to_device(&[0.0_f32, 1.0, 2.0], stream)
/// }
/// ```
pub fn to_device<'a>(source: impl Into<TensorRef<'a>>, stream: &Arc<CudaStream>) -> Result<Tensor> {
    device_copy::in_c_order(source.into(), |source| {
        let bytes = source.as_bytes()?;
        let new = New::of(stream, bytes.len(), |address| {
            // SAFETY: `New::of` passes the address of new memory of `bytes.len()` bytes.
            unsafe { Staging::new(stream, bytes.len())?.upload(bytes, address) }
        })?;
        let parts =
            RawParts { subbyte_padded: source.is_subbyte_padded(), ..new.parts(source.dtype()) };
        new.into_tensor(parts, source.shape(), source.strides())
    })
}

/// Copies a CUDA tensor to the host.
pub(crate) fn to_host(source: &Tensor, stream: &Arc<CudaStream>) -> Result<Tensor> {
    cuda_tensor::check_device(source, stream)?;
    let order = Order::new(stream.context(), &stream.context().default_stream())?;
    let (address, len) = cuda_tensor::bytes(source);
    device_copy::to_host(source, |target| {
        stream.context().bind_to_thread()?;
        order::follow(stream, &order)?;
        // SAFETY: `cuda_tensor::bytes` returned the `len` bytes of the tensor, which lives until they are copied.
        unsafe { Staging::new(stream, len)?.download(address, target) }
    })
}

/// Copies a CUDA tensor to the device of a stream.
pub(crate) fn copy_to(source: &Tensor, stream: &Arc<CudaStream>) -> Result<Tensor> {
    cuda_tensor::check_cuda(source)?;
    let from = driver::context(source.device().id() as usize)?;
    let (order, to) = (from.default_stream(), stream.context());
    let bounds = TensorRef::from(source).byte_bounds();
    let (address, len) = cuda_tensor::bytes(source);
    let new = New::of(stream, len, |target| {
        order::follow(stream, &order)?;
        to.bind_to_thread()?;
        // SAFETY: source and target have `len` bytes, in the contexts given here. Both live until the copy is made: a
        // stream waits for it before either is freed.
        let copied = unsafe {
            match from == *to {
                true => result::memcpy_dtod_async(target, address, len, stream.cu_stream()),
                false => {
                    let (to, from) = (to.cu_ctx(), from.cu_ctx());
                    result::memcpy_peer_async(to, target, from, address, len, stream.cu_stream())
                }
            }
        };
        // The source must not be freed during the copy: the driver may have begun it although it reports an earlier
        // error.
        let ordered = order::follow(&order, stream).or_else(|_| order::wait(to));
        copied?;
        Ok(ordered?)
    })?;
    let parts = new.parts(source.dtype());
    let parts = RawParts {
        data: parts.data.wrapping_byte_offset(-bounds.start),
        subbyte_padded: source.is_subbyte_padded(),
        ..parts
    };
    new.into_tensor(parts, source.shape(), source.strides())
}

/// Device memory with all bytes written; `owner` is `None` and `first` is null for zero bytes.
struct New {
    owner: Option<Exported<CudaSlice<u8>>>,
    first: *mut u8,
    ordinal: usize,
}

impl New {
    /// Allocates memory on the stream, and calls `fill` with its address, which writes the bytes on the stream.
    fn of(
        stream: &Arc<CudaStream>,
        len: usize,
        fill: impl FnOnce(u64) -> Result<()>,
    ) -> Result<Self> {
        let context = stream.context();
        let order = Order::new(context, &context.default_stream())?;
        context.bind_to_thread()?;
        let mut new = Self { owner: None, first: std::ptr::null_mut(), ordinal: context.ordinal() };
        if len != 0 {
            // SAFETY: `fill` writes all bytes before anything reads them.
            let memory = unsafe { stream.alloc::<u8>(len) }?;
            let owner = new.owner.insert(Exported::new(memory, order));
            let (address, note) = owner.memory().device_ptr_mut(stream);
            drop(note);
            fill(address)?;
            new.first = owner.hand_over()?;
        }
        Ok(new)
    }

    fn parts(&self, dtype: DataType) -> RawParts {
        RawParts {
            device: Device::new(DeviceType::CUDA, self.ordinal as i32),
            access: Access::Exclusive,
            ..RawParts::new(self.first.cast(), dtype)
        }
    }

    /// Returns the memory, which has all bytes of the layout, as a tensor.
    fn into_tensor(self, parts: RawParts, shape: &[i64], strides: &[i64]) -> Result<Tensor> {
        // SAFETY: the owner has all bytes from the lowest to the highest, is the only one to refer to them, and keeps
        // them until it is dropped.
        Ok(unsafe { Tensor::from_raw_parts(self.owner, parts, shape, Some(strides)) }?)
    }
}
