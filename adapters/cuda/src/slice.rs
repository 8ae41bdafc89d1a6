//! Memory of cudarc as tensors.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, PinnedHostSlice, UnifiedSlice, ValidAsZeroBits};
use dlbridge::{Access, Device, DeviceType, Element, RawParts, Tensor};

use crate::order::Order;
use crate::owner::{Exported, Memory};
use crate::{Result, driver};

/// Memory that cudarc allocated as tensors: [`CudaSlice`] on the device, [`UnifiedSlice`], which CUDA moves between
/// device and host, and [`PinnedHostSlice`] on the host.
///
/// The tensor is [exclusive](dlbridge::Access::Exclusive). Its device is the one that the driver reports for the
/// address.
pub trait SliceExt: Memory + Sized {
    /// Returns all elements as a tensor in C order, without a copy. The device's legacy default stream waits for
    /// pending work on the memory, and the host does not; for pinned memory the host waits instead. Dropping the tensor
    /// frees device memory on its own stream, after the work that is then on the default stream. Before managed memory
    /// is freed, the host waits for the default stream; before pinned memory is freed, it waits for all pending work of
    /// the context.
    ///
    /// # Errors
    /// An error unless the shape has as many elements as the memory; [`Error::NotPrimary`](crate::Error::NotPrimary);
    /// errors of the driver. The memory is freed.
    ///
    /// ```no_run
    /// use cudarc::driver::CudaSlice;
    /// use dlbridge_cuda::{Result, SliceExt};
    ///
    /// fn matrix(slice: CudaSlice<f32>) -> Result<dlbridge::Tensor> {
    ///     slice.into_tensor([2, 3])
    /// }
    /// ```
    fn into_tensor(self, shape: impl AsRef<[usize]>) -> Result<Tensor> {
        let order = self.context().default_stream();
        export(self, shape.as_ref(), &order)
    }

    /// Like [`into_tensor`](Self::into_tensor), with another stream than the default one, on which producer and
    /// consumer have agreed.
    ///
    /// # Errors
    /// The errors of [`into_tensor`](Self::into_tensor), [`Error::OtherContext`](crate::Error::OtherContext), and
    /// [`Error::PerThread`](crate::Error::PerThread).
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use cudarc::driver::{CudaSlice, CudaStream};
    /// use dlbridge_cuda::{Result, SliceExt};
    ///
    /// fn row(slice: CudaSlice<f32>, agreed: &Arc<CudaStream>) -> Result<dlbridge::Tensor> {
    ///     slice.into_tensor_on([6], agreed)
    /// }
    /// ```
    fn into_tensor_on(self, shape: impl AsRef<[usize]>, order: &Arc<CudaStream>) -> Result<Tensor> {
        export(self, shape.as_ref(), order)
    }
}

impl<T: Element> SliceExt for CudaSlice<T> {}
impl<T: Element> SliceExt for UnifiedSlice<T> {}
impl<T: Element + ValidAsZeroBits> SliceExt for PinnedHostSlice<T> {}

fn export<M: Memory>(memory: M, shape: &[usize], order: &Arc<CudaStream>) -> Result<Tensor> {
    let context = Arc::clone(memory.context());
    let (order, refusal) = match Order::new(&context, order) {
        Ok(order) => (order, Ok(())),
        Err(refusal) => (Order::legacy(&context), Err(refusal)),
    };
    // Refused memory also waits for pending work before it is freed.
    let mut owner = Exported::new(memory, order);
    refusal?;
    let len = check_len(shape, owner.memory().elements())?;
    context.bind_to_thread()?;
    let first = owner.hand_over()?;
    let device = locate(first.addr() as u64, len, context.ordinal())?;
    let parts = RawParts { device, ..RawParts::of_elements(first, Access::Exclusive) };
    // SAFETY: `Memory` is `len` elements that only the owner refers to and that stay in place until it is
    // dropped. `try_into_slice` never returns them as a type with invalid byte values.
    Ok(unsafe { Tensor::from_raw_parts(owner, parts, shape, None::<&[i64]>) }?)
}

/// Returns the number of elements of a shape, if it equals that of the memory.
pub(crate) fn check_len(shape: &[usize], owner: usize) -> Result<usize> {
    let len = match shape.contains(&0) {
        true => Some(0),
        false => shape.iter().try_fold(1_usize, |len, &extent| len.checked_mul(extent)),
    };
    let shape = len.ok_or(dlbridge::Error::TooLarge)?;
    match shape == owner {
        true => Ok(shape),
        false => Err(dlbridge::Error::ElementCount { shape, owner }.into()),
    }
}

/// Returns the device of the elements. The driver does not know the address of an empty slice.
pub(crate) fn locate(address: u64, len: usize, ordinal: usize) -> Result<Device> {
    match len {
        0 => Ok(Device::new(DeviceType::CUDA, ordinal as i32)),
        _ => driver::device_of(address),
    }
}
