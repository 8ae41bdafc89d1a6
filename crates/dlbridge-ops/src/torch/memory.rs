//! The memory of outputs: new tensors of PyTorch.

use std::ptr;
use std::sync::{Mutex, PoisonError};

use dlbridge::{DataType, Device};
use smallvec::SmallVec;

use super::shim::Shim;
use super::stack::{Owned, Tensor};
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
        Ok(unsafe { Memory::new(data, size(dtype, shape)?, self.device, true) })
    }

    fn cuda(&self, device: Option<i32>) -> Result<OnCuda<'_>> {
        let device = device.ok_or_else(unknown_device)?;
        Ok(OnCuda::new(device, self.shim.cuda_stream(device)?))
    }
}
