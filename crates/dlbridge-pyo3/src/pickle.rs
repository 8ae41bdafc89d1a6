//! Pickling: the elements as a buffer, which protocol 5 can pass on without a copy, and the way back.

use std::sync::Arc;

use dlbridge::{Access, DataType, RawParts, Tensor};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyTuple};

use crate::PyTensor;
use crate::error::to_py_err;
use crate::live::Export;
use crate::wanted::{Order, Wanted};

/// What pickle asks for: a function and its arguments. The elements are in C order.
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
    let wanted = Wanted { contiguous: Some(Order::C), ..Wanted::default() };
    let contiguous = PyTensor::import(tensor.as_any(), &wanted)?;
    let this = contiguous.get();
    let (dtype, padded) = (this.tensor().dtype(), this.tensor().is_subbyte_padded());
    let shape = PyTuple::new(py, this.tensor().shape())?;
    let bytes = Bound::new(py, PyTensor::from(as_bytes(this)?))?;
    let bytes = match protocol {
        5.. => {
            let pickle = py.import(intern!(py, "pickle"))?;
            pickle.getattr(intern!(py, "PickleBuffer"))?.call1((bytes,))?
        }
        _ => PyByteArray::from(bytes.as_any())?.into_any(),
    };
    let rebuild = py.import(intern!(py, "dlbridge._core"))?.getattr(intern!(py, "_rebuild"))?;
    Ok((rebuild, (bytes, dtype.to_string(), shape, padded).into_pyobject(py)?))
}

/// The bytes of a tensor in C order, as a tensor over the same memory.
fn as_bytes(tensor: &PyTensor) -> PyResult<Tensor> {
    let this = tensor.tensor();
    let bytes = byte_count(this.dtype(), this.len(), this.is_subbyte_padded())
        .ok_or_else(|| PyBufferError::new_err("the tensor has too many bytes"))?;
    let parts = RawParts {
        access: if tensor.is_read_only() { Access::ReadOnly } else { Access::Shared },
        ..RawParts::new(this.data(), DataType::UINT8)
    };
    let owner = Export::new(this, "pickle");
    // SAFETY: the elements are adjacent, and these are their bytes; the owner keeps them alive.
    unsafe { Tensor::from_raw_parts(owner, parts, &[bytes], None::<&[i64]>) }.map_err(to_py_err)
}

fn byte_count(dtype: DataType, elements: usize, padded: bool) -> Option<usize> {
    if dtype.is_subbyte() && !padded {
        let bits = elements as u128 * u128::from(dtype.element_bits());
        return usize::try_from(bits.div_ceil(8)).ok();
    }
    elements.checked_mul(dtype.itemsize())
}

/// Make a tensor again of what pickle kept of it.
#[pyfunction]
#[pyo3(name = "_rebuild")]
pub fn rebuild<'py>(
    data: &Bound<'py, PyAny>,
    dtype: &str,
    shape: Vec<usize>,
    padded: bool,
) -> PyResult<Bound<'py, PyTensor>> {
    let py = data.py();
    let dtype: DataType = dtype.parse().map_err(to_py_err)?;
    let bytes = PyTensor::import(data, &Wanted::default())?;
    let bytes = bytes.get();
    let elements = match shape.contains(&0) {
        true => Some(0),
        false => shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(extent)),
    };
    let needed = elements.and_then(|elements| byte_count(dtype, elements, padded));
    let found = bytes.tensor();
    let fits = found.is_c_contiguous() && needed == usize::try_from(found.nbytes()).ok();
    if !fits || dtype.check().is_err() || !found.device().device_type().is_host_accessible() {
        return Err(PyValueError::new_err(format!(
            "the {} bytes of the pickle are no tensor of {dtype} with the shape {shape:?}",
            found.nbytes()
        )));
    }
    let parts = RawParts {
        access: if bytes.is_read_only() { Access::ReadOnly } else { Access::Shared },
        subbyte_padded: padded,
        ..RawParts::new(found.data(), dtype)
    };
    let owner = Export::new(found, "pickle");
    // SAFETY: adjacent bytes on the CPU, as many as the elements need; the owner keeps them alive.
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, &shape, None::<&[i64]>) };
    Bound::new(py, bytes.with_tensor(Arc::new(tensor.map_err(to_py_err)?)))
}
