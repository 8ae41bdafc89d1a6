//! Decodes and encodes pictures, and exports them to Python as tensors.

use std::io;
use std::path::{Path, PathBuf};

use dlbridge::{DataType, Tensor, TensorView};
use dlbridge_pyo3::PyTensor;
use image::{ImageBuffer, ImageError, ImageFormat, Rgb};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Decodes a picture into uint8 pixels of shape [height, width, 3].
///
/// The tensor owns the pixels; a library that imports it through DLPack uses the same memory.
#[pyfunction]
fn load(py: Python<'_>, path: PathBuf) -> PyResult<PyTensor> {
    let picture = py.detach(|| image::open(&path)).map_err(|error| in_file(&path, error))?;
    Ok(Tensor::from(picture.into_rgb8()).into())
}

/// Writes uint8 pixels of shape [height, width, 3] as PNG, and returns the address that they were
/// read from.
///
/// Contiguous pixels are encoded without a copy. Others (a flipped picture, a crop of a larger one)
/// are copied first, because a PNG is written row by row.
// Python stays attached meanwhile: no Python code can write the pixels while they are read.
#[pyfunction]
fn save(pixels: &Bound<'_, PyAny>, path: PathBuf) -> PyResult<usize> {
    let tensor = dlbridge_pyo3::import(pixels)?;
    let view = as_pixels(&tensor)?;
    let address = view.as_ptr().addr();
    if view.as_slice().is_some() {
        write_png(view, &path)?;
    } else {
        let gathered = tensor.to_copy()?;
        write_png(as_pixels(&gathered)?, &path)?;
    }
    Ok(address)
}

/// Returns the pixels of a picture, or an error that says what is wrong with them.
fn as_pixels(tensor: &Tensor) -> PyResult<TensorView<'_, u8>> {
    let (dtype, shape) = (tensor.dtype(), tensor.shape());
    if dtype != DataType::UINT8 || !matches!(shape, [_, _, 3]) {
        return Err(PyValueError::new_err(format!(
            "expected uint8 pixels of shape [height, width, 3], found {dtype} of shape {shape:?}"
        )));
    }
    Ok(tensor.view()?)
}

/// Encodes contiguous pixels without a copy.
fn write_png(pixels: TensorView<'_, u8>, path: &Path) -> PyResult<()> {
    let picture = ImageBuffer::<Rgb<u8>, &[u8]>::try_from(pixels)?;
    picture.save_with_format(path, ImageFormat::Png).map_err(|error| in_file(path, error))
}

/// Makes the exception for a file: the `OSError` that fits, or a `ValueError` for bad content.
fn in_file(path: &Path, error: ImageError) -> PyErr {
    let text = format!("{}: {error}", path.display());
    match error {
        ImageError::IoError(error) => io::Error::new(error.kind(), text).into(),
        _ => PyValueError::new_err(text),
    }
}

/// The extension module of the package `image_pipeline`.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use super::{load, save};
}
