//! Arguments that accept lists and tuples of numbers.

use dlbridge_pyo3::{
    Aligned, AllowSequence, AnyDataType, COrder, DYNAMIC, FortranOrder, OneOf, PyReadonlyTensor,
    PyTensor,
};
use half::{bf16, f16};
use num_complex::Complex;
use pyo3::prelude::*;

/// A list of floats, and whether it is borrowed.
#[pyfunction]
pub(crate) fn vector_of_list(
    x: PyReadonlyTensor<'_, f64, 1, (COrder, AllowSequence)>,
) -> (Vec<f64>, bool) {
    (x.slice().to_vec(), x.is_borrowed())
}

/// A list of lists of floats, at an address for vector instructions.
#[pyfunction]
pub(crate) fn matrix_of_lists(
    x: PyReadonlyTensor<'_, f64, 2, (COrder, Aligned<64>, AllowSequence)>,
) -> PyResult<PyTensor> {
    assert!(x.is_empty() || x.slice().as_ptr().addr().is_multiple_of(64));
    Ok(PyTensor::from(x.as_tensor_ref().to_copy()?))
}

#[pyfunction]
pub(crate) fn matrix_by_columns(
    x: PyReadonlyTensor<'_, f64, 2, (FortranOrder, AllowSequence)>,
) -> Vec<f64> {
    x.view().transpose().as_slice().map_or(vec![], <[f64]>::to_vec)
}

#[pyfunction]
pub(crate) fn cube_of_lists(
    x: PyReadonlyTensor<'_, u8, 3, (dlbridge_pyo3::dims!(_, _, 3), AllowSequence)>,
) -> usize {
    x.len() / 3
}

#[pyfunction]
#[pyo3(signature = (x=None))]
pub(crate) fn optional_list(x: Option<PyReadonlyTensor<'_, i64, 1, AllowSequence>>) -> Option<i64> {
    Some(x?.iter().sum())
}

/// Functions that return a copy of the tensor that their argument was converted to.
macro_rules! copies {
    ($($name:ident: $accepted:ty;)+) => {$(
        #[pyfunction]
        pub(crate) fn $name(
            x: PyReadonlyTensor<'_, $accepted, DYNAMIC, AllowSequence>,
        ) -> PyResult<PyTensor> {
            Ok(PyTensor::from(x.as_tensor_ref().to_copy()?))
        }
    )+};
}

copies! {
    as_bool: bool;
    as_int8: i8;
    as_int16: i16;
    as_int32: i32;
    as_int64: i64;
    as_uint8: u8;
    as_uint16: u16;
    as_uint32: u32;
    as_uint64: u64;
    as_float16: f16;
    as_bfloat16: bf16;
    as_float32: f32;
    as_float64: f64;
    as_complex64: Complex<f32>;
    as_complex128: Complex<f64>;
    as_any: AnyDataType;
    as_single_or_byte: OneOf<(f32, u8)>;
    as_double_or_int: OneOf<(f64, i32, i64)>;
}
