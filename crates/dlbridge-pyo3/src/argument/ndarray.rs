//! Typed arguments as views of ndarray.

use dlbridge::Element;
use ndarray::{ArrayView, ArrayViewD, ArrayViewMut, ArrayViewMutD, Dim, Dimension};
use pyo3::PyResult;

use super::{PyReadonlyTensor, PyReadwriteTensor};

/// A view of the right number of dimensions.
const FITS: &str = "the number of dimensions was checked";

impl<T: Element, const N: usize, C> PyReadonlyTensor<'_, T, N, C>
where
    Dim<[usize; N]>: Dimension,
{
    /// The elements as a view of ndarray, with any strides.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyReadonlyTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn trace(x: PyReadonlyTensor<'_, f64, 2>) -> f64 {
    ///     x.as_array().diag().sum()
    /// }
    /// ```
    pub fn as_array(&self) -> ArrayView<'_, T, Dim<[usize; N]>> {
        self.view().try_into().expect(FITS)
    }

    /// The elements as a view of ndarray, after checking that their bytes are values of the type, such as `bool`.
    ///
    /// # Errors
    /// As [`try_view`](Self::try_view).
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyReadonlyTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn count(mask: PyReadonlyTensor<'_, bool, 2>) -> PyResult<usize> {
    ///     Ok(mask.try_as_array()?.iter().filter(|&&flag| flag).count())
    /// }
    /// ```
    pub fn try_as_array(&self) -> PyResult<ArrayView<'_, T, Dim<[usize; N]>>> {
        Ok(self.try_view()?.try_into().expect(FITS))
    }
}

impl<T: Element, const N: usize, C> PyReadonlyTensor<'_, T, N, C> {
    /// The elements as a view of ndarray with any number of dimensions.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::{DYNAMIC, PyReadonlyTensor};
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn mean(x: PyReadonlyTensor<'_, f64, DYNAMIC>) -> Option<f64> {
    ///     x.as_array_dyn().mean()
    /// }
    /// ```
    pub fn as_array_dyn(&self) -> ArrayViewD<'_, T> {
        self.view().try_into().expect(FITS)
    }
}

impl<T: Element, const N: usize, C> PyReadwriteTensor<'_, T, N, C>
where
    Dim<[usize; N]>: Dimension,
{
    /// The elements as a view of ndarray, to write.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyReadwriteTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn scale(mut x: PyReadwriteTensor<'_, f64, 2>, factor: f64) {
    ///     x.as_array_mut().map_inplace(|value| *value *= factor);
    /// }
    /// ```
    pub fn as_array_mut(&mut self) -> ArrayViewMut<'_, T, Dim<[usize; N]>> {
        self.view_mut().try_into().expect(FITS)
    }
}

impl<T: Element, const N: usize, C> PyReadwriteTensor<'_, T, N, C> {
    /// The elements as a view of ndarray with any number of dimensions, to write.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::{DYNAMIC, PyReadwriteTensor};
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn clear(mut x: PyReadwriteTensor<'_, f64, DYNAMIC>) {
    ///     x.as_array_mut_dyn().fill(0.0);
    /// }
    /// ```
    pub fn as_array_mut_dyn(&mut self) -> ArrayViewMutD<'_, T> {
        self.view_mut().try_into().expect(FITS)
    }
}
