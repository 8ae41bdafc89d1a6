//! Typed arguments as views of ndarray.

use dlbridge::{Element, Error};
use ndarray::{ArrayView, ArrayViewMut, Dim, Dimension, IxDyn};
use pyo3::PyResult;

use super::host::{PyReadonlyTensor, PyReadwriteTensor};
use super::spec::DYNAMIC;

/// A number of dimensions as a type; see [`NdarrayDim`].
///
/// ```
/// use dlbridge_pyo3::{Ndim, NdarrayDim};
///
/// type Matrix = <Ndim<2> as NdarrayDim>::Dim;
/// assert_eq!(size_of::<Matrix>(), size_of::<ndarray::Ix2>());
/// ```
pub struct Ndim<const N: usize>;

/// A number of dimensions that ndarray has a type for: 0 to 6, or [`DYNAMIC`].
///
/// Generic functions need it for `as_array`:
///
/// ```
/// use dlbridge_pyo3::dlbridge::Element;
/// use dlbridge_pyo3::{Ndim, NdarrayDim, PyReadonlyTensor};
///
/// fn first<T: Element, const N: usize>(x: &PyReadonlyTensor<'_, T, N>) -> Option<T>
/// where
///     Ndim<N>: NdarrayDim,
/// {
///     x.as_array().first().copied()
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "ndarray lacks a type for this number of dimensions",
    note = "use `DYNAMIC` as the number of dimensions"
)]
pub trait NdarrayDim: sealed::Sealed {
    /// The type of the dimensions: `Ix2` for 2, `IxDyn` for [`DYNAMIC`].
    type Dim: Dimension;
}

macro_rules! ndarray_dims {
    ($($n:literal)*) => {$(
        impl NdarrayDim for Ndim<$n> {
            type Dim = Dim<[usize; $n]>;
        }
    )*};
}
ndarray_dims!(0 1 2 3 4 5 6);

impl NdarrayDim for Ndim<DYNAMIC> {
    type Dim = IxDyn;
}

mod sealed {
    pub trait Sealed {}
    impl<const N: usize> Sealed for super::Ndim<N> {}
}

/// The type of `N` dimensions.
type DimOf<const N: usize> = <Ndim<N> as NdarrayDim>::Dim;

/// The result of a conversion to `DimOf<N>`, which cannot fail. `expect` would link `Debug` of the error.
#[inline]
fn fitting<T>(array: Result<T, Error>) -> T {
    array.unwrap_or_else(|_| unreachable!("the number of dimensions was checked"))
}

impl<T: Element, const N: usize, C> PyReadonlyTensor<'_, T, N, C>
where
    Ndim<N>: NdarrayDim,
{
    /// The elements as a view of ndarray, with any strides; an `ArrayViewD` if `N` is [`DYNAMIC`].
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
    #[inline]
    pub fn as_array(&self) -> ArrayView<'_, T, DimOf<N>> {
        fitting(self.view().try_into())
    }

    /// Checks that the bytes are values of the type, such as `bool`, and returns a view of ndarray.
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
    pub fn try_as_array(&self) -> PyResult<ArrayView<'_, T, DimOf<N>>> {
        Ok(fitting(self.try_view()?.try_into()))
    }
}

impl<T: Element, const N: usize, C> PyReadwriteTensor<'_, T, N, C>
where
    Ndim<N>: NdarrayDim,
{
    /// The elements as a view of ndarray, to write; an `ArrayViewMutD` if `N` is [`DYNAMIC`].
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
    #[inline]
    pub fn as_array_mut(&mut self) -> ArrayViewMut<'_, T, DimOf<N>> {
        fitting(self.view_mut().try_into())
    }

    /// Checks that the bytes are values of the type, such as `bool`, and returns a view of ndarray to write.
    ///
    /// # Errors
    /// As [`try_view`](Self::try_view).
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyReadwriteTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn invert(mut mask: PyReadwriteTensor<'_, bool, 2>) -> PyResult<()> {
    ///     mask.try_as_array_mut()?.map_inplace(|flag| *flag = !*flag);
    ///     Ok(())
    /// }
    /// ```
    pub fn try_as_array_mut(&mut self) -> PyResult<ArrayViewMut<'_, T, DimOf<N>>> {
        Ok(fitting(self.try_view_mut()?.try_into()))
    }
}
