//! Arguments whose elements are converted.

use dlbridge_pyo3::{
    AllowCast, AllowCopy, AllowSequence, COrder, Contiguous, DYNAMIC, FortranOrder, OneOf,
    PyReadonlyTensor, PyTensor,
};
use half::{bf16, f16};
use num_complex::Complex;
use pyo3::prelude::*;

/// Functions that return a copy of their converted argument.
macro_rules! casts {
    ($($name:ident: $accepted:ty, $constraints:ty;)+) => {$(
        #[pyfunction]
        pub(crate) fn $name(
            x: PyReadonlyTensor<'_, $accepted, DYNAMIC, $constraints>,
        ) -> PyResult<PyTensor> {
            Ok(PyTensor::from(x.as_tensor_ref().to_copy()?))
        }
    )+};
}

casts! {
    cast_to_bool: bool, AllowCast;
    cast_to_int8: i8, AllowCast;
    cast_to_int16: i16, (COrder, AllowCast);
    cast_to_int32: i32, AllowCast;
    cast_to_int64: i64, AllowCast;
    cast_to_uint8: u8, AllowCast;
    cast_to_uint16: u16, AllowCast;
    cast_to_uint32: u32, AllowCast;
    cast_to_uint64: u64, AllowCast;
    cast_to_float16: f16, AllowCast;
    cast_to_bfloat16: bf16, AllowCast;
    cast_to_float32: f32, (COrder, AllowCast);
    cast_to_float64: f64, (COrder, AllowCast);
    cast_to_complex64: Complex<f32>, AllowCast;
    cast_to_complex128: Complex<f64>, AllowCast;
    cast_integers_to_several: OneOf<(u8, f64, i16)>, AllowCast;
    copy_to_int64: i64, AllowCopy;
    copy_to_float32: f32, AllowCopy;
    copy_to_float64: f64, AllowCopy;
}

#[pyfunction]
pub(crate) fn cast_to_several(
    x: PyReadonlyTensor<'_, OneOf<(f32, f64, i16)>, DYNAMIC, AllowCast>,
) -> String {
    x.dtype().to_string()
}

#[pyfunction]
pub(crate) fn cast_columns(x: PyReadonlyTensor<'_, f64, 2, (FortranOrder, AllowCast)>) -> Vec<f64> {
    x.view().transpose().as_slice().map_or(vec![], <[f64]>::to_vec)
}

/// Functions that return the strides of their converted argument, for each demanded order.
macro_rules! strides {
    ($($name:ident: $constraints:ty;)+) => {$(
        #[pyfunction]
        pub(crate) fn $name(x: PyReadonlyTensor<'_, f64, DYNAMIC, $constraints>) -> Vec<i64> {
            x.as_tensor_ref().strides().to_vec()
        }
    )+};
}

strides! {
    cast_strides: AllowCast;
    cast_strides_c: (COrder, AllowCast);
    cast_strides_fortran: (FortranOrder, AllowCast);
    cast_strides_contiguous: (Contiguous, AllowCast);
}

#[pyfunction]
pub(crate) fn cast_list(
    x: PyReadonlyTensor<'_, f64, 1, (AllowSequence, AllowCast)>,
) -> (Vec<f64>, bool) {
    (x.view().to_vec(), x.is_borrowed())
}

/// Indices of any integer type, in a list too.
#[pyfunction]
pub(crate) fn cast_indices(
    x: PyReadonlyTensor<'_, usize, 1, (AllowCast, AllowSequence)>,
) -> (Vec<usize>, bool) {
    (x.view().to_vec(), x.is_borrowed())
}

/// A matrix column by column; floats are rounded, integers checked.
#[pyfunction]
pub(crate) fn cast_columns_to_several(
    x: PyReadonlyTensor<'_, OneOf<(i8, f32)>, 2, (FortranOrder, AllowCast)>,
) -> PyResult<PyTensor> {
    Ok(PyTensor::from(x.as_tensor_ref().to_copy()?))
}
