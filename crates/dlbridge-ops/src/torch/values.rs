//! Values for a call from PyTorch's arguments.

use std::ffi::c_void;

use dlbridge::{Access, DataType, Device, RawParts, TensorRef};

use super::shim::Shim;
use super::stack::{Arguments, Description, Owned, Tensor};
use crate::call::Values;
use crate::contiguous::{Contiguous, is_c_order};
use crate::error::{Error, ErrorKind, Result};
use crate::exclusive::{Targets, add_target, make_writable};
use crate::operator::Operator;
use crate::parameter::Kind;
use crate::value::Value;

/// Arguments whose tensors that the call writes do not share elements with others until a write.
#[derive(Clone, Copy)]
pub(super) struct Unshared<'a>(&'a Arguments);

impl<'a> Unshared<'a> {
    /// # Errors
    /// Returns an error if a tensor that the call writes is not strided memory on the CPU or on CUDA.
    pub(super) fn new(operator: &'static Operator, arguments: &'a mut Arguments) -> Result<Self> {
        for ((name, mutable), argument) in written(operator).zip(arguments.iter_mut()) {
            if mutable && let Some(tensor) = argument.tensor_mut() {
                tensor.strided_on(name)?;
                tensor.mutable_data()?;
            }
        }
        Ok(Self(arguments))
    }

    pub(super) fn get(self) -> &'a Arguments {
        self.0
    }
}

/// The names of the arguments, each with true if the call writes it: tensors changed in place, and tensors after those of
/// the parameters, which are outputs of the caller.
fn written(operator: &'static Operator) -> impl Iterator<Item = (&'static str, bool)> + Clone {
    let parameters = operator.inputs().map(|one| (one.name, matches!(one.kind, Kind::InPlace(_))));
    parameters.chain(operator.outputs().map(|one| (one.name, true)))
}

/// A tensor of the caller with its address.
struct Located<'t> {
    data: *mut c_void,
    dtype: DataType,
    device: Device,
    description: Description<'t>,
}

impl<'t> Located<'t> {
    #[inline]
    fn new(shim: &Shim, name: &str, tensor: &'t Tensor) -> Result<Self> {
        let device = tensor.strided_on(name)?;
        // Also for writes, as the tensor is unshared.
        let data = tensor.data()?;
        let description = tensor.describe()?;
        let dtype = data_type(shim, name, description.dtype)?;
        Ok(Self { data, dtype, device, description })
    }

    /// The elements, if they are on the CPU in C order.
    ///
    /// # Safety
    /// For `'t` no code writes the elements except through the result.
    #[inline]
    unsafe fn contiguous(&self) -> Option<Contiguous<'t>> {
        let Description { sizes, strides, .. } = self.description;
        if self.device != Device::CPU || !is_c_order(sizes, strides) {
            return None;
        }
        // SAFETY: PyTorch makes a tensor with its elements in one allocation, which lives as long as the tensor, which the
        // description borrows. The program must not shrink the allocation to fewer elements (`untyped_storage().resize_`)
        // before it calls an operator, since PyTorch's own operators do not check that either; without any memory, `data`
        // failed. The caller guarantees the rest.
        unsafe { Contiguous::new(self.data, self.dtype, sizes) }
    }

    /// The value of the tensor.
    ///
    /// # Safety
    /// For `'t` no code writes the elements except through the result.
    #[inline]
    unsafe fn value(&self) -> Result<Value<'t>> {
        // SAFETY: the caller guarantees the contract.
        if let Some(tensor) = unsafe { self.contiguous() } {
            return Ok(Value::Contiguous(tensor));
        }
        let parts = RawParts { device: self.device, ..RawParts::new(self.data, self.dtype) };
        let Description { sizes, strides, .. } = &self.description;
        let axes = sizes.iter().copied().zip(strides.iter().copied());
        // SAFETY: as in `contiguous`, the elements are in one allocation, which lives as long as the tensor, and the program
        // must not shrink it. The caller guarantees the rest.
        Ok(Value::of(unsafe { TensorRef::from_raw_axes(&parts, axes) }?))
    }
}

/// Appends the values of a call and the tensors to fill, if there are any: lists of values are too large to be returned at no
/// cost.
///
/// # Errors
/// Returns an error if a tensor is not strided memory on the CPU or on CUDA, or if a tensor that the call writes shares memory with
/// another.
pub(super) fn values<'a>(
    shim: &Shim,
    operator: &'static Operator,
    arguments: Unshared<'a>,
    values: &mut Values<'a>,
    targets: &mut Targets<'a>,
) -> Result<()> {
    let mut arguments = arguments.get().iter();
    for (parameter, argument) in operator.inputs().zip(&mut arguments) {
        let Some(tensor) = argument.tensor() else {
            values.push(argument.attribute(parameter.kind)?);
            continue;
        };
        let located = Located::new(shim, parameter.name, tensor)?;
        // SAFETY: PyTorch's callers do not write a tensor on another thread while an operator uses it. This call writes only
        // what the calls below find to share no memory.
        values.push(unsafe { located.value() }?);
    }
    // SAFETY: PyTorch's memory is valid for writes, tensors that the call writes are unshared, and callers do not use them on
    // another thread.
    unsafe { make_writable(operator, values) }?;
    for (output, tensor) in operator.outputs().zip(arguments.filter_map(Owned::tensor)) {
        let located = Located::new(shim, output.name, tensor)?;
        let Description { sizes, strides, .. } = located.description;
        if !is_c_order(sizes, strides) && !sizes.contains(&0) {
            // `torch.compile` refuses other tensors too.
            let name = output.name;
            let message =
                format!("{name} must be contiguous; pass a tensor in C order, without gaps");
            return Err(Error::of(ErrorKind::Buffer, message));
        }
        // SAFETY: as above.
        unsafe { add_target(operator, values, targets, located.value()?) }?;
    }
    Ok(())
}

/// Values that have only dtype and shape, for tensors without memory.
pub(super) fn shapes<'a>(
    shim: &Shim,
    operator: &'static Operator,
    arguments: &'a Arguments,
) -> Result<Values<'a>> {
    /// An element of any dtype.
    #[repr(align(16))]
    struct Zeros([u8; 16]);
    static ZEROS: Zeros = Zeros([0; 16]);

    let mut values = Values::new();
    for (parameter, argument) in operator.inputs().zip(arguments) {
        let Some(tensor) = argument.tensor() else {
            values.push(argument.attribute(parameter.kind)?);
            continue;
        };
        let Description { dtype, sizes, .. } = tensor.describe()?;
        let dtype = data_type(shim, parameter.name, dtype)?;
        let data = ZEROS.0.as_ptr().cast_mut().cast();
        let parts = RawParts { access: Access::ReadOnly, ..RawParts::new(data, dtype) };
        // SAFETY: with strides of zero all elements are the same one, which lies in the 16 bytes of `ZEROS`: no dtype of
        // PyTorch is larger, and no code writes a static without interior mutability.
        let reference =
            unsafe { TensorRef::from_raw_axes(&parts, sizes.iter().map(|size| (*size, 0))) }?;
        values.push(Value::of(reference));
    }
    Ok(values)
}

fn data_type(shim: &Shim, name: &str, code: i32) -> Result<DataType> {
    shim.data_type(code).ok_or_else(|| {
        let message = format!(
            "{name} has a dtype that DLPack does not have (number {code} in PyTorch); convert it before the call"
        );
        Error::of(ErrorKind::Type, message)
    })
}
