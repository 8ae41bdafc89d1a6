//! The memory of outputs and the stream of a call, which each framework provides.

use dlbridge::{DataType, DataTypeCode, TensorRef, TensorRefMut};
use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result};
use crate::on_cuda::OnCuda;

/// Provides the memory of a call's outputs, and its stream.
#[doc(hidden)]
pub(crate) trait Outputs: Sync {
    /// Returns the memory of an output, with arbitrary elements; index 0 is the operator's first output. Each output is
    /// requested at most once.
    fn output(&self, index: usize, dtype: DataType, shape: &[i64]) -> Result<TensorRefMut<'_>>;

    /// Returns the device and the stream of a call on tensors of CUDA. The call has found the inputs to be on `device`,
    /// or that it has no tensors among them.
    fn cuda(&self, _device: Option<i32>) -> Result<OnCuda<'_>> {
        Err(Error::of(ErrorKind::Missing, "this framework calls operators only on the CPU"))
    }
}

/// The error of a call on CUDA whose device no argument decides.
pub(crate) fn unknown_device() -> Error {
    Error::of(
        ErrorKind::Value,
        "no argument decides the CUDA device; pass a tensor, or the outputs",
    )
}

/// The place of an output that is not allocated yet.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    outputs: &'a dyn Outputs,
    index: usize,
}

impl<'a> Slot<'a> {
    pub(crate) fn new(outputs: &'a dyn Outputs, index: usize) -> Self {
        Self { outputs, index }
    }

    pub(crate) fn allocate(self, dtype: DataType, shape: &[i64]) -> Result<TensorRefMut<'a>> {
        valid(self.outputs.output(self.index, dtype, shape)?)
    }
}

/// Returns true if the elements are aligned for their type; PyTorch makes views that are not.
pub(crate) fn is_aligned(tensor: &TensorRef<'_>, align: usize) -> bool {
    let address = tensor.data().addr().wrapping_add(tensor.byte_offset() as usize);
    address.is_multiple_of(align) || tensor.is_empty()
}

/// Makes new memory valid for its dtype: arbitrary bytes are valid elements of all dtypes except booleans.
pub(crate) fn valid(mut memory: TensorRefMut<'_>) -> Result<TensorRefMut<'_>> {
    let is_on_host = memory.as_tensor_ref().device().device_type().is_host_accessible();
    if memory.dtype().code() == DataTypeCode::BOOL && !memory.is_empty() && is_on_host {
        let shape: SmallVec<[usize; 6]> =
            memory.shape().iter().map(|extent| *extent as usize).collect();
        let no = [false];
        let no = TensorRef::from(&no).reshape([])?.broadcast_to(&shape)?;
        memory.as_tensor_ref_mut().copy_from(&no)?;
    }
    Ok(memory)
}
