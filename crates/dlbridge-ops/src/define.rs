//! The types that the attribute [`op`](crate::op) makes.

use crate::operator::Operator;

/// A type that the attribute [`op`](crate::op) makes: `double::Operator` for the function `double`.
///
/// # Safety
/// Only the attribute implements the trait. The names of the operator and of its parameters are identifiers, so that
/// its [`schema`](Operator::schema) has the types of its parameters: PyTorch converts arguments to these types. Each
/// kernel has the parameters of the operator, of the same kinds.
///
/// ```
/// use dlbridge_ops::{Define, op};
///
/// #[op]
/// fn double(x: &[f32], out: &mut [f32]) {
///     out.iter_mut().zip(x).for_each(|(out, x)| *out = 2.0 * x);
/// }
///
/// assert_eq!(double::Operator::OPERATOR.name(), "double");
/// ```
pub unsafe trait Define {
    /// The operator.
    const OPERATOR: &'static Operator;
}
