//! The memory of outputs: new tensors of PyTorch, or tensors of the caller.

use std::ptr;
use std::sync::{Mutex, PoisonError};

use dlbridge::{DataType, Device};
use smallvec::SmallVec;

use super::shim::Shim;
use super::stack::{Description, Owned, Tensor};
use super::values::{Located, Unshared};
use crate::contiguous::is_c_order;
use crate::device::is_cuda;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Memory, size};
use crate::on_cuda::OnCuda;
use crate::operator::Operator;
use crate::outputs::{Outputs, unknown_device};

/// Makes a tensor without gaps, with arbitrary elements.
pub(super) fn empty(
    shim: &'static Shim,
    dtype: DataType,
    shape: &[i64],
    (device, index): (i32, i32),
) -> Result<Tensor> {
    let code = shim.code(dtype).ok_or_else(|| {
        let message = format!("PyTorch does not have the dtype {dtype} of the output");
        Error::of(ErrorKind::Type, message)
    })?;
    let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(1, shape.len());
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    let mut object = ptr::null_mut();
    // SAFETY: `shape` and `strides` have as many elements as the tensor has dimensions, and the result is valid for
    // writes.
    let result = unsafe {
        (shim.empty_strided)(
            shape.len() as i64,
            shape.as_ptr(),
            strides.as_ptr(),
            code,
            device,
            index,
            &mut object,
        )
    };
    shim.succeeded(result, "make an output")?;
    // SAFETY: the function succeeded, so that it returned a new reference.
    Ok(unsafe { Tensor::new(shim, object) })
}

/// New tensors.
pub(super) struct Fresh {
    shim: &'static Shim,
    /// Where they are: on the device of the first argument that is a tensor.
    device: Device,
    tensors: Mutex<SmallVec<[Option<Tensor>; 2]>>,
}

impl Fresh {
    pub(super) fn new(
        shim: &'static Shim,
        operator: &'static Operator,
        arguments: &[Owned],
    ) -> Result<Self> {
        let tensors = operator.outputs().map(|_| None).collect();
        let device = match operator.on_cuda {
            true => {
                arguments.iter().find_map(Owned::tensor).map(|tensor| tensor.strided_on("a tensor"))
            }
            false => None,
        };
        let device = device.transpose()?.unwrap_or(Device::CPU);
        Ok(Self { shim, device, tensors: Mutex::new(tensors) })
    }

    /// The outputs, in order.
    pub(super) fn finish(self, operator: &'static Operator) -> Result<SmallVec<[Tensor; 2]>> {
        let tensors = self.tensors.into_inner().unwrap_or_else(PoisonError::into_inner);
        let made = operator.outputs().zip(tensors).map(|(output, tensor)| {
            tensor.ok_or_else(|| {
                let message = format!("the operator did not make the output {}", output.name);
                Error::new(message).in_operator(operator.name())
            })
        });
        made.collect()
    }
}

impl Outputs for Fresh {
    fn output(&self, index: usize, dtype: DataType, shape: &[i64]) -> Result<Memory<'_>> {
        let mut tensors = self.tensors.lock().unwrap_or_else(PoisonError::into_inner);
        let place = tensors.get_mut(index).filter(|place| place.is_none());
        let place = place.ok_or_else(|| Error::new("an output is requested twice"))?;
        let device = match is_cuda(self.device) {
            true => (self.shim.cuda, self.device.id()),
            false => (self.shim.cpu, 0),
        };
        let mut tensor = empty(self.shim, dtype, shape, device)?;
        let data = tensor.mutable_data()?;
        *place = Some(tensor);
        // SAFETY: the new tensor has memory for these elements in C order. It lives as long as `self`, because a place is
        // filled only once, and no other code has the tensor or its address. PyTorch's allocator is foreign code, which
        // may have written the bytes: they have some value, as the memory of every foreign tensor.
        Ok(unsafe { Memory::new(data, size(dtype, shape)?, self.device) })
    }

    fn cuda(&self, device: Option<i32>) -> Result<OnCuda<'_>> {
        let device = device.ok_or_else(unknown_device)?;
        Ok(OnCuda::new(device, self.shim.cuda_stream(device)?))
    }
}

/// Tensors of the caller.
pub(super) struct Given<'t> {
    shim: &'static Shim,
    operator: &'static Operator,
    /// With a mark for those that are in use.
    tensors: Mutex<SmallVec<[(&'t Tensor, bool); 2]>>,
}

impl<'t> Given<'t> {
    /// The tensors after those of the operator's inputs.
    ///
    /// # Safety
    /// The memory of these tensors overlaps no other argument's.
    pub(super) unsafe fn new(
        shim: &'static Shim,
        operator: &'static Operator,
        arguments: Unshared<'t>,
    ) -> Self {
        let tensors = arguments.get().iter().skip(operator.inputs().count());
        let tensors = tensors.filter_map(Owned::tensor).map(|tensor| (tensor, false));
        Self { shim, operator, tensors: Mutex::new(tensors.collect()) }
    }
}

impl Outputs for Given<'_> {
    fn output(&self, index: usize, dtype: DataType, shape: &[i64]) -> Result<Memory<'_>> {
        let mut tensors = self.tensors.lock().unwrap_or_else(PoisonError::into_inner);
        let place = tensors.get_mut(index).filter(|(_, used)| !used);
        let (tensor, used) = place.ok_or_else(|| Error::new("an output is requested twice"))?;
        let parameter = self.operator.outputs().nth(index);
        let name = parameter.map_or("an output", |parameter| parameter.name);
        let located = Located::new(self.shim, name, tensor, true)?;
        self.operator.check_device(name, located.device)?;
        if located.dtype != dtype {
            let found = located.dtype;
            let message = format!("{name} must be {dtype}, but is {found}; pass another tensor");
            return Err(Error::of(ErrorKind::Type, message));
        }
        if located.description.sizes != shape {
            let found = located.description.sizes;
            let message = format!(
                "{name} must have the shape {shape:?}, but has {found:?}; pass another tensor"
            );
            return Err(Error::of(ErrorKind::Value, message));
        }
        let Description { sizes, strides, .. } = located.description;
        if !is_c_order(sizes, strides) && !sizes.contains(&0) {
            let message =
                format!("{name} must be contiguous; pass a tensor in C order, without gaps");
            return Err(Error::of(ErrorKind::Buffer, message));
        }
        *used = true;
        // SAFETY: the caller of `new` guarantees that no other argument has this memory, and the mark that it is
        // requested once. The tensors outlive `self`, and PyTorch's memory is valid for writes.
        Ok(unsafe { Memory::new(located.data, size(dtype, shape)?, located.device) })
    }

    fn cuda(&self, device: Option<i32>) -> Result<OnCuda<'_>> {
        let tensors = self.tensors.lock().unwrap_or_else(PoisonError::into_inner);
        let devices = tensors.iter().map(|(tensor, _)| tensor.strided_on("an output"));
        let devices = devices.collect::<Result<SmallVec<[Device; 2]>>>()?;
        let device = self.operator.device_of_outputs(device, &devices)?;
        Ok(OnCuda::new(device, self.shim.cuda_stream(device)?))
    }
}
