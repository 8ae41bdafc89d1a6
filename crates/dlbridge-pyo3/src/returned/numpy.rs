//! Results that are NumPy arrays.

use std::fmt;
use std::marker::PhantomData;

use dlbridge::{Datetime64, Element, Error, Seconds, Tensor};
#[cfg(feature = "ndarray")]
use ndarray::{Array, ArrayD, Dim, Dimension};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::argument::{Accepts, AnyDataType, DYNAMIC};
use crate::borrow::Borrowed;
use crate::elements::Elements;
use crate::import::hub;
use crate::numpy::api::NumpyApi;
use crate::protocol::time;
use crate::python::error::{library, to_py_err};
use crate::tensor::PyTensor;

/// A result that is a `numpy.ndarray` in Python: write `-> Numpy<f64, 1>`.
///
/// `A` is the element type, [`OneOf`](crate::OneOf) several, or [`AnyDataType`]; `N` is the number of dimensions, or
/// [`DYNAMIC`]. `Numpy` without parameters is an array of any dtype with any number of dimensions.
///
/// The array owns the memory of the vector, array or tensor that it is made from, without a copy, and keeps its
/// strides. Python code may write its elements, unless the tensor is read-only. A result can be part of a tuple, a
/// `Vec`, an `Option`, a `PyResult`, and a struct that derives `IntoPyObject`.
///
/// # Errors
/// When the function returns: `ModuleNotFoundError` if NumPy is not installed, or the package `dlbridge` for a dtype that
/// NumPy lacks; `BufferError` for a tensor that NumPy
/// cannot import, and for read-only memory that is borrowed for writing.
///
/// ```no_run
/// use dlbridge_pyo3::{Numpy, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// /// The even and the odd elements of any framework's vector, as two arrays.
/// #[pyfunction]
/// fn split(x: PyReadonlyTensor<'_, f64, 1>) -> (Numpy<f64, 1>, Numpy<f64, 1>) {
///     let (even, odd) = x.iter().partition::<Vec<f64>, _>(|value| *value % 2.0 == 0.0);
///     (even.into(), odd.into())
/// }
/// ```
pub struct Numpy<A = AnyDataType, const N: usize = DYNAMIC> {
    source: Source,
    marker: PhantomData<fn() -> A>,
}

/// The memory of an array, before the array is made.
enum Source {
    Elements(Elements),
    Tensor(Tensor),
}

impl<A, const N: usize> Numpy<A, N> {
    fn new(tensor: impl Into<Tensor>) -> Self {
        Self { source: Source::Tensor(tensor.into()), marker: PhantomData }
    }

    pub(super) fn into_tensor(self) -> Result<Tensor, Error> {
        match self.source {
            Source::Elements(elements) => elements.into_tensor(),
            Source::Tensor(tensor) => Ok(tensor),
        }
    }
}

/// One dimension, without a copy.
impl<T: Element> From<Vec<T>> for Numpy<T, 1> {
    #[inline]
    fn from(elements: Vec<T>) -> Self {
        Self { source: Source::Elements(Elements::new(elements)), marker: PhantomData }
    }
}

/// A matrix of rows, without a copy.
impl<T: Element, const M: usize> From<Vec<[T; M]>> for Numpy<T, 2> {
    fn from(rows: Vec<[T; M]>) -> Self {
        Self::new(rows)
    }
}

/// Any strides, without a copy.
#[cfg(feature = "ndarray")]
impl<T: Element, const N: usize> From<Array<T, Dim<[usize; N]>>> for Numpy<T, N>
where
    Dim<[usize; N]>: Dimension,
{
    #[inline]
    fn from(array: Array<T, Dim<[usize; N]>>) -> Self {
        Self::of_array(array)
    }
}

/// Any strides, without a copy.
#[cfg(feature = "ndarray")]
impl<T: Element> From<ArrayD<T>> for Numpy<T, DYNAMIC> {
    fn from(array: ArrayD<T>) -> Self {
        Self::of_array(array)
    }
}

#[cfg(feature = "ndarray")]
impl<T: Element, const N: usize> Numpy<T, N> {
    #[inline]
    fn of_array<D: Dimension + 'static>(array: Array<T, D>) -> Self {
        match Elements::of_array(array) {
            Ok(elements) => Self { source: Source::Elements(elements), marker: PhantomData },
            Err(array) => Self::new(array),
        }
    }
}

/// The same array without dtype and dimensions in its type, for functions whose results differ in them.
impl<T: Element, const N: usize> From<Numpy<T, N>> for Numpy {
    fn from(typed: Numpy<T, N>) -> Self {
        const {
            assert!(
                T::TIME.is_none(),
                "an array without its element type loses the unit of time; return Numpy<T, N>"
            );
        }
        Self { source: typed.source, marker: PhantomData }
    }
}

/// One dimension, without a copy.
impl<T: Element> From<Vec<T>> for Numpy {
    fn from(elements: Vec<T>) -> Self {
        Numpy::<T, 1>::from(elements).into()
    }
}

/// Any strides, without a copy.
#[cfg(feature = "ndarray")]
impl<T: Element, D: Dimension + 'static> From<Array<T, D>> for Numpy {
    fn from(array: Array<T, D>) -> Self {
        Numpy::<T, DYNAMIC>::of_array(array).into()
    }
}

