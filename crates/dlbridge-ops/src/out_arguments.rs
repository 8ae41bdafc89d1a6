//! The memory of a call's outputs if the caller passes the tensors to fill.

use std::sync::{Mutex, MutexGuard, PoisonError};

use dlbridge::{DataType, Device, Tensor, TensorRef};
use smallvec::SmallVec;

use crate::arguments::refused;
use crate::contiguous::Contiguous;
use crate::error::{Error, ErrorKind, Result, guarded};
use crate::exclusive::Targets;
use crate::memory::Memory;
use crate::new_tensors::made;
use crate::on_cuda::{OnCuda, StreamOf};
use crate::operator::{Kernel, Operator};
use crate::outputs::{Outputs, not_allocated, requested_again};
use crate::parameter::{Form, Kind, Parameter};
use crate::shape::Shape;
use crate::value::Value;

/// The caller's tensors for writing, one for each output.
struct Given<'a, 's> {
    operator: &'static Operator,
    /// Without those that the function fills.
    targets: Mutex<Targets<'a>>,
    /// Those of the tensors, if the operator runs on CUDA.
    devices: SmallVec<[Device; 2]>,
    /// The function fills a new tensor, whose elements the call copies to the caller's.
    copies: Mutex<SmallVec<[Copied<'a>; 1]>>,
    stream: StreamOf<'s>,
}

struct Copied<'a> {
    from: Tensor,
    to: Value<'a>,
    parameter: &'static Parameter,
}

impl<'a, 's> Given<'a, 's> {
    /// `stream` returns the stream that the program has chosen for a CUDA device.
    pub(crate) fn new(
        operator: &'static Operator,
        targets: Targets<'a>,
        stream: StreamOf<'s>,
    ) -> Self {
        let mut devices = SmallVec::new();
        if operator.on_cuda {
            devices.extend(targets.iter().map(Value::device));
        }
        let copies = Mutex::new(SmallVec::new());
        Self { operator, targets: Mutex::new(targets), devices, copies, stream }
    }

    fn targets(&self) -> MutexGuard<'_, Targets<'a>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the elements for tensors that the function could not fill itself.
    fn finish(self) -> Result<()> {
        let targets = self.targets.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (output, target) in self.operator.outputs().zip(&targets) {
            if !matches!(target, Value::None) {
                return Err(not_allocated(output));
            }
        }
        let copies = self.copies.into_inner().unwrap_or_else(PoisonError::into_inner);
        for Copied { from, to, parameter } in copies {
            if let Some(target) = to.into_tensor_ref_mut()? {
                let copied = target.copy_from(&TensorRef::from(&from));
                copied.map_err(|error| refused(error).in_operator(parameter.name))?;
            }
        }
        Ok(())
    }
}

impl Outputs for Given<'_, '_> {
    fn output(&self, index: usize, dtype: DataType, shape: &[i64]) -> Result<Memory<'_>> {
        let parameter = self.operator.output(index)?;
        let mut targets = self.targets();
        let target = targets.get_mut(index).filter(|target| !matches!(target, Value::None));
        let target = target.ok_or_else(|| requested_again(parameter))?;
        self.operator.check_device(parameter.name, target.device())?;
        check(parameter, target, dtype, shape)?;
        let target = std::mem::take(target);
        let align = parameter.kind.form().map_or(1, |form| form.align);
        let contiguous = match target {
            Value::ContiguousMut(tensor) if tensor.tensor().is_aligned(align) => {
                return Ok(tensor.into());
            }
            Value::TensorMut(tensor) => Memory::of(*tensor, align).map_err(Value::of_mut),
            other => Err(other),
        };
        match contiguous {
            Ok(memory) => Ok(memory),
            Err(_) if self.operator.on_cuda => {
                let message = format!(
                    "{} must be aligned and in C order without gaps; pass another tensor",
                    parameter.name
                );
                Err(Error::of(ErrorKind::Buffer, message))
            }
            Err(to) => {
                // SAFETY: the tensor stays among the copies, unused, until `finish` takes `self`.
                let (from, memory) = unsafe { made(dtype, shape) }?;
                let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
                copies.push(Copied { from, to, parameter });
                Ok(memory)
            }
        }
    }

    fn cuda(&self, device: Option<i32>) -> Result<OnCuda<'_>> {
        let device = self.operator.device_of_outputs(device, &self.devices)?;
        Ok(OnCuda::new(device, (self.stream)(device)?))
    }
}

