//! The types that an operator's function takes.

mod array;
mod attribute;
mod cuda;
mod output;
mod slice;

use dlbridge::Error as CoreError;

use crate::error::{Error, ErrorKind, Result};
use crate::parameter::Kind;
use crate::value::Value;

pub use self::array::{Array, DYNAMIC, InPlace, View};
pub use self::attribute::{Floats, Ints};
pub use self::cuda::{CudaArray, CudaInPlace, CudaOut, CudaView};
pub use self::output::{Dynamic, Out};

/// A type of parameter of an operator's function.
///
/// | type | takes |
/// | --- | --- |
/// | `&[T]` | a tensor of any shape, as its elements in C order; strided tensors are copied, which [`copies`] counts |
/// | [`View`] | a tensor with its shape and strides |
/// | [`Array`] | the same with its shape |
/// | `Option<&[T]>`, `Option<Array>`, `Option<View>` | a tensor, or none |
/// | [`InPlace`] | a tensor that the function changes |
/// | `&mut [T]`, [`Out`] | an output: zeros, which the function changes |
/// | `&mut [Uninit<T>]` | the same without zeros, for a function that writes each element: see [`Uninit`](crate::Uninit) |
/// | [`Dynamic`] | an output whose shape the function decides |
/// | [`CudaArray`], [`CudaView`], [`CudaInPlace`], [`CudaOut`] | the same on a CUDA device, with [`OnCuda`](crate::OnCuda) for the stream |
/// | `f64`, `i64`, `bool`, `&str`, [`Ints`], [`Floats`] | an attribute: a number, a boolean, a string, a list |
///
/// [`copies`]: crate::Operator::copies
///
/// ```
/// use dlbridge_ops::op;
///
/// /// a * x + y
/// #[op(shape(out = like(x)), require(x[..] == y[..]))]
/// fn axpy(a: f64, x: &[f32], y: &[f32], out: &mut [f32]) {
///     for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
///         *out = a as f32 * x + y;
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type that an operator takes",
    label = "use `&[T]`, `Array`, `View`, `InPlace`, `&mut [T]`, `&mut [Uninit<T>]`, `Out`, `Dynamic`, `f64`, `i64`, `bool`, `&str`, `Ints` or `Floats`"
)]
pub trait Argument<'a>: Sized {
    #[doc(hidden)]
    const KIND: Kind;

    #[doc(hidden)]
    fn from_value(value: &mut Value<'a>) -> Result<Self>;
}

/// An optional input.
impl<'a, A: Argument<'a>> Argument<'a> for Option<A> {
    const KIND: Kind = match A::KIND {
        Kind::Input(form) => Kind::Optional(form),
        _ => panic!(
            "only an input that is a tensor can be an `Option`; an attribute has `default(n = 1)`"
        ),
    };

    fn from_value(value: &mut Value<'a>) -> Result<Self> {
        match value {
            Value::None => Ok(None),
            _ => A::from_value(value).map(Some),
        }
    }
}

/// The error of a value that the call has checked before, so that only a defect of dlbridge-ops shows it.
fn unexpected<T>(kind: Kind) -> Result<T> {
    Err(Error::of(ErrorKind::Type, format_args!("the value does not fit the parameter {kind:?}")))
}

/// An error of the core about an argument.
pub(crate) fn refused(error: CoreError) -> Error {
    let kind = match error {
        CoreError::DataType { .. } => ErrorKind::Type,
        CoreError::Ndim { .. } => ErrorKind::Value,
        CoreError::OutOfMemory { .. } => ErrorKind::Memory,
        _ => ErrorKind::Buffer,
    };
    Error::of(kind, error)
}
