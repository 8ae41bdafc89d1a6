//! The Python class: its fields, and its use in the rest of the crate. Its Python methods are in `class/`.

use std::sync::OnceLock;

use dlbridge::sys::{DLManagedTensor, DLManagedTensorVersioned, DLPackVersion};
use dlbridge::{CopyReason, SharedTensor, Tensor};
use pyo3::prelude::*;

use crate::borrow::{Borrowed, Guard};
use crate::error::to_py_err;
use crate::imported::{Imported, Protocol};
use crate::stream::{self, DataStream};
use crate::{live, reexport};

/// A tensor over memory that Rust owns or a producer shares.
///
/// It can be exported any number of times, and each result keeps the memory alive. `t.torch()`, `t.jax()` and
/// `t.to(...)` know which tensors a library refuses; a library's own `from_dlpack(t)` accepts what that library
/// supports.
#[cfg_attr(doc, doc = include_str!("tensor.md"))]
#[pyclass(name = "Tensor", module = "dlbridge", frozen, weakref, mapping)]
pub struct PyTensor {
    pub(crate) tensor: SharedTensor,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) reason: Option<CopyReason>,
    pub(crate) version: Option<DLPackVersion>,
    /// The stream that runs its work after the pending writes to the data, unless it is the default stream.
    pub(crate) stream: Option<Box<DataStream>>,
    /// Set once read-only memory that Rust made was exported through a protocol whose consumers keep this object.
    pub(crate) reading: OnceLock<Guard>,
}

/// A tensor, or anything that converts to a [`Tensor`]: vectors, boxes, nested arrays, ndarray arrays, images, ...
///
/// ```
/// # fn make() -> dlbridge_pyo3::PyTensor {
/// dlbridge_pyo3::PyTensor::from([[1.0_f32, 2.0], [3.0, 4.0]])
/// # }
/// ```
impl<T> From<T> for PyTensor
where
    Tensor: From<T>,
{
    fn from(owner: T) -> Self {
        let (tensor, reading) = (Tensor::from(owner).into_shared(), OnceLock::new());
        Self { tensor, protocol: None, reason: None, version: None, stream: None, reading }
    }
}

impl From<Imported> for PyTensor {
    fn from(imported: Imported) -> Self {
        let Imported { tensor, protocol, reason, version } = imported;
        let (tensor, reading) = (tensor.into_shared(), OnceLock::new());
        Self { tensor, protocol: Some(protocol), reason, version, stream: None, reading }
    }
}

impl PyTensor {
    /// The stream that the data is synchronised with.
    pub(crate) fn stream(&self) -> &DataStream {
        static DEFAULT: DataStream = DataStream::Default;
        self.stream.as_deref().unwrap_or(&DEFAULT)
    }

    /// Makes the device's default stream wait, for a consumer that knows no other stream.
    pub(crate) fn in_default_order(&self, py: Python<'_>) -> PyResult<()> {
        let device = self.tensor.device();
        match stream::has_streams(device) {
            true => stream::order(py, device, self.stream(), &DataStream::Default),
            false => Ok(()),
        }
    }

    /// The tensor. Code that returns a view of it must borrow its memory.
    pub(crate) fn tensor(&self) -> &SharedTensor {
        &self.tensor
    }

    /// Returns true if the data is read-only, or if its producer could not mark it.
    pub(crate) fn is_read_only(&self) -> bool {
        let told = self.reason.is_some() || self.protocol.is_none_or(Protocol::tells_read_only);
        !told || self.tensor.is_read_only()
    }

    /// Returns true if Rust made the tensor instead of importing it.
    pub(crate) fn is_rusts_own(&self) -> bool {
        self.protocol.is_none()
    }

    /// Takes the tensor out, unless it is exported or Rust did not make it; then it returns `self`.
    pub(crate) fn into_tensor(self) -> Result<Tensor, Self> {
        if self.protocol.is_some() || self.reading.get().is_some() || live::is_recording() {
            return Err(self);
        }
        let Self { tensor, protocol, reason, version, stream, reading } = self;
        tensor.try_into_tensor().map_err(|tensor| Self {
            tensor,
            protocol,
            reason,
            version,
            stream,
            reading,
        })
    }

    /// The version in the producer's managed tensor.
    pub(crate) fn version(&self) -> Option<DLPackVersion> {
        self.version
    }

    /// Another tensor with the same import record.
    pub(crate) fn with_tensor(&self, py: Python<'_>, tensor: SharedTensor) -> Self {
        let Self { protocol, reason, version, .. } = *self;
        let stream = remembered(self.stream().clone_ref(py));
        Self { tensor, protocol, reason, version, stream, reading: OnceLock::new() }
    }

    /// A second handle on the same memory, which claims no exclusivity.
    pub(crate) fn alias(&self) -> PyResult<Tensor> {
        match self.is_read_only() {
            true => Ok(self.tensor.share()),
            false => self.second(),
        }
    }

    /// As [`alias`](Self::alias), with the flags of the tensor itself, for a tensor with the same import record.
    pub(crate) fn second(&self) -> PyResult<Tensor> {
        // SAFETY: `to_raw` just made the managed tensor, and this is its only use. If Python code writes while a view
        // is alive, the program has a race (see the crate documentation).
        unsafe { Tensor::from_raw(self.tensor.to_raw()) }.map_err(to_py_err)
    }

    /// Borrows read-only memory that Rust made, for reading, as long as this object lives: some consumers ignore the
    /// read-only flag. A borrow for writing is then refused.
    pub(crate) fn keep_reading(&self) -> PyResult<()> {
        let rusts_own = self.protocol.is_none() && self.is_read_only();
        if rusts_own && self.reading.get().is_none() {
            // If another thread was faster, this borrow is released.
            let _ = self.reading.set(Guard::reading(&self.tensor, "read-only dlbridge.Tensor")?);
        }
        Ok(())
    }

    /// A managed tensor over the same memory for the consumer of a protocol.
    pub(crate) fn to_raw(&self, protocol: Protocol) -> PyResult<*mut DLManagedTensorVersioned> {
        let read_only = self.is_read_only();
        if live::is_recording() {
            let recorded =
                reexport::same(&self.tensor, protocol.name(), read_only).map_err(to_py_err)?;
            return Ok(match (read_only, self.protocol) {
                (true, None) => Borrowed::read_only(&recorded.into_shared())?.into_raw(),
                _ => recorded.into_raw(),
            });
        }
        Ok(match (read_only, self.protocol) {
            (false, _) => self.tensor.to_raw(),
            (true, None) => Borrowed::read_only(&self.tensor)?.into_raw(),
            (true, Some(_)) => self.tensor.share().into_raw(),
        })
    }

    /// A legacy managed tensor over the same memory, for data that it can express.
    pub(crate) fn to_raw_legacy(&self) -> PyResult<*mut DLManagedTensor> {
        let exported = if live::is_recording() {
            let read_only = self.tensor.is_read_only();
            reexport::same(&self.tensor, Protocol::LegacyDlpack.name(), read_only)
                .and_then(|recorded| recorded.into_raw_legacy().map_err(|(_, error)| error))
        } else {
            self.tensor.to_raw_legacy()
        };
        exported.map_err(to_py_err)
    }
}

/// The stream of a tensor, unless it is the default stream.
pub(crate) fn remembered(stream: DataStream) -> Option<Box<DataStream>> {
    match stream {
        DataStream::Default => None,
        other => Some(Box::new(other)),
    }
}
