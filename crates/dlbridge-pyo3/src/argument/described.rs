//! The metadata methods of every typed argument, and `dispatch!`: one body for several element types.

/// Adds the metadata methods to a typed argument, whose tensor is in `argument`. The parameters are the type and its
/// generics after the elements and the number of dimensions.
macro_rules! described {
    ($name:ident, $($more:ident),+) => {
        impl<'py, A, const N: usize, $($more),+> $name<'py, A, N, $($more),+> {
            /// The extents, in elements.
            ///
            /// ```no_run
            #[doc = concat!("fn rows(x: dlbridge_pyo3::", stringify!($name), "<'_, f32, 2>) -> i64 {")]
            ///     x.shape()[0]
            /// }
            /// ```
            pub fn shape(&self) -> &[i64] {
                self.argument.tensor().shape()
            }

            /// The strides, in elements.
            ///
            /// ```no_run
            #[doc = concat!("fn step(x: dlbridge_pyo3::", stringify!($name), "<'_, f32, 1>) -> i64 {")]
            ///     x.strides()[0]
            /// }
            /// ```
            pub fn strides(&self) -> &[i64] {
                self.argument.tensor().strides()
            }

            /// The extents as an array, for an argument with a fixed number of dimensions. For
            /// [`DYNAMIC`](crate::DYNAMIC) only [`shape`](Self::shape) compiles, which `cargo check` does not report.
            ///
            /// ```no_run
            #[doc = concat!("fn pixels(x: dlbridge_pyo3::", stringify!($name), "<'_, u8, 3>) -> usize {")]
            ///     let [height, width, _channels] = x.dims();
            ///     height * width
            /// }
            /// ```
            pub fn dims(&self) -> [usize; N] {
                let mut dims = [0; N];
                for (dim, &extent) in dims.iter_mut().zip(self.shape()) {
                    *dim = extent as usize;
                }
                dims
            }

            /// The number of dimensions.
            ///
            /// ```no_run
            #[doc = concat!("type Any<'py> = dlbridge_pyo3::", stringify!($name), "<'py, f32, { dlbridge_pyo3::DYNAMIC }>;")]
            ///
            /// fn is_scalar(x: Any<'_>) -> bool {
            ///     x.ndim() == 0
            /// }
            /// ```
            pub fn ndim(&self) -> usize {
                self.argument.tensor().ndim()
            }

            /// The number of elements.
            ///
            /// ```no_run
            #[doc = concat!("fn count(x: dlbridge_pyo3::", stringify!($name), "<'_, f32, 2>) -> usize {")]
            ///     x.len()
            /// }
            /// ```
            pub fn len(&self) -> usize {
                self.argument.tensor().len()
            }

            /// Returns true if the tensor has no elements.
            ///
            /// ```no_run
            #[doc = concat!("fn has_no_pixels(x: dlbridge_pyo3::", stringify!($name), "<'_, f32, 2>) -> bool {")]
            ///     x.is_empty()
            /// }
            /// ```
            pub fn is_empty(&self) -> bool {
                self.argument.tensor().is_empty()
            }

            /// The dtype of the elements.
            ///
            /// ```no_run
            #[doc = concat!("type Any<'py> = dlbridge_pyo3::", stringify!($name), "<'py, dlbridge_pyo3::AnyDataType, 1>;")]
            ///
            /// fn dtype(x: Any<'_>) -> String {
            ///     x.dtype().to_string()
            /// }
            /// ```
            pub fn dtype(&self) -> DataType {
                self.argument.tensor().dtype()
            }

            /// The device. The CPU can read its memory.
            ///
            /// ```no_run
            #[doc = concat!("fn is_pinned(x: dlbridge_pyo3::", stringify!($name), "<'_, f32, 1>) -> bool {")]
            ///     x.device().device_type() == dlbridge::DeviceType::CUDA_HOST
            /// }
            /// ```
            pub fn device(&self) -> Device {
                self.argument.tensor().device()
            }

            /// The argument as Python passed it.
            ///
            /// ```no_run
            /// use pyo3::prelude::*;
            ///
            #[doc = concat!("fn name(x: dlbridge_pyo3::", stringify!($name), "<'_, f32, 1>) -> String {")]
            ///     x.object().get_type().to_string()
            /// }
            /// ```
            pub fn object(&self) -> &Bound<'py, PyAny> {
                &self.argument.object
            }

            /// A borrowed read-only tensor of any dtype over the elements.
            ///
            /// ```no_run
            #[doc = concat!("type Any<'py> = dlbridge_pyo3::", stringify!($name), "<'py, dlbridge_pyo3::AnyDataType, 1>;")]
            ///
            /// fn first_half(x: Any<'_>) -> dlbridge::Result<usize> {
            ///     let half = x.as_tensor_ref().slice(0, ..x.len() / 2)?;
            ///     Ok(half.len())
            /// }
            /// ```
            pub fn as_tensor_ref(&self) -> TensorRef<'_> {
                self.argument.tensor().clone()
            }

            /// For [`dispatch!`](crate::dispatch): this argument with its element type, if it is `T`.
            #[doc(hidden)]
            pub fn try_typed<T: Element>(self) -> Result<$name<'py, T, N, $($more),+>, Self> {
                let is_one = self.dtype() == T::DATA_TYPE
                    && (T::TIME.is_none() || T::TIME == self.argument.time);
                match is_one {
                    true => Ok($name { argument: self.argument, marker: std::marker::PhantomData }),
                    false => Err(self),
                }
            }

            /// For [`dispatch!`](crate::dispatch): unreachable, after all possible dtypes.
            #[doc(hidden)]
            pub fn never<T>(self) -> T {
                unreachable!("the argument does not accept the dtype {}", self.dtype())
            }
        }

        impl<'py, A, const N: usize, $($more),+> $name<'py, $crate::OneOf<A>, N, $($more),+> {
            /// For [`dispatch!`](crate::dispatch): checks that the named types are those of the argument.
            #[doc(hidden)]
            pub fn of_several<B>(self) -> Self
            where
                A: $crate::argument::described::Same<B>,
            {
                self
            }
        }

        // SAFETY: no type implements `Detached`, so this impl applies to none. Instead of the compiler's list of
        // fields that are not `Send`, the bound prints a message that says what to do.
        unsafe impl<A, const N: usize, $($more),+> Send for $name<'_, A, N, $($more),+> where
            A: $crate::argument::described::Detached
        {
        }
        // SAFETY: no type implements `Detached`, so this impl applies to none.
        unsafe impl<A, const N: usize, $($more),+> Sync for $name<'_, A, N, $($more),+> where
            A: $crate::argument::described::Detached
        {
        }

        impl<A, const N: usize, $($more),+> std::fmt::Debug for $name<'_, A, N, $($more),+> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("dtype", &self.dtype())
                    .field("shape", &self.shape())
                    .field("strides", &self.strides())
                    .field("device", &self.device())
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(super) use described;

/// Equal types, for compiler messages that name both.
#[diagnostic::on_unimplemented(
    message = "`dispatch!` names the types `{T}`, but the argument is `OneOf<{Self}>`",
    label = "other types than those of the argument",
    note = "name every type of the `OneOf`, in the same order: `dispatch!(T in (f32, f64), x => ...)`"
)]
#[doc(hidden)]
pub trait Same<T> {}

impl<T> Same<T> for T {}

/// Implemented by no type: a typed argument would need elements of such a type to move to another thread.
#[diagnostic::on_unimplemented(
    message = "an argument cannot be used where Python is not attached, or on another thread",
    label = "the argument is used here",
    note = "make a view of it before, and use that: `let view = x.view(); py.detach(|| view.iter().sum())`"
)]
#[doc(hidden)]
pub trait Detached: sealed::Sealed {}

mod sealed {
    /// Implemented for no type.
    pub trait Sealed {}
}

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
