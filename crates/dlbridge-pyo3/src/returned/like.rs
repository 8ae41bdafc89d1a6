//! Results of the library that an argument is of.

use dlbridge::Tensor;
use pyo3::prelude::*;

use crate::PyTensor;

/// A result of the same library as an argument: callers that pass tensors of PyTorch get a tensor of PyTorch.
///
/// Typed arguments make it by their method `like`, and [`Like::new`] makes it for any other object. The memory is
/// shared, as [`PyTensor::into_like`] does it.
///
/// # Errors
/// When the function returns: as [`PyTensor::into_like`].
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
    likeness: Bound<'py, PyAny>,
    tensor: Tensor,
}

impl<'py> Like<'py> {
    /// A result of the library that `likeness` is of, from a tensor or anything that a [`Tensor`] is made from.
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
    pub fn new<S>(likeness: &Bound<'py, PyAny>, source: S) -> Self
    where
        Tensor: From<S>,
    {
        Self { likeness: likeness.clone(), tensor: Tensor::from(source) }
    }
}

impl<'py> IntoPyObject<'py> for Like<'py> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    #[cfg(feature = "experimental-inspect")]
    const OUTPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_identifier!("typing", "Any");

    fn into_pyobject(self, _: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PyTensor::from(self.tensor).into_like(&self.likeness)
    }
}
