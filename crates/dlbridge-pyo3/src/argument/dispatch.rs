//! `dispatch!`: one body for several element types.

/// Runs a body with the actual element type of a tensor.
///
/// The types are those of the argument's [`OneOf`](crate::OneOf), all of them and in the same order; a missing one is
/// a compile error. In the body the argument is typed, and the name in front is its element type.
///
/// ```no_run
/// use dlbridge_pyo3::{OneOf, PyReadwriteTensor, dispatch};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn negate(x: PyReadwriteTensor<'_, OneOf<(f32, f64, i32)>, 2>) {
///     dispatch!(T in (f32, f64, i32), mut x => x.iter_mut().for_each(|v| *v = T::default() - *v));
/// }
/// ```
///
/// ```compile_fail,E0277
/// use dlbridge_pyo3::{OneOf, PyReadonlyTensor, dispatch};
///
/// fn len(x: PyReadonlyTensor<'_, OneOf<(f32, f64)>, 1>) -> usize {
///     dispatch!(T in (f32), x => x.len())
/// }
/// ```
#[macro_export]
macro_rules! dispatch {
    ($T:ident in ($($element:ty),+ $(,)?), mut $tensor:ident => $body:expr) => {
        $crate::dispatch!(@ $T in ($($element),+), $tensor, {
            let mut $tensor = $tensor;
            $body
        })
    };
    ($T:ident in ($($element:ty),+ $(,)?), $tensor:ident => $body:expr) => {
        $crate::dispatch!(@ $T in ($($element),+), $tensor, $body)
    };
    (@ $T:ident in ($($element:ty),+), $tensor:ident, $body:expr) => {
        'dispatched: {
            let rest = $tensor.of_several::<($($element,)+)>();
            $(
                let rest = match rest.try_typed::<$element>() {
                    Ok($tensor) => {
                        #[allow(dead_code)]
                        type $T = $element;
                        // A conversion in the body may do nothing for one of the types.
                        #[allow(unreachable_code, clippy::useless_conversion)]
                        let answer = $body;
                        #[allow(unreachable_code)]
                        break 'dispatched answer;
                    }
                    Err(rest) => rest,
                };
            )+
            rest.never()
        }
    };
}
