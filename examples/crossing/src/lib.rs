//! Passes a picture through image, ndarray, candle, ONNX Runtime, Arrow and NumPy, without a copy.

use std::path::PathBuf;
use std::sync::OnceLock;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use dlbridge::Tensor;
use dlbridge_arrow::{ArrayExt, TensorExt as _};
use dlbridge_candle::{CandleExt, TensorExt as _};
use dlbridge_ort::{TensorExt as _, ValueExt};
use dlbridge_pyo3::IntoNumpy;
use image::{ImageBuffer, Rgb};
use ndarray::ArrayViewMutD;
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

/// A library, the address of the numbers in it, and a description of the step.
type Step = (&'static str, usize, String);

/// The steps so far. Each step compares its address with the one before.
struct Way(Vec<Step>);

impl Way {
    /// Adds a step that keeps the memory, unless it copies.
    fn moved(&mut self, library: &'static str, address: usize, what: &str) {
        self.step(library, address, "a copy", what);
    }

    /// Adds a step that computes new numbers, unless it returns its input.
    fn computed(&mut self, library: &'static str, address: usize, what: &str) {
        self.step(library, address, "a result", what);
    }

    fn step(&mut self, library: &'static str, address: usize, elsewhere: &str, what: &str) {
        let words = match self.0.last() {
            None => what.to_owned(),
            Some((_, before, _)) if *before == address => format!("the same memory: {what}"),
            Some(_) => format!("{elsewhere}: {what}"),
        };
        self.0.push((library, address, words));
    }
}

/// Passes a picture through all libraries, with a model that takes and returns planes of colour. Each value `v` becomes
/// `2 * (0.5 * (v + 0.25) + 1)`.
#[pyfunction]
fn cross<'py>(
    py: Python<'py>,
    width: u32,
    height: u32,
    model: &[u8],
) -> PyResult<(Vec<Step>, Bound<'py, PyAny>)> {
    let mut way = Way(Vec::new());
    let tensor = through(width, height, model, &mut way)
        .map_err(|e| PyValueError::new_err(e.to_string()))?;
    let array = tensor.into_numpy(py)?;
    let address = array.getattr("ctypes")?.getattr("data")?.extract()?;
    way.moved("NumPy", address, "an array");
    Ok((way.0, array))
}

fn through(
    width: u32,
    height: u32,
    model: &[u8],
    way: &mut Way,
) -> Result<Tensor, Box<dyn std::error::Error>> {
    let picture = ImageBuffer::from_fn(width, height, |x, y| {
        Rgb([x as f32 / width as f32, y as f32 / height as f32, 0.5])
    });
    way.moved("image", picture.as_ptr().addr(), "the picture, in a Vec");

    let mut tensor = Tensor::from(picture);
    let mut array: ArrayViewMutD<'_, f32> = tensor.view_mut::<f32>()?.try_into()?;
    array += 0.25;
    way.moved("ndarray", array.as_ptr().addr(), "brightened");

    let pixels = tensor.into_candle()?;
    let address = pixels.clone().into_tensor()?.data().addr();
    way.moved("candle", address, "rows of pixels");
    let planes = pixels.permute((2, 0, 1))?.affine(0.5, 1.0)?;
    let planes = planes.into_tensor()?;
    way.computed("candle", planes.data().addr(), "planes of colour, scaled");

    let environment =
        ENVIRONMENT.get().ok_or_else(|| PyRuntimeError::new_err("call open_library first"))?;
    let mut session = Session::builder(environment)?.commit_from_memory(model)?;
    // SAFETY: nothing writes to a value that the session returns.
    let input = unsafe { planes.into_input() }?;
    let address = input.as_value().try_extract_tensor::<f32>()?.1.as_ptr().addr();
    way.moved("ONNX Runtime", address, "the session's input");
    let outputs = session.run(ort::inputs![&input])?;
    let (_, output) = outputs.into_iter().next().ok_or("the model returned no output")?;
    // SAFETY: the session has neither a binding nor a preallocated output, the other outputs are dropped, and neither
    // `input` nor a value over its memory is written.
    let output = unsafe { output.into_tensor() }?;
    way.computed("ONNX Runtime", output.data().addr(), "the model's output");

    // Arrow keeps slices of the memory, and refuses a tensor that other code may write.
    // SAFETY: nothing writes the memory until the array is dropped: the session does not run again, and neither `input`
    // nor a value over the memory is written.
    let array = unsafe { output.assume_immutable() }.into_array()?;
    way.moved("Arrow", address_of(&array), "lists of lists");
    Ok(array.into_tensor()?)
}

/// Returns the address of the numbers in nested lists.
fn address_of(array: &ArrayRef) -> usize {
    match array.as_fixed_size_list_opt() {
        Some(lists) => address_of(lists.values()),
        None => array.as_primitive::<Float32Type>().values().as_ptr().addr(),
    }
}

/// The extension module of the package `crossing`.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use super::{cross, open_library};
}
