//! Functions that try several argument types, one after the other.

use dlbridge_pyo3::dlbridge::{Datetime64, Nanoseconds};
use dlbridge_pyo3::{
    AllowSequence, DefaultStream, OnCuda, PyDeviceTensor, PyReadonlyTensor, PyReadwriteTensor,
};
use pyo3::prelude::*;

#[pyfunction]
pub(crate) fn dimensions(x: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    if PyReadonlyTensor::<f64, 1>::try_extract(x)?.is_some() {
        return Ok(Some(1));
    }
    Ok(PyReadonlyTensor::<f64, 2>::try_extract(x)?.map(|_| 2))
}

/// Which of two argument types an object fits; `times_first` says which is tried first.
#[pyfunction]
pub(crate) fn numbers_or_times(
    x: &Bound<'_, PyAny>,
    times_first: bool,
) -> PyResult<Option<&'static str>> {
    for times in [times_first, !times_first] {
        let (fits, name) = match times {
            true => {
                let x = PyReadonlyTensor::<Datetime64<Nanoseconds>, 1>::try_extract(x)?;
                (x.is_some(), "times")
            }
            false => (PyReadonlyTensor::<f64, 1>::try_extract(x)?.is_some(), "numbers"),
        };
        if fits {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Clears an object if it is a writable vector, and returns whether it is.
#[pyfunction]
pub(crate) fn try_write(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Some(mut x) = PyReadwriteTensor::<f64, 1>::try_extract(x)? else { return Ok(false) };
    x.view_mut().into_iter().for_each(|value| *value = 0.0);
    Ok(true)
}

/// The elements of a vector of integers, or of a list that can be converted to one.
#[pyfunction]
pub(crate) fn try_list(x: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    let x = PyReadonlyTensor::<u8, 1, AllowSequence>::try_extract(x)?;
    Ok(x.map(|x| x.iter().copied().collect()))
}

#[pyfunction]
pub(crate) fn try_device(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(PyDeviceTensor::<f64, 1, DefaultStream, OnCuda>::try_extract(x)?.is_some())
}

/// A vector or a matrix or a number, which PyO3 tries in this order.
#[derive(FromPyObject)]
pub(crate) enum Either<'py> {
    Vector(PyReadonlyTensor<'py, f64, 1, AllowSequence>),
    Matrix(PyReadonlyTensor<'py, f32, 2, AllowSequence>),
    Number(f64),
}

#[pyfunction]
pub(crate) fn either(x: Either<'_>) -> (&'static str, f64) {
    match x {
        Either::Vector(x) => ("vector", x.iter().sum()),
        Either::Matrix(x) => ("matrix", x.iter().copied().map(f64::from).sum()),
        Either::Number(x) => ("number", x),
    }
}

#[pyfunction]
#[pyo3(signature = (x=None, scale=1.0))]
pub(crate) fn default_or_sum(
    x: Option<PyReadonlyTensor<'_, f64, 1, AllowSequence>>,
    scale: f64,
) -> f64 {
    x.map_or(scale, |x| scale * x.iter().sum::<f64>())
}

#[pyfunction]
pub(crate) fn refusals(x: &Bound<'_, PyAny>) -> PyResult<(bool, bool)> {
    let extracted = x.extract::<PyReadonlyTensor<'_, f64, 1>>().is_err();
    Ok((extracted, PyReadonlyTensor::<f64, 1>::try_extract(x)?.is_none()))
}

/// The message of a refusal as Rust reads it, and the exception that it is converted to.
#[pyfunction]
pub(crate) fn refusal(x: &Bound<'_, PyAny>) -> Option<(String, String, PyErr)> {
    let error = x.extract::<PyReadonlyTensor<'_, f64, 1>>().err()?;
    Some((error.to_string(), format!("{error:?}"), error.into()))
}

/// Shares the borrow registry, as an extension may do when it is imported.
#[pyfunction]
pub(crate) fn share_borrows(py: Python<'_>) -> PyResult<()> {
    dlbridge_pyo3::share_borrows(py)
}
