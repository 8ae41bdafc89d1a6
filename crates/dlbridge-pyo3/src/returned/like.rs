//! Results in the library of an argument.

use dlbridge::{Element, Error, Tensor};
use pyo3::prelude::*;

use super::numpy::{Numpy, array_of_times};
use crate::argument::{PyDeviceTensor, PyReadonlyTensor, PyReadwriteTensor};
use crate::import::hub;
use crate::protocol::type_info;
use crate::python::error::to_py_err;
use crate::tensor::PyTensor;

/// A result of the same library as an argument: a caller that passes PyTorch tensors gets a PyTorch tensor.
///
/// The method `like` of typed arguments makes it, and [`Like::new`] makes it for any other object. The memory is
/// shared, as by [`dlbridge.like`](https://pypi.org/project/dlbridge). For bytes, bytearrays and similar objects the result is a
/// memoryview, and for an object of an unknown library a `dlbridge.Tensor`. Other libraries than NumPy and PyTorch need the
/// Python package `dlbridge`.
///
/// # Errors
/// When the function returns: `ModuleNotFoundError` without that package; `BufferError` for a tensor that the library
/// cannot import; any exception of the library.
///
/// ```no_run
/// use dlbridge_pyo3::{Like, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn twice<'py>(x: PyReadonlyTensor<'py, f32, 1>) -> Like<'py> {
///     x.like(x.iter().map(|value| 2.0 * value).collect::<Vec<_>>())
/// }
/// ```
#[derive(Debug)]
pub struct Like<'py> {
    prototype: Bound<'py, PyAny>,
    tensor: Result<Tensor, Error>,
    /// NumPy's name for the elements, if they are times.
    times: Option<&'static str>,
}

impl<'py> Like<'py> {
    /// A result of `prototype`'s library, from a tensor or anything that converts to a [`Tensor`].
    ///
    /// ```no_run
    /// use dlbridge_pyo3::Like;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn zeros_like<'py>(x: &Bound<'py, PyAny>) -> PyResult<Like<'py>> {
    ///     Ok(Like::new(x, vec![0.0; x.len()?]))
    /// }
    /// ```
    pub fn new<S>(prototype: &Bound<'py, PyAny>, source: S) -> Self
    where
        Tensor: From<S>,
    {
        Self { prototype: prototype.clone(), tensor: Ok(Tensor::from(source)), times: None }
    }

    /// A result of points or spans of time, which keeps their unit: a column of pandas, polars or pyarrow if
    /// `prototype` is of these, or else a NumPy array.
    ///
    /// # Errors
    /// When the function returns: `BufferError` for a unit that the library lacks, with the units that it has. polars has
    /// days, and milliseconds to nanoseconds; pyarrow also seconds. pandas has seconds to nanoseconds, and stores other
    /// units, such as days, as seconds.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::dlbridge::{Datetime64, Microseconds};
    /// use dlbridge_pyo3::{Like, Numpy, PyReadonlyTensor};
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn reversed<'py>(x: PyReadonlyTensor<'py, Datetime64<Microseconds>, 1>) -> Like<'py> {
    ///     let mut times = x.view().to_vec();
    ///     times.reverse();
    ///     Like::times(x.object(), Numpy::<_, 1>::from(times))
    /// }
    /// ```
    pub fn times<T: Element, const N: usize>(
        prototype: &Bound<'py, PyAny>,
        times: Numpy<T, N>,
    ) -> Self {
        const { assert!(T::TIME.is_some(), "the elements are not times; return Like::new") };
        Self { prototype: prototype.clone(), tensor: times.into_tensor(), times: T::TIME }
    }
}

/// Adds the method `like` to a typed argument. The parameters are the type and its generics after the number of
/// dimensions.
macro_rules! like {
    ($name:ident, $($more:ident),+) => {
        impl<'py, A, const N: usize, $($more),+> $name<'py, A, N, $($more),+> {
            /// A result of the argument's library, from a tensor or anything that converts to a `Tensor`.
            ///
            /// ```no_run
            /// use dlbridge_pyo3::Like;
            ///
            #[doc = concat!("fn half<'py>(x: dlbridge_pyo3::", stringify!($name), "<'py, f32, 1>) -> Like<'py> {")]
            ///     x.like(vec![0.5_f32; x.len()])
            /// }
            /// ```
            pub fn like<V>(&self, values: V) -> Like<'py>
            where
                Tensor: From<V>,
            {
                Like::new(self.object(), values)
            }
        }
    };
}

like!(PyReadonlyTensor, C);
like!(PyReadwriteTensor, C);
like!(PyDeviceTensor, S, C);

impl<'py> IntoPyObject<'py> for Like<'py> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    #[cfg(feature = "experimental-inspect")]
    const OUTPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_identifier!("typing", "Any");

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.tensor.map_err(to_py_err)?;
        let Some(name) = self.times else {
            return PyTensor::from(tensor).into_like(&self.prototype);
        };
        let array = array_of_times(py, tensor, name)?;
        match type_info::of(&self.prototype)?.borrowed.numpy_array {
            true => Ok(array),
            false => hub::like_times(&self.prototype, array),
        }
    }
}
