//! Decodes and encodes pictures, and exports them to Python as tensors.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

use dlbridge::{DataType, Tensor, TensorView};
use dlbridge_pyo3::PyTensor;
use png::{ColorType, Decoder, Encoder, Transformations};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Decodes a PNG of RGB colours into uint8 pixels of shape [height, width, 3].
///
/// The tensor owns the pixels; a library that imports it through DLPack uses the same memory.
#[pyfunction]
fn load(py: Python<'_>, path: PathBuf) -> PyResult<PyTensor> {
    let (pixels, shape) = py.detach(|| read_png(&path)).map_err(|error| in_file(&path, error))?;
    Ok(Tensor::from_parts(pixels, shape)?.into())
}

/// Returns the pixels, and their height, width and number of colours.
fn read_png(path: &Path) -> io::Result<(Vec<u8>, [usize; 3])> {
    let mut decoder = Decoder::new(BufReader::new(File::open(path)?));
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info()?;
    let bytes = reader.output_buffer_size().ok_or(ErrorKind::OutOfMemory)?;
    let mut pixels = vec![0; bytes];
    let info = reader.next_frame(&mut pixels)?;
    if info.color_type != ColorType::Rgb {
        return Err(io::Error::other(format!("expected RGB pixels, found {:?}", info.color_type)));
    }
    Ok((pixels, [info.height as usize, info.width as usize, 3]))
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
    match view.as_slice() {
        Some(contiguous) => write_png(contiguous, view.shape(), &path)?,
        None => write_png(&view.iter().copied().collect::<Vec<_>>(), view.shape(), &path)?,
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

/// Encodes contiguous pixels.
fn write_png(pixels: &[u8], shape: &[i64], path: &Path) -> PyResult<()> {
    let (height, width) = (u32::try_from(shape[0])?, u32::try_from(shape[1])?);
    let write = || -> io::Result<()> {
        let mut encoder = Encoder::new(BufWriter::new(File::create(path)?), width, height);
        encoder.set_color(ColorType::Rgb);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(pixels)?;
        Ok(writer.finish()?)
    };
    write().map_err(|error| in_file(path, error))
}

/// Makes the exception for a file: the `OSError` that fits, or a `ValueError` for bad content.
fn in_file(path: &Path, error: io::Error) -> PyErr {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        ErrorKind::Other => PyValueError::new_err(text),
        kind => io::Error::new(kind, text).into(),
    }
}

/// The extension module.
#[pymodule(gil_used = true)]
mod image_pipeline {
    #[pymodule_export]
    use super::{load, save};
}
