//! The arguments of a call, whatever framework they come from.

use std::ops::Range;

use dlbridge::{DataType, Device, TensorRef, TensorRefMut};

use crate::contiguous::{Contiguous, ContiguousMut};
use crate::error::Result;
use crate::on_cuda::OnCuda;
use crate::outputs::Slot;
use crate::parameter::{DefaultValue, Kind};

/// An argument as a framework passes it. Calls move it, so tensors that need a large description are on the heap.
#[doc(hidden)]
#[derive(Default)]
pub enum Value<'a> {
    /// No argument, for a parameter that is optional.
    #[default]
    None,
    /// A tensor as functions take it most often.
    Contiguous(Contiguous<'a>),
    ContiguousMut(ContiguousMut<'a>),
    /// Any other tensor.
    Tensor(Box<TensorRef<'a>>),
    TensorMut(Box<TensorRefMut<'a>>),
    /// The place of an output whose shape the function decides.
    Slot(Slot<'a>),
    Float(f64),
    Int(i64),
    Bool(bool),
    Str(&'a str),
    Ints(&'a [i64]),
    Floats(&'a [f64]),
    /// The device and the stream of the call.
    Cuda(OnCuda<'a>),
}

impl<'a> Value<'a> {
    /// A tensor in the form for every tensor.
    pub(crate) fn of(tensor: TensorRef<'a>) -> Self {
        Value::Tensor(Box::new(tensor))
    }

    /// A tensor in the form for every tensor, for writing.
    pub(crate) fn of_mut(tensor: TensorRefMut<'a>) -> Self {
        Value::TensorMut(Box::new(tensor))
    }

    /// Returns true if a parameter of this kind takes the value.
    #[inline]
    pub(crate) fn fits(&self, kind: &Kind) -> bool {
        match self {
            Value::None => matches!(kind, Kind::Optional(_)),
            Value::Contiguous(_) | Value::Tensor(_) => {
                matches!(kind, Kind::Input(_) | Kind::Optional(_))
            }
            Value::ContiguousMut(_) | Value::TensorMut(_) => matches!(kind, Kind::InPlace(_)),
            Value::Slot(_) | Value::Cuda(_) => false,
            Value::Float(_) => *kind == Kind::Float,
            Value::Int(_) => *kind == Kind::Int,
            Value::Bool(_) => *kind == Kind::Bool,
            Value::Str(_) => *kind == Kind::Str,
            Value::Ints(_) => *kind == Kind::Ints,
            Value::Floats(_) => *kind == Kind::Floats,
        }
    }

    /// The kind of the value in a message.
    pub(crate) fn text(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Contiguous(_) | Value::ContiguousMut(_) | Value::Slot(_) => "a tensor",
            Value::Tensor(_) | Value::TensorMut(_) => "a tensor",
            Value::Float(_) => "a float",
            Value::Int(_) => "an integer",
            Value::Bool(_) => "a boolean",
            Value::Str(_) => "a string",
            Value::Ints(_) => "a list of integers",
            Value::Floats(_) => "a list of floats",
            Value::Cuda(_) => "the device of the call",
        }
    }

    /// The shape, if the value is a tensor.
    #[inline]
    pub(crate) fn shape(&self) -> Option<&[i64]> {
        match self {
            Value::Contiguous(tensor) => Some(tensor.shape()),
            Value::ContiguousMut(tensor) => Some(tensor.tensor().shape()),
            Value::Tensor(tensor) => Some(tensor.shape()),
            Value::TensorMut(tensor) => Some(tensor.shape()),
            _ => None,
        }
    }

    /// The dtype, if the value is a tensor.
    #[inline]
    pub(crate) fn dtype(&self) -> Option<DataType> {
        match self {
            Value::Contiguous(tensor) => Some(tensor.dtype()),
            Value::ContiguousMut(tensor) => Some(tensor.tensor().dtype()),
            Value::Tensor(tensor) => Some(tensor.dtype()),
            Value::TensorMut(tensor) => Some(tensor.dtype()),
            _ => None,
        }
    }

    /// The device, if the value is a tensor; the CPU otherwise.
    #[inline]
    pub(crate) fn device(&self) -> Device {
        match self {
            Value::Tensor(tensor) => tensor.device(),
            Value::TensorMut(tensor) => tensor.as_tensor_ref().device(),
            _ => Device::CPU,
        }
    }

    /// The addresses of the elements and of the gaps between them, if the value is a tensor.
    #[inline]
    pub(crate) fn addresses(&self) -> Option<Range<usize>> {
        match self {
            Value::Contiguous(tensor) => Some(tensor.addresses()),
            Value::ContiguousMut(tensor) => Some(tensor.tensor().addresses()),
            Value::Tensor(tensor) => Some(addresses(tensor)),
            Value::TensorMut(tensor) => Some(addresses(&tensor.as_tensor_ref())),
            _ => None,
        }
    }

    /// The tensor for reading, if the value is one.
    pub(crate) fn to_tensor_ref(&self) -> Result<Option<TensorRef<'a>>> {
        match self {
            Value::Contiguous(tensor) => tensor.to_tensor_ref().map(Some),
            Value::Tensor(tensor) => Ok(Some((**tensor).clone())),
            _ => Ok(None),
        }
    }

    /// The tensor for writing, if the value is one.
    pub(crate) fn into_tensor_ref_mut(self) -> Result<Option<TensorRefMut<'a>>> {
        match self {
            Value::ContiguousMut(tensor) => tensor.into_tensor_ref_mut().map(Some),
            Value::TensorMut(tensor) => Ok(Some(*tensor)),
            _ => Ok(None),
        }
    }
}

/// The elements of an argument that is a list, copied in the parameter's type.
pub(crate) enum List {
    Ints(Vec<i64>),
    Floats(Vec<f64>),
}

impl<'a> From<&'a List> for Value<'a> {
    fn from(list: &'a List) -> Self {
        match list {
            List::Ints(values) => Value::Ints(values),
            List::Floats(values) => Value::Floats(values),
        }
    }
}

impl From<DefaultValue> for Value<'_> {
    fn from(default: DefaultValue) -> Self {
        match default {
            DefaultValue::Float(value) => Value::Float(value),
            DefaultValue::Int(value) => Value::Int(value),
            DefaultValue::Bool(value) => Value::Bool(value),
            DefaultValue::Str(value) => Value::Str(value),
            DefaultValue::Ints(values) => Value::Ints(values),
            DefaultValue::Floats(values) => Value::Floats(values),
        }
    }
}

fn addresses(tensor: &TensorRef<'_>) -> Range<usize> {
    if tensor.is_empty() {
        return 0..0;
    }
    let size = tensor.dtype().itemsize().max(1) as isize;
    let (mut first, mut last) = (0_isize, 0_isize);
    for (extent, stride) in tensor.shape().iter().zip(tensor.strides()) {
        // No overflow: the tensor's constructor found that the elements are in the address space.
        let reach = (extent - 1).wrapping_mul(*stride) as isize;
        if reach < 0 { first += reach } else { last += reach }
    }
    let address = tensor.data().addr().wrapping_add(tensor.byte_offset() as usize);
    let at = |elements: isize| address.wrapping_add_signed(elements.wrapping_mul(size));
    at(first)..at(last + 1)
}