/// The errors are [`Error::DataType`] and [`Error::Ndim`], for a tensor with a different dtype or number of
/// dimensions. A tensor of times does not keep their unit, so it gets the unit in the type of the `Numpy`.
///
/// ```no_run
/// use dlbridge_pyo3::Numpy;
/// use dlbridge_pyo3::dlbridge::{Error, Tensor};
///
/// let matrix = Tensor::from_parts(vec![1.0, 2.0, 3.0, 4.0], [2, 2])?;
/// let matrix: Numpy<f64, 2> = matrix.try_into()?;
/// let error = Numpy::<f64, 2>::try_from(Tensor::from(vec![1.0])).unwrap_err();
/// assert_eq!(error, Error::Ndim { expected: 2, found: 1 });
/// # Ok::<(), Error>(())
/// ```
impl<A: Accepts, const N: usize> TryFrom<Tensor> for Numpy<A, N> {
    type Error = Error;

    fn try_from(tensor: Tensor) -> Result<Self, Error> {
        const {
            assert!(
                A::TIMES.len() <= 1,
                "a Tensor does not keep the unit of times; name one unit in the type of the Numpy"
            );
        }
        super::check::<A, N>(&tensor)?;
        Ok(Self::new(tensor))
    }
}

impl<'py, A: Accepts, const N: usize> IntoPyObject<'py> for Numpy<A, N> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    #[cfg(feature = "experimental-inspect")]
    const OUTPUT_TYPE: pyo3::inspect::PyStaticExpr = super::hint::Numpy::<A>::ARRAY;

    #[inline]
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let [name, ..] = A::TIMES {
            return array_of_times(py, self.into_tensor().map_err(to_py_err)?, name);
        }
        give_source(py, self.source)
    }
}

/// An array of points or spans of time.
pub(super) fn array_of_times<'py>(
    py: Python<'py>,
    times: Tensor,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let counts = give_numpy(py, time::counts_of_times(times)?)?;
    counts.call_method1(intern!(py, "view"), (name,))
}

impl<A, const N: usize> fmt::Debug for Numpy<A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, shape) = match &self.source {
            Source::Elements(elements) => (elements.dtype(), elements.axes().extents().to_vec()),
            Source::Tensor(tensor) => {
                (tensor.dtype(), tensor.shape().iter().map(|&extent| extent as isize).collect())
            }
        };
        f.debug_struct("Numpy").field("dtype", &dtype).field("shape", &shape).finish()
    }
}

/// Makes a NumPy array at once from everything that converts to a [`Tensor`]: vectors, nested arrays, ndarray arrays,
/// images, tensors.
///
/// A function that returns its array should return [`Numpy`] instead, which shows in its type.
pub trait IntoNumpy {
    /// The array, which owns the memory.
    ///
    /// # Errors
    /// As a function that returns a [`Numpy`]; and a `BufferError` for times, whose unit only [`Numpy`] keeps: make
    /// their array by `Numpy::<_, 1>::from(times).into_pyobject(py)?`.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::IntoNumpy;
    /// use pyo3::prelude::*;
    /// use pyo3::types::PyDict;
    ///
    /// #[pyfunction]
    /// fn counts(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    ///     let results = PyDict::new(py);
    ///     results.set_item("counts", vec![1_u32, 2, 3].into_numpy(py)?)?;
    ///     Ok(results)
    /// }
    /// ```
    fn into_numpy(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>>;
}

impl<T> IntoNumpy for T
where
    Tensor: From<T>,
{
    fn into_numpy(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        give_numpy(py, Tensor::from(self))
    }
}

/// A new tensor of our own as a NumPy array, made by NumPy's C API.
pub(crate) fn give_numpy(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let api = NumpyApi::known(py).filter(|_| !tensor.is_read_only());
    let tensor = match api {
        Some(api) => match api.array(py, tensor)? {
            Ok(array) => return Ok(array),
            Err(tensor) => tensor,
        },
        None => tensor,
    };
    give_numpy_slowly(py, tensor)
}

/// A NumPy array of the memory. Not inlined into the functions of an extension, which are many.
#[inline(never)]
fn give_source(py: Python<'_>, source: Source) -> PyResult<Bound<'_, PyAny>> {
    let elements = match source {
        Source::Elements(elements) => elements,
        Source::Tensor(tensor) => return give_numpy(py, tensor),
    };
    let elements = match NumpyApi::known(py) {
        Some(api) => match api.array_of_elements(py, elements)? {
            Ok(array) => return Ok(array),
            Err(elements) => elements,
        },
        None => elements,
    };
    give_numpy_slowly(py, elements.into_tensor().map_err(to_py_err)?)
}

/// As [`give_numpy`], for the first array of a process, read-only memory, and tensors that NumPy's
/// C API cannot wrap.
#[cold]
fn give_numpy_slowly(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    // Imports NumPy, or raises that it is not installed.
    library(py, "numpy", "numpy", "numpy")?;
    let api = NumpyApi::of_loaded(py)?;
    if let Some(most) = api.map(NumpyApi::max_ndim).filter(|&most| most < tensor.ndim()) {
        return Err(PyBufferError::new_err(format!(
            "numpy takes at most {most} dimensions, not {}; reshape the tensor first",
            tensor.ndim()
        )));
    }
    if tensor.dtype() == Datetime64::<Seconds>::DATA_TYPE {
        return Err(PyBufferError::new_err(
            "numpy does not support handle64; if the elements are times, return Numpy<Datetime64<U>, N>, whose type has the unit \
             that a Tensor does not keep",
        ));
    }
    let api = api.filter(|api| api.has(&tensor));
    let general = |tensor| hub::converted(py, PyTensor::from(tensor), "numpy");
    let Some(api) = api else { return general(tensor) };
    let tensor = match tensor.is_read_only() {
        true => Borrowed::read_only(&tensor.into_shared())?,
        false => tensor,
    };
    api.array(py, tensor)?.or_else(general)
}
