//! A tensor as bytes, and bytes as a tensor: other dtypes and shapes over the same memory, and pickles.
//!
//! A pickle has the elements as a buffer, which protocol 5 can pass on without a copy.

use dlbridge::{
    Access, ArcTensor, DataType, DataTypeCode, Error, RawParts, Result, Tensor, TensorRef,
    TensorRefMut,
};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyTuple};

use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::import_options::{ImportOptions, Order, wrong_type};
use dlbridge_pyo3::layout::root;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::{repr_in_message, to_py_err};
use dlbridge_pyo3::{COrder, PyReadonlyTensor, PyReadwriteTensor};

use crate::import::options::{integer, items};
use crate::tensor::TensorObject;

/// The result for pickle: a function and its arguments. The elements are in C order.
pub(crate) fn reduce<'py>(
    tensor: &Bound<'py, TensorObject>,
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
    let contiguous = TensorObject::import(tensor.as_any(), &options)?;
    let this = contiguous.get();
    let (dtype, padded) = (this.tensor().dtype(), this.tensor().is_subbyte_padded());
    let shape = PyTuple::new(py, this.tensor().shape())?;
    let count = usize::try_from(this.tensor().nbytes())
        .map_err(|_| PyBufferError::new_err("the tensor has too many bytes"))?;
    let bytes = (DataType::UINT8, false);
    let bytes = with_shape(this.tensor(), this.is_read_only(), bytes, &[count]);
    let bytes = TensorObject::new(py, bytes.map_err(to_py_err)?)?;
    let bytes = match protocol {
        5.. => {
            let pickle = py.import(intern!(py, "pickle"))?;
            pickle.getattr(intern!(py, "PickleBuffer"))?.call1((bytes,))?
        }
        _ => to_bytearray(py, bytes.get().tensor())?.into_any(),
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
) -> PyResult<Bound<'py, TensorObject>> {
    let py = data.py();
    let shape = expect_extents(shape)?;
    let bytes = TensorObject::import(data, &ImportOptions::default())?;
    let this = bytes.get();
    let tensor = dtype.parse().and_then(|dtype: DataType| {
        with_shape(this.tensor(), this.is_read_only(), (dtype, padded), &shape)
    });
    let tensor = tensor.map_err(|error| {
        PyValueError::new_err(format!(
            "these bytes are not a tensor of {dtype} with the shape {shape:?}: {error}"
        ))
    })?;
    TensorObject::new(py, this.with_same_record(tensor))
}

/// Returns the extents that an argument `shape` names.
pub(crate) fn expect_extents(shape: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    const EXPECTED: &str = "a non-negative integer, or a tuple or list of them";
    let one = |extent: &Bound<'_, PyAny>| {
        let number = integer(extent)?.ok_or_else(|| wrong_type("shape", EXPECTED, shape))?;
        number.extract::<usize>().or_else(|_| {
            let number_shown = repr_in_message(&number);
            Err(PyValueError::new_err(match number.lt(0)? {
                true => format!("shape must be {EXPECTED}, and cannot have {number_shown}"),
                false => format!(
                    "shape must have extents of at most {}, and cannot have {number_shown}",
                    isize::MAX
                ),
            }))
        })
    };
    match items(shape)? {
        Some(extents) => extents.iter().map(one).collect(),
        None => Ok(vec![one(shape)?]),
    }
}

/// Bytes that `copy_bytes` copies between two checks for signals: a few milliseconds, on several threads.
const BLOCK: usize = 1 << 26;

/// Copy bytes to other memory of the same length, while other threads run.
#[pyfunction]
#[pyo3(name = "_copy")]
pub(crate) fn copy_bytes(
    mut target: PyReadwriteTensor<'_, u8, 1, COrder>,
    source: PyReadonlyTensor<'_, u8, 1, COrder>,
) -> PyResult<()> {
    let (target, source) = (target.mut_slice(), source.slice());
    if target.len() != source.len() {
        let (needed, available) = (source.len() as u128, target.len());
        return Err(to_py_err(Error::ByteCount { needed, available }));
    }
    copy_to(target, source)
}