impl Operator {
    /// Calls the function, which fills tensors of the caller: one for each output. `inputs` and `stream` as for
    /// [`call`](Self::call) and [`Given::new`].
    #[inline]
    pub(crate) fn fill(
        &'static self,
        inputs: &mut [Value<'_>],
        mut targets: Targets<'_>,
        stream: StreamOf<'_>,
    ) -> Result<()> {
        let named = |error: Error| error.in_operator(self.name);
        if let Some(kernel) = self.direct(inputs, &targets) {
            return guarded(|| (kernel.run)(inputs, &mut targets)).map_err(named);
        }
        let given = Given::new(self, targets, stream);
        self.call(inputs, &given)?;
        given.finish().map_err(named)
    }

    /// The kernel for contiguous tensors on the CPU whose outputs have the shape of an input: it takes all of them as they
    /// are. `None` for all other calls, also for wrong ones.
    fn direct(&self, inputs: &[Value<'_>], targets: &[Value<'_>]) -> Option<&'static Kernel> {
        if self.on_cuda || !self.requires.is_empty() || targets.len() != self.outputs.len() {
            return None;
        }
        let kernel = self.kernels.iter().find(|kernel| kernel.takes_directly(inputs))?;
        let mut shapes = inputs.iter().filter_map(Value::shape);
        let first = shapes.next();
        if self.elementwise && shapes.any(|shape| Some(shape) != first) {
            return None;
        }
        for (index, target) in targets.iter().enumerate() {
            let (Kind::Output(form), Shape::Like(input), Value::ContiguousMut(target)) =
                (&kernel.outputs[index], &self.shapes[index], target)
            else {
                return None;
            };
            let (Value::Contiguous(like), target) = (&inputs[*input], target.tensor()) else {
                return None;
            };
            if !form.takes(target) || target.shape() != like.shape() {
                return None;
            }
        }
        Some(kernel)
    }
}

impl Kernel {
    /// Returns true if the values are attributes, and contiguous tensors that the function takes as they are.
    #[inline]
    fn takes_directly(&self, inputs: &[Value<'_>]) -> bool {
        inputs.len() == self.inputs.len()
            && self.inputs.iter().zip(inputs).all(|(kind, value)| match (kind, value) {
                (Kind::Input(form) | Kind::Optional(form), Value::Contiguous(tensor)) => {
                    form.takes(tensor)
                }
                (_, Value::Tensor(_) | Value::TensorMut(_) | Value::ContiguousMut(_)) => false,
                _ => value.fits(kind),
            })
    }
}

impl Form {
    /// Returns true if a kernel takes a contiguous tensor.
    #[inline]
    fn takes(&self, tensor: &Contiguous<'_>) -> bool {
        self.dtype == tensor.dtype()
            && self.ndim.is_none_or(|ndim| ndim == tensor.shape().len())
            && tensor.is_aligned(self.align)
    }
}

/// Checks that the caller's tensor has the dtype and the shape of the output.
fn check(parameter: &Parameter, target: &Value<'_>, dtype: DataType, shape: &[i64]) -> Result<()> {
    let name = parameter.name;
    let (found, extents) = (target.dtype(), target.shape().unwrap_or_default());
    if let Some(found) = found.filter(|found| *found != dtype) {
        let message = format!("{name} must be {dtype}, but is {found}; pass a tensor of {dtype}");
        return Err(Error::of(ErrorKind::Type, message));
    }
    if extents != shape {
        let message = format!("{name} must have the shape {shape:?}, but has {extents:?}");
        return Err(Error::of(ErrorKind::Value, message));
    }
    Ok(())
}
