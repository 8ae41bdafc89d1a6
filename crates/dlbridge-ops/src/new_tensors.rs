//! The memory of a call's outputs if the caller passes no tensors to fill: new tensors.

use std::sync::{Mutex, PoisonError};

use dlbridge::{DataType, Device, Tensor};
use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Memory, size};
use crate::on_cuda::{OnCuda, StreamOf};
use crate::operator::Operator;
use crate::outputs::{Outputs, not_allocated, requested_again, unknown_device};
use crate::parameter::Parameter;
use crate::value::Value;

/// The tensors that a call makes.
pub(crate) type Made = SmallVec<[Tensor; 2]>;

/// New tensors for the outputs of an operator, which `make` makes when the call asks for their memory.
pub(crate) struct NewTensors<'s, T, M> {
    operator: &'static Operator,
    tensors: Mutex<SmallVec<[Option<T>; 2]>>,
    make: M,
    stream: StreamOf<'s>,
}

impl<'s, T, M: Fn(&Parameter, DataType, &[i64]) -> Result<(T, Memory<'s>)>> NewTensors<'s, T, M> {
    /// `stream` returns the stream that the program has chosen for a CUDA device.
    ///
    /// # Safety
    /// The memory that `make` returns is that of the tensor, and valid as long as the tensor lives.
    pub(crate) unsafe fn new(operator: &'static Operator, make: M, stream: StreamOf<'s>) -> Self {
        let tensors = operator.outputs().map(|_| None).collect();
        Self { operator, tensors: Mutex::new(tensors), make, stream }
    }

    /// The tensors, after the function has succeeded.
    pub(crate) fn finish(self) -> Result<SmallVec<[T; 2]>> {
        let tensors = self.tensors.into_inner().unwrap_or_else(PoisonError::into_inner);
        let made = self.operator.outputs().zip(tensors);
        made.map(|(output, tensor)| tensor.ok_or_else(|| not_allocated(output))).collect()
    }
}

impl<'s, T: Send, M> Outputs for NewTensors<'s, T, M>
where
    M: Fn(&Parameter, DataType, &[i64]) -> Result<(T, Memory<'s>)> + Sync,
{
    fn output(&self, index: usize, dtype: DataType, shape: &[i64]) -> Result<Memory<'_>> {
        let parameter = self.operator.output(index)?;
        let mut tensors = self.tensors.lock().unwrap_or_else(PoisonError::into_inner);
        let place = tensors.get_mut(index).filter(|place| place.is_none());
        let place = place.ok_or_else(|| requested_again(parameter))?;
        // The tensor stays in its place, unused, until `finish` takes `self`; a place is filled once.
        let (tensor, memory) = (self.make)(parameter, dtype, shape)?;
        *place = Some(tensor);
        Ok(memory)
    }

    fn cuda(&self, device: Option<i32>) -> Result<OnCuda<'_>> {
        let device = device.ok_or_else(unknown_device)?;
        Ok(OnCuda::new(device, (self.stream)(device)?))
    }
}

/// Calls an operator, and returns new tensors of zeros that it changed. `inputs` and `stream` as for
/// [`call`](Operator::call) and [`NewTensors::new`].
pub(crate) fn call(
    operator: &'static Operator,
    inputs: &mut [Value<'_>],
    stream: StreamOf<'_>,
) -> Result<Made> {
    let make = |parameter: &Parameter, dtype, shape: &[i64]| {
        if operator.on_cuda {
            let message = format!(
                "{} has no memory, because dlbridge-ops does not allocate on CUDA; pass the tensor to fill: `out=` in \
                 Python, an argument after the inputs with tvm-ffi",
                parameter.name
            );
            return Err(Error::of(ErrorKind::Buffer, message));
        }
        // SAFETY: `NewTensors` keeps the tensor alive and unused while the call has the memory.
        unsafe { made(dtype, shape) }
    };
    // SAFETY: `made` returns a tensor with its memory.
    let tensors = unsafe { NewTensors::new(operator, make, stream) };
    operator.call(inputs, &tensors)?;
    tensors.finish().map_err(|error| error.in_operator(operator.name))
}

/// A new tensor of zeros and its memory.
///
/// # Safety
/// For `'m` the tensor is alive, and no code uses its elements except through the memory.
pub(crate) unsafe fn made<'m>(dtype: DataType, shape: &[i64]) -> Result<(Tensor, Memory<'m>)> {
    let bytes = size(dtype, shape)?;
    let extents: SmallVec<[usize; 6]> =
        shape.iter().map(|extent| usize::try_from(*extent).unwrap_or(usize::MAX)).collect();
    let tensor = Tensor::zeroed_aligned(dtype, &extents, 64)?;
    let data = tensor.data().wrapping_byte_add(tensor.byte_offset() as usize);
    // SAFETY: the tensor has this shape in C order, and its memory is zeros and writable. The caller guarantees that it is
    // alive and not used otherwise for `'m`.
    let memory = unsafe { Memory::new(data, bytes, Device::CPU, false) };
    Ok((tensor, memory))
}