/// Copies bytes to memory of the same length, while other threads run.
fn copy_to(target: &mut [u8], source: &[u8]) -> PyResult<()> {
    copies::detached(source.len(), |go_on| {
        for (target, source) in target.chunks_mut(BLOCK).zip(source.chunks(BLOCK)) {
            TensorRefMut::from(target).copy_from(&TensorRef::from(source))?;
            if !go_on() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
}

/// The same elements under a dtype of the same size.
pub(crate) fn with_dtype(tensor: &ArcTensor, read_only: bool, dtype: DataType) -> Result<Tensor> {
    let (found, padded) = (tensor.dtype(), tensor.is_subbyte_padded());
    if dtype.is_subbyte() || dtype.itemsize() != found.itemsize() || (found.is_subbyte() && !padded)
    {
        return Err(Error::DataType { expected: found, found: dtype });
    }
    let parts = parts(tensor, read_only, dtype)?;
    let (shape, strides) = (tensor.shape(), tensor.strides());
    // SAFETY: Data of a tensor that the owner keeps alive; each element has the same size and place under the new
    // dtype. The program promises that no code writes while a view is alive (see the documentation of `dlbridge-pyo3`).
    unsafe { Tensor::from_raw_parts(root(tensor), parts, shape, Some(strides)) }
}

/// All bytes of a tensor in C order as elements of another dtype and shape.
pub(crate) fn with_shape(
    tensor: &ArcTensor,
    read_only: bool,
    (dtype, padded): (DataType, bool),
    shape: &[usize],
) -> Result<Tensor> {
    dtype.check()?;
    let subbyte_padded = padded && dtype.is_subbyte();
    let parts = RawParts { subbyte_padded, ..parts(tensor, read_only, dtype)? };
    if !tensor.is_c_contiguous() {
        return Err(Error::NotContiguous);
    }
    let elements = match shape.contains(&0) {
        true => Some(0),
        false => shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(extent)),
    };
    let needed = byte_count(dtype, elements.ok_or(Error::TooLarge)?, subbyte_padded);
    let available = tensor.nbytes();
    if needed != available {
        let available = usize::try_from(available).map_err(|_| Error::TooLarge)?;
        return Err(Error::ByteCount { needed, available });
    }
    // SAFETY: Data of a tensor that the owner keeps alive: its bytes are contiguous, and the new elements are exactly
    // these. The program promises that no code writes while a view is alive (see the documentation of `dlbridge-pyo3`).
    unsafe { Tensor::from_raw_parts(root(tensor), parts, shape, None::<&[i64]>) }
}

/// The size in bytes of contiguous elements.
pub(crate) fn byte_count(dtype: DataType, elements: usize, padded: bool) -> u128 {
    match dtype.is_subbyte() && !padded {
        true => (elements as u128 * u128::from(dtype.element_bits())).div_ceil(8),
        false => elements as u128 * dtype.itemsize() as u128,
    }
}

/// The memory of a tensor on the CPU, for elements of another dtype.
fn parts(tensor: &Tensor, read_only: bool, dtype: DataType) -> Result<RawParts> {
    let device = tensor.device();
    if !device.device_type().is_host_accessible() {
        return Err(Error::NotHostAccessible { device });
    }
    let access = if read_only { Access::ReadOnly } else { Access::Shared };
    Ok(RawParts { device, access, ..RawParts::new(tensor.data(), dtype) })
}

/// The bytes of a contiguous tensor in a new bytearray.
fn to_bytearray<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyByteArray>> {
    let _reading = Guard::for_copy(tensor)?;
    let tensor = TensorRef::from(tensor);
    let bytes = tensor.as_bytes().map_err(to_py_err)?;
    PyByteArray::new_with(py, bytes.len(), |target| copy_to(target, bytes))
}

/// The bytes of a contiguous tensor.
pub(crate) fn to_bytes<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyBytes>> {
    let _reading = Guard::for_copy(tensor)?;
    let tensor = TensorRef::from(tensor);
    let bytes = tensor.as_bytes().map_err(to_py_err)?;
    PyBytes::new_with(py, bytes.len(), |target| copy_to(target, bytes))
}
