//! Pickling: exports the elements as a buffer, which protocol 5 can pass on without a copy, and restores them.

use dlbridge::{DataType, DataTypeCode};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::to_py_err;
use crate::functions::expect_extents;
use crate::import_options::ImportOptions;
use crate::order::Order;
use crate::protocol::buffer;
use crate::reexport::{self, byte_count};
use crate::{COrder, PyReadonlyTensor, PyReadwriteTensor, PyTensor, copies};

/// The result for pickle: a function and its arguments. The elements are in C order.
pub(crate) fn reduce<'py>(
    tensor: &Bound<'py, PyTensor>,
    protocol: i32,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
    let py = tensor.py();
    if !tensor.get().tensor().device().device_type().is_host_accessible() {
        return Err(PyBufferError::new_err(format!(
            "the data is on {} and cannot be pickled; move it to the CPU first",
            tensor.get().tensor().device()
        )));
    }
    if tensor.get().tensor().dtype().code() == DataTypeCode::OPAQUE_HANDLE {
        return Err(PyBufferError::new_err(
            "handles are not valid in another process, so they cannot be pickled",
        ));
    }
    let options = ImportOptions { order: Order::C, ..ImportOptions::default() };
    let contiguous = PyTensor::import(tensor.as_any(), &options)?;
    let this = contiguous.get();
    let (dtype, padded) = (this.tensor().dtype(), this.tensor().is_subbyte_padded());
    let shape = PyTuple::new(py, this.tensor().shape())?;
    let count = byte_count(dtype, this.tensor().len(), padded);
    let count = usize::try_from(count)
        .map_err(|_| PyBufferError::new_err("the tensor has too many bytes"))?;
    let bytes = (DataType::UINT8, false);
    let bytes = reexport::with_shape(this.tensor(), this.is_read_only(), bytes, &[count]);
    let bytes = Bound::new(py, PyTensor::from(bytes.map_err(to_py_err)?))?;
    let bytes = match protocol {
        5.. => {
            let pickle = py.import(intern!(py, "pickle"))?;
            pickle.getattr(intern!(py, "PickleBuffer"))?.call1((bytes,))?
        }
        _ => buffer::to_bytearray(py, bytes.get().tensor())?.into_any(),
    };
    let rebuild = py.import(intern!(py, "dlbridge._core"))?.getattr(intern!(py, "_rebuild"))?;
    Ok((rebuild, (bytes, dtype.to_string(), shape, padded).into_pyobject(py)?))
}

/// Restore a tensor from its pickled parts.
#[pyfunction]
#[pyo3(name = "_rebuild")]
pub(crate) fn rebuild<'py>(
    data: &Bound<'py, PyAny>,
    dtype: &str,
    shape: &Bound<'py, PyAny>,
    padded: bool,
) -> PyResult<Bound<'py, PyTensor>> {
    let py = data.py();
    let shape = expect_extents(shape)?;
    let bytes = PyTensor::import(data, &ImportOptions::default())?;
    let this = bytes.get();
    let tensor = dtype.parse().and_then(|dtype: DataType| {
        reexport::with_shape(this.tensor(), this.is_read_only(), (dtype, padded), &shape)
    });
    let tensor = tensor.map_err(|error| {
        PyValueError::new_err(format!(
            "these bytes are not a tensor of {dtype} with the shape {shape:?}: {error}"
        ))
    })?;
    Bound::new(py, this.with_tensor(tensor))
}

/// Copy bytes to other memory of the same length, while other threads run.
#[pyfunction]
#[pyo3(name = "_copy")]
pub(crate) fn copy_bytes(
    mut target: PyReadwriteTensor<'_, u8, 1, COrder>,
    source: PyReadonlyTensor<'_, u8, 1, COrder>,
) -> PyResult<()> {
    let (target, source) = (target.as_tensor_ref_mut(), source.as_tensor_ref());
    copies::detached(source.len(), |_| target.copy_from(&source).map(Some))
}
