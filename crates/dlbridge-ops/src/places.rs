//! The memory of a call's outputs for callers without an allocator of their own: new tensors, or the caller's.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlbridge::{Access, DataType, Device, RawParts, Tensor, TensorRef, TensorRefMut};
use smallvec::SmallVec;

use crate::arguments::refused;
use crate::error::{Error, ErrorKind, Result};
use crate::on_cuda::OnCuda;
use crate::operator::Operator;
use crate::outputs::{Outputs, is_aligned};
use crate::parameter::Parameter;

/// The tensors that a call makes.
pub(crate) type Made = SmallVec<[Tensor; 2]>;

/// The memory of a call's outputs. Each is provided once.
pub(crate) struct Places<'a> {
    operator: &'static Operator,
    places: Mutex<SmallVec<[Place<'a>; 2]>>,
    /// The devices of the caller's tensors.
    devices: SmallVec<[Device; 2]>,
    stream: StreamOf,
}

/// Returns the stream of a CUDA device.
type StreamOf = fn(i32) -> Result<*mut c_void>;

enum Place<'a> {
    /// The call makes a tensor.
    New,
    /// The caller's tensor, which the function has not seen yet.
    Given(TensorRefMut<'a>),
    /// The function fills a new tensor, which the call returns.
    Made(Tensor),
    /// The function fills a new tensor, whose elements the call copies to the caller's tensor.
    Copied(Tensor, TensorRefMut<'a>),
    /// The function fills the caller's tensor.
    Filled,
}

impl<'a> Places<'a> {
    /// Places without memory: the call makes new tensors.
    pub(crate) fn new(operator: &'static Operator) -> Self {
        let places = operator.outputs().map(|_| Place::New).collect();
        Self { operator, places: Mutex::new(places), devices: SmallVec::new(), stream: default }
    }

    /// The caller's tensors, one for each output.
    pub(crate) fn given(
        operator: &'static Operator,
        targets: impl IntoIterator<Item = TensorRefMut<'a>>,
    ) -> Self {
        let mut devices = SmallVec::new();
        let given = |target: TensorRefMut<'a>| {
            devices.push(target.as_tensor_ref().device());
            Place::Given(target)
        };
        let places = Mutex::new(targets.into_iter().map(given).collect());
        Self { operator, places, devices, stream: default }
    }

    /// The same places, for a framework whose program chooses the stream of a device.
    pub(crate) fn with_stream(self, stream: StreamOf) -> Self {
        Self { stream, ..self }
    }

    fn places(&self) -> MutexGuard<'_, SmallVec<[Place<'a>; 2]>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The new tensors, after the function has succeeded.
    pub(crate) fn finish(self) -> Result<Made> {
        let places = self.places.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut made = Made::new();
        for (parameter, place) in self.operator.outputs().zip(places) {
            match place {
                Place::Made(tensor) => made.push(tensor),
                Place::Filled => {}
                Place::Copied(tensor, target) => {
                    let copied = target.copy_from(&TensorRef::from(&tensor));
                    copied.map_err(|error| refused(error).in_operator(parameter.name))?;
                }
                Place::New | Place::Given(_) => {
                    let message = format!(
                        "the function did not allocate {}; call its method `allocate`",
                        parameter.name
                    );
                    return Err(Error::of(ErrorKind::Failed, message));
                }
            }
        }
        Ok(made)
    }
}

impl Outputs for Places<'_> {
    fn output(&self, index: usize, dtype: DataType, shape: &[i64]) -> Result<TensorRefMut<'_>> {
        let parameter = self.operator.outputs().nth(index);
        let mut places = self.places();
        let (Some(place), Some(parameter)) = (places.get_mut(index), parameter) else {
            return Err(Error::of(ErrorKind::Failed, format_args!("there is no output {index}")));
        };
        match std::mem::replace(place, Place::Filled) {
            Place::New if self.operator.on_cuda => {
                let message = format!(
                    "{} has no memory, because dlbridge-ops does not allocate on CUDA; pass the tensor to fill: `out=` in \
                     Python, an argument after the inputs with tvm-ffi",
                    parameter.name
                );
                Err(Error::of(ErrorKind::Buffer, message))
            }
            Place::New => {
                // SAFETY: the tensor stays in its place, unused, until `finish` takes `self`.
                let (tensor, memory) = unsafe { made(dtype, shape) }?;
                *place = Place::Made(tensor);
                Ok(memory)
            }
            Place::Given(target) => {
                let found = target.as_tensor_ref();
                self.operator.check_device(parameter.name, found.device())?;
                check(parameter, &found, dtype, shape)?;
                let form = parameter.kind.form();
                let is_slice = form.is_some_and(|form| form.contiguous);
                let align = form.map_or(1, |form| form.align);
                if (is_slice && !found.is_c_contiguous()) || !is_aligned(&found, align) {
                    if self.operator.on_cuda {
                        let message = format!(
                            "{} must be aligned and in C order without gaps; pass another tensor",
                            parameter.name
                        );
                        return Err(Error::of(ErrorKind::Buffer, message));
                    }
                    // SAFETY: the tensor stays in its place, unused, until `finish` takes `self`.
                    let (tensor, memory) = unsafe { made(dtype, shape) }?;
                    *place = Place::Copied(tensor, target);
                    return Ok(memory);
                }
                Ok(target)
            }
            other => {
                *place = other;
                let message = format!("{} was requested twice", parameter.name);
                Err(Error::of(ErrorKind::Failed, message))
            }
        }
    }

    fn cuda(&self, device: Option<i32>) -> Result<OnCuda<'_>> {
        let device = self.operator.device_of_outputs(device, &self.devices)?;
        Ok(OnCuda::new(device, (self.stream)(device)?))
    }
}

/// The default stream of a device.
fn default(_device: i32) -> Result<*mut c_void> {
    Ok(ptr::null_mut())
}

/// A new tensor of zeros and its memory.
///
/// # Safety
/// For `'m` the tensor is alive, and no code uses its elements except through the memory.
unsafe fn made<'m>(dtype: DataType, shape: &[i64]) -> Result<(Tensor, TensorRefMut<'m>)> {
    let extents: SmallVec<[usize; 6]> =
        shape.iter().map(|extent| usize::try_from(*extent).unwrap_or(usize::MAX)).collect();
    let tensor = Tensor::zeroed_aligned(dtype, &extents, 64)?;
    let parts = RawParts {
        byte_offset: tensor.byte_offset(),
        access: Access::Exclusive,
        ..RawParts::new(tensor.data(), dtype)
    };
    // SAFETY: the tensor has this shape in C order, and its memory is initialised and writable. The
    // caller guarantees that it is alive and not used otherwise for `'m`.
    let memory = unsafe { TensorRefMut::from_raw_parts(&parts, shape, None::<&[i64]>) }?;
    Ok((tensor, memory))
}

/// Checks that the caller's tensor has the dtype and the shape of the output.
fn check(
    parameter: &Parameter,
    target: &TensorRef<'_>,
    dtype: DataType,
    shape: &[i64],
) -> Result<()> {
    let name = parameter.name;
    if target.dtype() != dtype {
        let found = target.dtype();
        let message = format!("{name} must be {dtype}, but is {found}; pass a tensor of {dtype}");
        return Err(Error::of(ErrorKind::Type, message));
    }
    if target.shape() != shape {
        let found = target.shape();
        let message = format!("{name} must have the shape {shape:?}, but has {found:?}");
        return Err(Error::of(ErrorKind::Value, message));
    }
    Ok(())
}
