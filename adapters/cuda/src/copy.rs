//! Copies between the host and devices, and between devices.

use std::mem;
use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaSlice, CudaStream, DevicePtrMut, PinnedHostSlice, result};
use dlbridge::{Access, DataType, Device, DeviceType, RawParts, Tensor, TensorRef, device_copy};

use crate::order::Order;
use crate::owner::Exported;
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

/// The number of bytes of a buffer.
const PIECE: usize = 4 << 20;

/// Pinned memory for copies between the host and a device: two buffers in turn, so that the CPU fills or empties one
/// while the device copies the other.
struct Staging<'a> {
    stream: &'a Arc<CudaStream>,
    /// The buffers, each with the event of its last copy.
    pieces: Vec<(PinnedHostSlice<u8>, CudaEvent)>,
}

impl<'a> Staging<'a> {
    /// Allocates buffers for copies of `len` bytes; `len` must not be zero.
    pub(crate) fn new(stream: &'a Arc<CudaStream>, len: usize) -> Result<Self> {
        let mut staging = Self { stream, pieces: Vec::new() };
        for _ in 0..len.div_ceil(PIECE).min(2) {
            // No flag: write-combined memory is slow to read.
            // SAFETY: `upload` and `download` write the bytes before they read them.
            let piece = unsafe { stream.context().alloc_pinned_with_flags(len.min(PIECE), 0) }?;
            staging.pieces.push((piece, stream.context().new_event(None)?));
        }
        Ok(staging)
    }

    /// Copies bytes to an address of the stream's device. Returns after the copy.
    ///
    /// # Safety
    /// The caller may write `bytes.len()` bytes at the address.
    pub(crate) unsafe fn upload(mut self, bytes: &[u8], mut address: u64) -> Result<()> {
        for (number, chunk) in bytes.chunks(PIECE).enumerate() {
            let (piece, copied) = &mut self.pieces[number % 2];
            // Waits for the last copy from this buffer.
            copied.synchronize()?;
            let filled = &mut piece.as_mut_slice()?[..chunk.len()];
            filled.copy_from_slice(chunk);
            // SAFETY: the chunks together have as many bytes as the caller guarantees at the first address. The buffer
            // is neither written nor freed until the copy is made: the loop waits for `copied` before it writes, and
            // `drop` waits for the stream.
            unsafe { result::memcpy_htod_async(address, filled, self.stream.cu_stream()) }?;
            copied.record(self.stream)?;
            address += chunk.len() as u64;
        }
        Ok(())
    }

    /// Copies bytes from an address of the stream's device.
    ///
    /// # Safety
    /// The caller may read `target.len()` bytes at the address.
    pub(crate) unsafe fn download(mut self, mut address: u64, target: &mut [u8]) -> Result<()> {
        let mut fetched: Option<(usize, &mut [u8])> = None;
        for (number, chunk) in target.chunks_mut(PIECE).enumerate() {
            let (turn, len) = (number % 2, chunk.len());
            let (piece, copied) = &mut self.pieces[turn];
            let piece = &mut piece.as_mut_slice()?[..len];
            // SAFETY: the chunks together have as many bytes as the caller guarantees at the first address. The buffer
            // is neither read nor freed until the copy is made: `empty` waits for `copied`, and `drop` for the stream.
            unsafe { result::memcpy_dtoh_async(piece, address, self.stream.cu_stream()) }?;
            copied.record(self.stream)?;
            address += len as u64;
            self.empty(fetched.replace((turn, chunk)))?;
        }
        self.empty(fetched)
    }

    /// Waits for the copy into a buffer, and copies the buffer to the target.
    fn empty(&self, fetched: Option<(usize, &mut [u8])>) -> Result<()> {
        if let Some((turn, chunk)) = fetched {
            let (piece, copied) = &self.pieces[turn];
            copied.synchronize()?;
            chunk.copy_from_slice(&piece.as_slice()?[..chunk.len()]);
        }
        Ok(())
    }
}

impl Drop for Staging<'_> {
    /// Waits even after a copy has failed, because another may be pending.
    fn drop(&mut self) {
        // The context stores an error for the next call.
        let _told = order::in_drop(Arc::clone(self.stream.context()), |context| {
            let done = self.stream.synchronize().or_else(|_| order::wait(context));
            if done.is_err() {
                mem::forget(mem::take(&mut self.pieces));
            }
            done
        });
    }
}
