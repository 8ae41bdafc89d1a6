//! ONNX Runtime models on tensors of any framework, without copies of inputs and outputs.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use dlbridge_ort::{TensorExt, ValueExt};
use dlbridge_pyo3::{PyTensor, import};
use ort::environment::Environment;
use ort::session::Session;
use pyo3::exceptions::{PyImportError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// The environment of all sessions. It stays until the process ends.
static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();

/// Opens the ONNX Runtime library at a path.
#[pyfunction]
fn open_library(path: PathBuf) -> PyResult<()> {
    if ENVIRONMENT.get().is_some() {
        return Ok(());
    }
    let builder = ort::init_from(path).map_err(|e| PyImportError::new_err(e.to_string()))?;
    let environment = builder.with_telemetry(false).build();
    let environment = environment.map_err(|e| PyImportError::new_err(e.to_string()))?;
    ENVIRONMENT.get_or_init(|| environment);
    Ok(())
}

/// A model of one input and one output, from the bytes of an ONNX file.
#[pyclass(frozen)]
struct Model(Mutex<Session>);

#[pymethods]
impl Model {
    #[new]
    fn new(model: &[u8]) -> PyResult<Self> {
        let environment =
            ENVIRONMENT.get().ok_or_else(|| PyRuntimeError::new_err("call open_library first"))?;
        let refused = |e: ort::Error| PyValueError::new_err(e.to_string());
        let mut builder = Session::builder(environment).map_err(refused)?;
        let session = builder.commit_from_memory(model).map_err(refused)?;
        Ok(Self(Mutex::new(session)))
    }

    /// Runs the model on a tensor in C order, which it reads without a copy. Other threads can run Python meanwhile.
    fn __call__(&self, x: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        // SAFETY: this code does not write to a value that the session returns, and if an output is the input, its
        // tensor has the input's access.
        let input = unsafe { import(x)?.into_input() };
        let input = input.map_err(|e| PyValueError::new_err(e.to_string()))?;
        let output = x.py().detach(|| {
            let mut session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let outputs = session
                .run(ort::inputs![&input])
                .map_err(|e| PyValueError::new_err(e.to_string()))?;
            let output = outputs.into_iter().next();
            let (_, output) =
                output.ok_or_else(|| PyValueError::new_err("the model returned no output"))?;
            // SAFETY: `Model` makes no binding and preallocates no output, and this run's other outputs are dropped. A
            // model that returns its input returns it only as this output, and `input` is not written.
            unsafe { output.into_tensor() }.map_err(|e| PyValueError::new_err(e.to_string()))
        });
        output.map(PyTensor::from)
    }
}

/// The extension module of the package `onnx_session`.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use super::{Model, open_library};
}
