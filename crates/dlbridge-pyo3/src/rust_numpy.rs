//! Arrays of [rust-numpy](numpy) 0.30 to tensors and back, without a copy, for extensions that use both.
//!
//! | | from | to | |
//! | --- | --- | --- | --- |
//! | [`PyArrayExt::into_tensor`] | `&Bound<PyArray<T, D>>`, as a `PyReadonlyArray<T, D>` is too | `Tensor` | zero-copy, any strides |
//! | [`TensorExt::into_pyarray`] | `Tensor` | `Bound<PyArray<T, D>>` | zero-copy, any strides; read-only unless the tensor is exclusive |
//!
//! The borrow rules of both libraries work together: a tensor of an array is a read borrow that rust-numpy sees, and
//! an array that rust-numpy has borrowed mutably is refused, as [the page of this crate](crate#borrows) describes. To write an
//! array's elements, use [`PyReadwriteTensor`](crate::PyReadwriteTensor), which takes arrays like any other
//! tensor.
//!
//! # Elements
//!
//! | rust-numpy | dlbridge |
//! | --- | --- |
//! | `bool`, `i8` to `i64`, `u8` to `u64`, `f32`, `f64` | the same |
//! | `Complex32`, `Complex64` | `complex64`, `complex128` |
//! | `half::f16` | `float16` |
//! | `half::bf16`, as the dtype of ml_dtypes | `bfloat16` |
//! | `Datetime<units::Days>` and the like | view it with [`PyReadonlyTensor<'_, Datetime64<Days>, 1>`](crate::PyReadonlyTensor), or make an array with [`Numpy`](crate::Numpy); `into_tensor` raises `BufferError` |
//! | objects, strings, records | `BufferError` |
//!
//! # Limits of rust-numpy
//!
//! rust-numpy identifies memory by an array's base object, and does not see other ways to share it. So an array made
//! of a tensor that borrows another array is read-only, which rust-numpy's `readwrite` respects. As long as it lives,
//! the other array can only be borrowed for reading.

use dlbridge::{Access, Tensor};
use numpy::ndarray::Dimension;
use numpy::{Element, PyArray};
use pyo3::prelude::*;

use crate::returned::IntoNumpy;

/// Arrays as tensors, implemented for references, so that the array itself stays.
pub trait PyArrayExt: sealed::Sealed + Sized {
    /// Borrows the array's memory for reading, as a tensor that keeps the array. The borrow ends when the tensor, and
    /// everything made of it without a copy, is dropped.
    ///
    /// # Errors
    /// `BufferError` for memory that is borrowed mutably, for elements without a dtype, and for masked arrays.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::rust_numpy::PyArrayExt;
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
        crate::import(self.as_any())
    }
}

/// Tensors as arrays.
pub trait TensorExt: sealed::Sealed {
    /// Makes an array over the tensor's memory, which it keeps alive. The array is writable only if the tensor is
    /// [exclusive](dlbridge::Access::Exclusive). Memory with other users, such as another array's, is borrowed for
    /// reading: rust-numpy cannot recognise it in the new array, and would allow a mutable borrow.
    ///
    /// # Errors
    /// `TypeError` for a tensor of another dtype or number of dimensions than the array's; `BufferError` for one that
    /// NumPy cannot use, such as one on a device; `ModuleNotFoundError` without NumPy.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::dlbridge::Tensor;
    /// use dlbridge_pyo3::rust_numpy::TensorExt;
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

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    use numpy::PyArray;
    use pyo3::prelude::*;

    pub trait Sealed {}

    impl<T, D> Sealed for &Bound<'_, PyArray<T, D>> {}
    impl Sealed for dlbridge::Tensor {}
}
