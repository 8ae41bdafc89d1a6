//! The memory of outputs and the stream of a call, which each framework provides.

use dlbridge::{DataType, TensorRefMut};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::Memory;
use crate::on_cuda::OnCuda;
use crate::parameter::Parameter;

/// Provides the memory of a call's outputs, and its stream.
#[doc(hidden)]
pub(crate) trait Outputs: Sync {
    /// Returns the memory of an output, with any elements; index 0 is the operator's first output. Each output is
    /// requested at most once.
    fn output(&self, index: usize, dtype: DataType, shape: &[i64]) -> Result<Memory<'_>>;

    /// Returns the device and the stream of a call on tensors of CUDA. The call has found the inputs to be on `device`,
    /// or that it has no tensors among them.
    fn cuda(&self, _device: Option<i32>) -> Result<OnCuda<'_>> {
        Err(Error::of(ErrorKind::Missing, "this framework calls operators only on the CPU"))
    }
}

/// The error of an output that the function did not make.
pub(crate) fn not_allocated(output: &Parameter) -> Error {
    let message =
        format!("the function did not allocate {}; call its method `allocate`", output.name);
    Error::of(ErrorKind::Failed, message)
}

/// The error of an output whose memory was provided before.
pub(crate) fn requested_again(output: &Parameter) -> Error {
    Error::of(ErrorKind::Failed, format_args!("{} was requested twice", output.name))
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
        self.outputs.output(self.index, dtype, shape)?.into_tensor(dtype, shape)
    }
}
