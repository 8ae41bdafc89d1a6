//! Arrays of [rust-numpy](numpy) 0.30 as tensors, and tensors as its arrays, without a copy: for extensions that have both.
//!
//! | | from | to | |
//! | --- | --- | --- | --- |
//! | [`PyArrayExt::into_tensor`] | `&Bound<PyArray<T, D>>`, as a `PyReadonlyArray<T, D>` is too | `Tensor` | zero-copy, any strides |
//! | [`TensorExt::into_pyarray`] | `Tensor` | `Bound<PyArray<T, D>>` | zero-copy, any strides; read-only unless the tensor is exclusive |
//!
//! Borrows of both sides meet: a tensor of an array is a borrow to read that rust-numpy sees, and what it has borrowed to
//! be written is refused, as the guide of [`dlbridge_pyo3`] describes it. To write an array's elements there is
//! [`PyReadwriteTensor`](dlbridge_pyo3::PyReadwriteTensor), which takes an array as it takes any other tensor.
//!
//! # Elements
//!
//! | rust-numpy | dlbridge |
//! | --- | --- |
//! | `bool`, `i8` to `i64`, `u8` to `u64`, `f32`, `f64` | the same |
//! | `Complex32`, `Complex64` | `complex64`, `complex128` |
//! | `half::f16` | `float16` |
//! | `half::bf16`, as the dtype of ml_dtypes | `bfloat16` |
//! | `Datetime<units::Days>` and the like | a view by [`PyReadonlyTensor<'_, Datetime64<Days>, 1>`](dlbridge_pyo3::PyReadonlyTensor), an array by [`Numpy`](dlbridge_pyo3::Numpy); `into_tensor` is a `BufferError` |
//! | objects, strings, records | `BufferError` |
//!
//! # What rust-numpy cannot do
//!
//! It goes by the base object of an array, and knows nothing of memory that two objects share otherwise. So the array of a
//! tensor that is a borrow of another array is read-only, which rust-numpy's `readwrite` heeds; and as long as it lives the
//! other one is lent to be read only.

use dlbridge::{Access, Tensor};
use dlbridge_pyo3::IntoNumpy;
use numpy::ndarray::Dimension;
use numpy::{Element, PyArray};
use pyo3::prelude::*;

/// Arrays as tensors: of a reference, so that the array itself stays.
pub trait PyArrayExt: sealed::Sealed + Sized {
    /// The array's memory as a tensor, borrowed to be read until the tensor, and all that was made of it without a copy, is
    /// dropped. It keeps the array.
    ///
    /// # Errors
    /// `BufferError` for memory that is borrowed to be written, for elements that a tensor does not have, and for masked
    /// arrays.
    ///
    /// ```no_run
    /// use dlbridge_numpy::PyArrayExt;
    /// use numpy::PyArrayDyn;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn strides(x: &Bound<'_, PyArrayDyn<f32>>) -> PyResult<Vec<i64>> {
    ///     Ok(x.into_tensor()?.strides().to_vec())
    /// }
    /// ```
    fn into_tensor(self) -> PyResult<Tensor>;
}

impl<T, D> PyArrayExt for &Bound<'_, PyArray<T, D>> {
    fn into_tensor(self) -> PyResult<Tensor> {
        dlbridge_pyo3::import(self.as_any())
    }
}

/// Tensors as arrays.
pub trait TensorExt: sealed::Sealed {
    /// An array over the tensor's memory, which keeps it. It may be written if the tensor is
    /// [exclusive](dlbridge::Access::Exclusive): memory that others use too, as that of another array, is borrowed to be
    /// read, and rust-numpy, which could not know it again, would lend the new array to be written.
    ///
    /// # Errors
    /// `TypeError` for a tensor of another dtype or number of dimensions than the array's; `BufferError` for one that
    /// NumPy cannot have, as on a device; `ModuleNotFoundError` without NumPy.
    ///
    /// ```no_run
    /// use dlbridge::Tensor;
    /// use dlbridge_numpy::TensorExt;
    /// use numpy::{Ix2, PyArray2};
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn identity(py: Python<'_>) -> PyResult<Bound<'_, PyArray2<f64>>> {
    ///     Tensor::from([[1.0, 0.0], [0.0, 1.0]]).into_pyarray::<f64, Ix2>(py)
    /// }
    /// ```
    fn into_pyarray<T: Element, D: Dimension>(
        self,
        py: Python<'_>,
    ) -> PyResult<Bound<'_, PyArray<T, D>>>;
}

impl TensorExt for Tensor {
    fn into_pyarray<T: Element, D: Dimension>(
        self,
        py: Python<'_>,
    ) -> PyResult<Bound<'_, PyArray<T, D>>> {
        let tensor = match self.access() {
            Access::Exclusive => self,
            _ => self.into_read_only(),
        };
        let array = tensor.into_numpy(py)?;
        Ok(array.cast_into::<PyArray<T, D>>()?)
    }
}

/// Keeps the extension traits closed, so that they can grow.
mod sealed {
    use numpy::PyArray;
    use pyo3::prelude::*;

    pub trait Sealed {}

    impl<T, D> Sealed for &Bound<'_, PyArray<T, D>> {}
    impl Sealed for dlbridge::Tensor {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
