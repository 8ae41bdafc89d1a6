//! Functions whose only difference is the type of their argument.

use pyo3::prelude::*;

#[cfg(feature = "dlbridge")]
type Argument<'py, T, const N: usize> = dlbridge_pyo3::PyReadonlyTensor<'py, T, N>;
#[cfg(feature = "rust-numpy")]
type Argument<'py, T, const N: usize> =
    numpy::PyReadonlyArray<'py, T, numpy::ndarray::Dim<[usize; N]>>;

#[cfg(feature = "dlbridge")]
macro_rules! elements {
    ($x:ident) => {
        $x.view().len()
    };
}
#[cfg(feature = "rust-numpy")]
macro_rules! elements {
    ($x:ident) => {
        $x.as_array().len()
    };
}

/// Adds a function for each name, that returns the number of elements in its argument, if the feature is on.
macro_rules! functions {
    ($($(#[$on:meta])? $name:ident: $element:ty, $ndim:literal;)*) => {
        $(
            $(#[$on])?
            #[pyfunction]
            fn $name(x: Argument<'_, $element, $ndim>) -> usize {
                elements!(x)
            }
        )*

        /// The extension module.
        #[pymodule(gil_used = true)]
        fn typed_arguments(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(
                $(#[$on])?
                module.add_function(wrap_pyfunction!($name, module)?)?;
            )*
            Ok(())
        }
    };
}

functions! {
    of_f64: f64, 1;
    #[cfg(feature = "two")]
    of_f32: f32, 1;
    #[cfg(feature = "four")]
    of_i64: i64, 1;
    #[cfg(feature = "four")]
    of_i32: i32, 1;
    #[cfg(feature = "ten")]
    of_i16: i16, 1;
    #[cfg(feature = "ten")]
    of_i8: i8, 1;
    #[cfg(feature = "ten")]
    of_u64: u64, 1;
    #[cfg(feature = "ten")]
    of_u32: u32, 1;
    #[cfg(feature = "ten")]
    of_u16: u16, 1;
    #[cfg(feature = "ten")]
    of_u8: u8, 1;
    #[cfg(feature = "dimensions")]
    of_two: f64, 2;
    #[cfg(feature = "dimensions")]
    of_three: f64, 3;
    #[cfg(feature = "dimensions")]
    of_four: f64, 4;
}
