//! Results that are PyTorch tensors.

use std::fmt;
use std::marker::PhantomData;

use dlbridge::{Element, Error, Tensor};
#[cfg(feature = "ndarray")]
use ndarray::{Array, ArrayD, Dim, Dimension};
use pyo3::prelude::*;

use crate::argument::{Accepts, AnyDataType, DYNAMIC};
use crate::{PyTensor, to_library};

/// A result that is a `torch.Tensor` in Python: write `-> Torch<f32, 2>`.
///
/// Like [`Numpy`](crate::Numpy), for PyTorch: the tensor owns the memory, without a copy. PyTorch supports neither
/// read-only tensors nor negative strides, so it gets a copy of such data.
///
/// # Errors
/// When the function returns: `ModuleNotFoundError` if PyTorch is not installed; `BufferError` for a tensor that
/// PyTorch cannot import; any exception of PyTorch.
///
/// ```no_run
/// use dlbridge_pyo3::Torch;
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn ramp(n: u16) -> Torch<f32, 1> {
///     (0..n).map(f32::from).collect::<Vec<_>>().into()
/// }
/// ```
pub struct Torch<A = AnyDataType, const N: usize = DYNAMIC> {
    tensor: Tensor,
    marker: PhantomData<fn() -> A>,
}

impl<A, const N: usize> Torch<A, N> {
    fn new(tensor: impl Into<Tensor>) -> Self {
        Self { tensor: tensor.into(), marker: PhantomData }
    }
}

/// One dimension, without a copy.
impl<T: Element> From<Vec<T>> for Torch<T, 1> {
    fn from(elements: Vec<T>) -> Self {
        Self::new(elements)
    }
}

/// Any strides; PyTorch gets a copy if some are negative.
#[cfg(feature = "ndarray")]
impl<T: Element, const N: usize> From<Array<T, Dim<[usize; N]>>> for Torch<T, N>
where
    Dim<[usize; N]>: Dimension,
{
    fn from(array: Array<T, Dim<[usize; N]>>) -> Self {
        Self::new(array)
    }
}

/// Any strides; PyTorch gets a copy if some are negative.
#[cfg(feature = "ndarray")]
impl<T: Element> From<ArrayD<T>> for Torch<T, DYNAMIC> {
    fn from(array: ArrayD<T>) -> Self {
        Self::new(array)
    }
}

/// The errors are [`Error::DataType`] and [`Error::Ndim`], for a tensor with a different dtype or number of
/// dimensions.
impl<A: Accepts, const N: usize> TryFrom<Tensor> for Torch<A, N> {
    type Error = Error;

    fn try_from(tensor: Tensor) -> Result<Self, Error> {
        super::check::<A, N>(&tensor)?;
        Ok(Self::new(tensor))
    }
}

impl<'py, A: Accepts, const N: usize> IntoPyObject<'py> for Torch<A, N> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    #[cfg(feature = "experimental-inspect")]
    const OUTPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_identifier!("torch", "Tensor");

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_library::give(py, PyTensor::from(self.tensor), &to_library::TORCH)
    }
}

impl<A, const N: usize> fmt::Debug for Torch<A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Torch").field(&self.tensor).finish()
    }
}
