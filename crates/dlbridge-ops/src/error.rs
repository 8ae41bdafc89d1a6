//! Results of operators, and the reasons why calls failed. Panics of the operator's author are such reasons.

use std::any::Any;
use std::collections::TryReserveError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dlbridge::Error as CoreError;

/// The result of a call, or of a step of it.
///
/// ```
/// use dlbridge_ops::{Result, op};
///
/// #[op]
/// fn roots(x: &[f64], out: &mut [f64]) -> Result<()> {
///     for (out, x) in out.iter_mut().zip(x) {
///         if *x < 0.0 {
///             return Err(dlbridge_ops::Error::new(format_args!("{x} has no real root")));
///         }
///         *out = x.sqrt();
///     }
///     Ok(())
/// }
///
/// assert_eq!(roots(&[-1.0], &mut [0.0]).unwrap_err().to_string(), "-1 has no real root");
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call of an operator failed.
///
/// An operator returns any error that can be printed. Return this one to use `?` on errors of other crates and on
/// [`Dynamic::allocate`](crate::Dynamic::allocate).
///
/// ```
/// use dlbridge_ops::Error;
///
/// fn parse(text: &str) -> Result<f64, Error> {
///     if text.is_empty() {
///         return Err(Error::new("the text is empty"));
///     }
///     Ok(text.parse::<f64>()?)
/// }
///
/// assert_eq!(parse("").unwrap_err().to_string(), "the text is empty");
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid float literal");
/// ```
// Not a `std::error::Error`, so that `?` can convert every error that is one.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The class of an [`Error`], which decides the class of the exception for NumPy and tvm-ffi.
///
/// PyTorch raises `RuntimeError` for all of them. JAX raises its `JaxRuntimeError`, which is a `RuntimeError`, for what the
/// function returns, and the classes below for what is wrong while it traces. tvm-ffi has no `BufferError` and raises
/// `ValueError`.
///
/// ```
/// assert_eq!(dlbridge_ops::Error::new("no").kind(), dlbridge_ops::ErrorKind::Failed);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument has the wrong type or dtype: `TypeError`.
    Type,
    /// An argument has the wrong number of dimensions, shape or value: `ValueError`.
    Value,
    /// The memory cannot be used as it is, such as memory that must not be written: `BufferError`.
    Buffer,
    /// An allocation failed: `MemoryError`.
    Memory,
    /// The operator returned an error, or the framework refused a request: `RuntimeError`.
    Failed,
    /// The operator panicked: `RuntimeError`.
    Panic,
    /// The framework, its release or a function of it is missing: `ImportError`.
    Missing,
}

impl Error {
    /// An error of an operator.
    ///
    /// ```
    /// use dlbridge_ops::Error;
    ///
    /// assert_eq!(Error::new("the matrix is singular").to_string(), "the matrix is singular");
    /// ```
    pub fn new(message: impl fmt::Display) -> Self {
        Self::of(ErrorKind::Failed, message)
    }

    /// An error of an operator with the class of the exception, as far as the framework has one: see [`ErrorKind`].
    ///
    /// ```
    /// use dlbridge_ops::{Error, ErrorKind};
    ///
    /// assert_eq!(Error::of(ErrorKind::Value, "n must be positive").kind(), ErrorKind::Value);
    /// ```
    pub fn of(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    /// The class of the error.
    ///
    /// ```
    /// assert_eq!(dlbridge_ops::Error::new("no").kind(), dlbridge_ops::ErrorKind::Failed);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same error, with the operator's name in front of the message.
    pub(crate) fn in_operator(mut self, name: &str) -> Self {
        self.message = format!("{name}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self::of(kind_of(&error), error)
    }
}

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

/// The class for an error of another crate.
fn kind_of(error: &dyn Any) -> ErrorKind {
    match error.downcast_ref() {
        Some(CoreError::OutOfMemory { .. }) => ErrorKind::Memory,
        _ if error.is::<TryReserveError>() => ErrorKind::Memory,
        _ => ErrorKind::Failed,
    }
}

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
pub(crate) fn entered<T>(operator: &str, code: impl FnOnce() -> T) -> Result<T> {
    guarded(|| Ok(code())).map_err(|error| error.in_operator(operator))
}

/// Drops the value of a panic, which may panic itself.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(next) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // To drop it might panic again, without an end.
        std::mem::forget(next);
    }
}
