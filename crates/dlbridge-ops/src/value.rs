//! The arguments of a call, whatever framework they come from.

use dlbridge::{TensorRef, TensorRefMut};

use crate::on_cuda::OnCuda;
use crate::outputs::Slot;
use crate::parameter::Kind;

/// An argument as a framework passes it.
#[doc(hidden)]
#[derive(Default)]
pub enum Value<'a> {
    /// No argument, for a parameter that is optional.
    #[default]
    None,
    Tensor(TensorRef<'a>),
    Mutable(TensorRefMut<'a>),
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

impl Value<'_> {
    /// Returns true if a parameter of this kind takes the value.
    pub(crate) fn fits(&self, kind: Kind) -> bool {
        match self {
            Value::None => matches!(kind, Kind::Optional(_)),
            Value::Tensor(_) => matches!(kind, Kind::Input(_) | Kind::Optional(_)),
            Value::Mutable(_) => matches!(kind, Kind::InPlace(_)),
            Value::Slot(_) | Value::Cuda(_) => false,
            Value::Float(_) => kind == Kind::Float,
            Value::Int(_) => kind == Kind::Int,
            Value::Bool(_) => kind == Kind::Bool,
            Value::Str(_) => kind == Kind::Str,
            Value::Ints(_) => kind == Kind::Ints,
            Value::Floats(_) => kind == Kind::Floats,
        }
    }

    /// The kind of the value in a message.
    pub(crate) fn text(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Tensor(_) | Value::Mutable(_) | Value::Slot(_) => "a tensor",
            Value::Float(_) => "a float",
            Value::Int(_) => "an integer",
            Value::Bool(_) => "a boolean",
            Value::Str(_) => "a string",
            Value::Ints(_) => "a list of integers",
            Value::Floats(_) => "a list of floats",
            Value::Cuda(_) => "the device of the call",
        }
    }
}
