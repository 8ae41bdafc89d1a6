//! Memory of cudarc as tensors.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, PinnedHostSlice, UnifiedSlice, ValidAsZeroBits};
use dlbridge::{Access, Device, DeviceType, Element, RawParts, Tensor};

use crate::order::Order;
use crate::owner::{Exported, Memory};
use crate::{Result, driver};

/// Memory that cudarc allocated as tensors: [`CudaSlice`], which is on the device, [`UnifiedSlice`], which CUDA moves
/// between it and the host, and [`PinnedHostSlice`], which is the host's.
///
/// The tensor is [exclusive](dlbridge::Access::Exclusive). Its kind and the number of its device are what the driver
/// says of the address.
pub trait SliceExt: Memory + Sized {
    /// All elements as a tensor in C order, without a copy, in the order of the device's legacy default stream: that
    /// waits for what is under way with the memory, and the host does not. Memory of the host is waited for by
    /// the host. It is freed with the tensor, in the order of its own stream, after what is then on the default
    /// stream; for pinned memory the host waits for all that its context has under way.
    ///
    /// # Errors
    /// An error unless the shape has as many elements as the memory; [`Error::NotPrimary`](crate::Error::NotPrimary);
    /// what the driver says. The memory is freed.
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

    /// As [`into_tensor`](Self::into_tensor), in the order of another stream, on which both parties have agreed.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor), [`Error::OtherContext`](crate::Error::OtherContext), and
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
    // Refused memory goes in order, too.
    let mut owner = Exported::new(memory, order);
    refusal?;
    let len = check_len(shape, owner.memory().elements())?;
    context.bind_to_thread()?;
    let first = owner.hand_over()?;
    let device = locate(first.addr() as u64, len, context.ordinal())?;
    let parts = RawParts { device, ..RawParts::of_elements(first, Access::Exclusive) };
    // SAFETY: the memory has so many elements, is there until the owner is dropped, and is the owner's alone. Nobody
    // gets it back as elements of which not every byte is one.
    Ok(unsafe { Tensor::from_raw_parts(owner, parts, shape, None::<&[i64]>) }?)
}

/// The number of elements of a shape, if it is that of some memory.
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

/// Where some elements are; the driver knows nothing of an address without any.
pub(crate) fn locate(address: u64, len: usize, ordinal: usize) -> Result<Device> {
    match len {
        0 => Ok(Device::new(DeviceType::CUDA, ordinal as i32)),
        _ => driver::device_of(address),
    }
}
