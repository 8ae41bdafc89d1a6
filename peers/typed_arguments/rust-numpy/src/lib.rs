//! Functions whose only difference is the type of their argument, written with rust-numpy.

use numpy::{Ix1, Ix2, Ix3, Ix4, PyReadonlyArray};
use pyo3::prelude::*;

/// Adds a function for each name, that returns the number of elements in its argument, if the feature is on.
macro_rules! functions {
    ($($(#[$on:meta])? $name:ident: $element:ty, $ndim:ty;)*) => {
        $(
            $(#[$on])?
            #[pyfunction]
            fn $name(x: PyReadonlyArray<'_, $element, $ndim>) -> usize {
                x.as_array().len()
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
    of_f64: f64, Ix1;
    #[cfg(feature = "two")]
    of_f32: f32, Ix1;
    #[cfg(feature = "four")]
    of_i64: i64, Ix1;
    #[cfg(feature = "four")]
    of_i32: i32, Ix1;
    #[cfg(feature = "ten")]
    of_i16: i16, Ix1;
    #[cfg(feature = "ten")]
    of_i8: i8, Ix1;
    #[cfg(feature = "ten")]
    of_u64: u64, Ix1;
    #[cfg(feature = "ten")]
    of_u32: u32, Ix1;
    #[cfg(feature = "ten")]
    of_u16: u16, Ix1;
    #[cfg(feature = "ten")]
    of_u8: u8, Ix1;
    #[cfg(feature = "dimensions")]
    of_two: f64, Ix2;
    #[cfg(feature = "dimensions")]
    of_three: f64, Ix3;
    #[cfg(feature = "dimensions")]
    of_four: f64, Ix4;
}
