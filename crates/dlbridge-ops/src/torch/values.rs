//! Values for a call from PyTorch's arguments.

use std::ffi::c_void;
use std::ops::Range;

use dlbridge::{Access, DataType, Device, RawParts, TensorRef};
use smallvec::SmallVec;

use super::shim::Shim;
use super::stack::{Arguments, Description, Tensor};
use crate::call::Values;
use crate::contiguous::{Contiguous, is_c_order};
use crate::error::{Error, ErrorKind, Result};
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
pub(super) struct Located<'t> {
    pub(super) name: &'static str,
    pub(super) data: *mut c_void,
    pub(super) dtype: DataType,
    pub(super) device: Device,
    pub(super) description: Description<'t>,
    /// True if the call writes the tensor, which is unshared.
    pub(super) mutable: bool,
}

impl<'t> Located<'t> {
    #[inline]
    pub(super) fn new(
        shim: &Shim,
        name: &'static str,
        tensor: &'t Tensor,
        mutable: bool,
    ) -> Result<Self> {
        let device = tensor.strided_on(name)?;
        // Also for writes, as the tensor is unshared.
        let data = tensor.data()?;
        let description = tensor.describe()?;
        let dtype = data_type(shim, name, description.dtype)?;
        Ok(Self { name, data, dtype, device, description, mutable })
    }

    /// The addresses between the first and the last byte; strides of PyTorch are not negative.
    fn bytes(&self) -> Range<usize> {
        let Description { sizes, strides, .. } = &self.description;
        let start = self.data.addr();
        if sizes.contains(&0) {
            return start..start;
        }
        let last: i64 = sizes.iter().zip(*strides).map(|(size, stride)| (size - 1) * stride).sum();
        start..start + (last as usize + 1) * self.dtype.itemsize()
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

    /// The value of the tensor: for writing, if it is mutable.
    ///
    /// # Safety
    /// For `'t` no code writes the elements except through the result; no code reads those of a mutable tensor.
    #[inline]
    pub(super) unsafe fn value(&self) -> Result<Value<'t>> {
        // SAFETY: the caller guarantees the contract of each of these, and PyTorch's memory is valid for writes.
        unsafe {
            Ok(match (self.contiguous(), self.mutable) {
                (Some(tensor), true) => Value::ContiguousMut(tensor.assume_exclusive()),
                (Some(tensor), false) => Value::Contiguous(tensor),
                (None, true) => Value::of_mut(self.reference()?.assume_exclusive()?),
                (None, false) => Value::of(self.reference()?),
            })
        }
    }

    /// # Safety
    /// For `'t` no code writes the elements except through the result.
    unsafe fn reference(&self) -> Result<TensorRef<'t>> {
        let access = if self.mutable { Access::Exclusive } else { Access::ReadOnly };
        let parts =
            RawParts { access, device: self.device, ..RawParts::new(self.data, self.dtype) };
        let Description { sizes, strides, .. } = &self.description;
        let axes = sizes.iter().copied().zip(strides.iter().copied());
        // SAFETY: as in `contiguous`, the elements are in one allocation, which lives as long as the tensor, and the program
        // must not shrink it. The caller guarantees the rest.
        Ok(unsafe { TensorRef::from_raw_axes(&parts, axes) }?)
    }
}

/// Appends the values of a call: a list of values is too large to be returned at no cost.
///
/// # Errors
/// Returns an error if a tensor is not strided memory on the CPU or on CUDA, or if a tensor that the call writes shares memory with
/// another.
pub(super) fn values<'a>(
    shim: &Shim,
    operator: &'static Operator,
    arguments: Unshared<'a>,
    values: &mut Values<'a>,
) -> Result<()> {
    let arguments = arguments.get();
    check_overlap(shim, operator, arguments)?;
    for (parameter, argument) in operator.inputs().zip(arguments) {
        let Some(tensor) = argument.tensor() else {
            values.push(argument.attribute(parameter.kind)?);
            continue;
        };
        let mutable = matches!(parameter.kind, Kind::InPlace(_));
        let located = Located::new(shim, parameter.name, tensor, mutable)?;
        // SAFETY: `check_overlap` found that no tensor that the call writes shares its memory. PyTorch's callers do not
        // write a tensor on another thread while an operator uses it.
        values.push(unsafe { located.value() }?);
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

/// Refuses tensors that the call writes and that share memory with another tensor of the call.
fn check_overlap(shim: &Shim, operator: &'static Operator, arguments: &Arguments) -> Result<()> {
    let tensors = || {
        let named = written(operator).zip(arguments);
        named.filter_map(|((name, mutable), argument)| Some((name, mutable, argument.tensor()?)))
    };
    if !tensors().any(|(_, mutable, _)| mutable) {
        return Ok(());
    }
    let located =
        tensors().map(|(name, mutable, tensor)| Located::new(shim, name, tensor, mutable));
    let located = located.collect::<Result<SmallVec<[Located<'_>; 6]>>>()?;
    for (index, written) in located.iter().enumerate().filter(|(_, tensor)| tensor.mutable) {
        let bytes = written.bytes();
        let overlaps = |(place, other): &(usize, &Located<'_>)| {
            let others = other.bytes();
            *place != index && bytes.start < others.end && others.start < bytes.end
        };
        if let Some((_, other)) = located.iter().enumerate().find(overlaps) {
            return Err(Error::of(
                ErrorKind::Buffer,
                format_args!(
                    "{} is written, but shares memory with {}; pass a copy of one of them",
                    written.name, other.name
                ),
            ));
        }
    }
    Ok(())
}
