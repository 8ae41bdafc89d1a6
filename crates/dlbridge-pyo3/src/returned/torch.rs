//! Results that are PyTorch tensors.

use std::fmt;
use std::marker::PhantomData;

use dlbridge::{DataType, Device, Element, Error, Tensor};
#[cfg(feature = "ndarray")]
use ndarray::{Array, ArrayD, Dim, Dimension};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::argument::{Accepts, AnyDataType, DYNAMIC};
use crate::import::hub;
use crate::protocol::exchange_api::Table;
use crate::python::error::library;
use crate::python::objects::loaded_class;
use crate::python::objects::once;
use crate::tensor::PyTensor;

/// A result that is a `torch.Tensor` in Python: write `-> Torch<f32, 2>`.
///
/// Like [`Numpy`](crate::Numpy), for PyTorch: the tensor owns the memory, without a copy. PyTorch supports neither
/// read-only tensors nor negative strides, so it gets a copy of such data.
///
/// # Errors
/// When the function returns: `ModuleNotFoundError` if PyTorch is not installed, or the package `dlbridge` for a tensor
/// that PyTorch does not share as it is; `BufferError` for a tensor that
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
        give_torch(py, PyTensor::from(self.tensor))
    }
}

impl<A, const N: usize> fmt::Debug for Torch<A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Torch").field(&self.tensor).finish()
    }
}

/// The class of PyTorch's tensors, and its table; older releases have none.
struct TorchClass {
    class: Py<PyType>,
    table: Option<Table>,
}

static CLASS: PyOnceLock<TorchClass> = PyOnceLock::new();

impl TorchClass {
    fn known(class: Bound<'_, PyType>) -> PyResult<&'static Self> {
        let py = class.py();
        once(&CLASS, py, || Ok(Self { table: Table::of_type(&class)?, class: class.unbind() }))
    }
}

/// Returns true for an object of exactly PyTorch's class.
pub(super) fn is_torch(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let known = match CLASS.get(py) {
        Some(known) => known,
        None => match loaded_class(py, "torch", "Tensor")? {
            Some(class) => TorchClass::known(class)?,
            None => return Ok(false),
        },
    };
    Ok(object.get_type_ptr().cast() == known.class.as_ptr())
}

/// A tensor as PyTorch's. Its table gets a tensor that PyTorch shares as it is; the package makes all others.
pub(super) fn give_torch(py: Python<'_>, tensor: PyTensor) -> PyResult<Bound<'_, PyAny>> {
    let known = match CLASS.get(py) {
        Some(known) => known,
        None => {
            let torch = library(py, "torch", "torch", "torch")?;
            TorchClass::known(torch.getattr(intern!(py, "Tensor"))?.cast_into()?)?
        }
    };
    let Some(table) = known.table.filter(|_| is_shared(&tensor)) else {
        return hub::converted(py, tensor, "torch");
    };
    match tensor.into_tensor() {
        Ok(tensor) => table.give(py, tensor),
        Err(tensor) => hub::converted(py, tensor, "torch"),
    }
}

/// Returns true for a tensor that PyTorch shares as it is.
fn is_shared(tensor: &PyTensor) -> bool {
    use DataType as D;
    const SHARED: [DataType; 11] = [
        D::FLOAT32,
        D::FLOAT64,
        D::INT64,
        D::INT32,
        D::UINT8,
        D::INT8,
        D::INT16,
        D::FLOAT16,
        D::BFLOAT16,
        D::COMPLEX64,
        D::COMPLEX128,
    ];
    let this = tensor.tensor();
    SHARED.contains(&this.dtype())
        && this.device() == Device::CPU
        && this.ndim() <= 64
        && !tensor.is_read_only()
        && this.strides().iter().all(|&stride| stride >= 0)
}
