//! Models run by ONNX Runtime on tensors of any framework: nothing that goes in or comes out is copied.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use dlbridge_ort::{TensorExt, ValueExt};
use dlbridge_pyo3::{PyTensor, import};
use ort::environment::Environment;
use ort::session::Session;
use pyo3::exceptions::{PyImportError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// The environment that all sessions are in. It stays until the process ends.
static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();

/// Opens the library of ONNX Runtime at a path.
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
            ENVIRONMENT.get().ok_or_else(|| PyRuntimeError::new_err("open_library comes first"))?;
        let refused = |e: ort::Error| PyValueError::new_err(e.to_string());
        let mut builder = Session::builder(environment).map_err(refused)?;
        let session = builder.commit_from_memory(model).map_err(refused)?;
        Ok(Self(Mutex::new(session)))
    }

    /// What the model makes of a tensor in C order, which it reads where it is. Other threads run Python meanwhile.
    fn __call__(&self, x: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        // SAFETY: no value that the session returns is written here, and the tensor of an output that is the input has the input's
        // access.
        let input = unsafe { import(x)?.into_input() };
        let input = input.map_err(|e| PyValueError::new_err(e.to_string()))?;
        let output = x.py().detach(|| {
            let mut session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let outputs = session
                .run(ort::inputs![&input])
                .map_err(|e| PyValueError::new_err(e.to_string()))?;
            let output = outputs.into_iter().next();
            let (_, output) =
                output.ok_or_else(|| PyValueError::new_err("the model has no output"))?;
            // SAFETY: `Model` makes no binding and preallocates nothing, and this run's other outputs are dropped. A model that
            // returns its input returns it as this output only, and `input` is not written.
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
