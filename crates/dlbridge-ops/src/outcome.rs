//! What the function of an operator returns.

use std::any::Any;
use std::fmt;

use crate::error::{Error, Result, kind_of};

/// What the function of an operator returns: nothing, or a `Result` of nothing with any error that can be printed.
///
/// ```
/// use dlbridge_ops::op;
///
/// #[op]
/// fn sqrt(x: &[f32], out: &mut [f32]) -> Result<(), String> {
///     for (i, (out, x)) in out.iter_mut().zip(x).enumerate() {
///         if *x < 0.0 {
///             return Err(format!("element {i} is negative: {x}"));
///         }
///         *out = x.sqrt();
///     }
///     Ok(())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "an operator returns nothing or a `Result<(), E>`, not `{Self}`",
    note = "an output is a parameter: `out: &mut [f32]`"
)]
pub trait Outcome {
    #[doc(hidden)]
    fn into_result(self) -> Result<()>;
}

impl Outcome for () {
    fn into_result(self) -> Result<()> {
        Ok(())
    }
}

impl<E: fmt::Display + 'static> Outcome for std::result::Result<(), E> {
    fn into_result(self) -> Result<()> {
        self.map_err(|error| match (&error as &dyn Any).downcast_ref::<Error>() {
            // With its kind, such as that of a failed allocation.
            Some(error) => error.clone(),
            None => Error::of(kind_of(&error), error),
        })
    }
}
