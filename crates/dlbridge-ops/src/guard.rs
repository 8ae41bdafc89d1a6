//! Panics of the operator's author as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, ErrorKind, Result};
use crate::operator::Operator;

/// Runs code of the operator's author; a panic becomes an error.
pub(crate) fn guarded<T>(code: impl FnOnce() -> Result<T>) -> Result<T> {
    // Unwind safe: the values are dropped after a panic, and outputs may have any elements.
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(result) => result,
        Err(panic) => {
            let message = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
                (Some(message), _) => message,
                (_, Some(message)) => message.as_str(),
                _ => "the function panicked",
            };
            let error = Error::of(ErrorKind::Panic, format_args!("panicked: {message}"));
            discard(panic);
            Err(error)
        }
    }
}

/// Runs the call of an operator by a framework. A panic outside of the operator's function is an error with its name.
pub(crate) fn entered<T>(operator: &Operator, code: impl FnOnce() -> T) -> Result<T> {
    guarded(|| Ok(code())).map_err(|error| error.in_operator(operator.name()))
}

/// Drops the value of a panic, which may panic itself.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(next) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // To drop it might panic again, without an end.
        std::mem::forget(next);
    }
}
