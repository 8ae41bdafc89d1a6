//! The Python class.

use std::sync::Arc;

use dlbridge::{Device, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::error::to_py_err;
use crate::protocol::{self, Imported, Protocol, Request, Wanted};

/// A tensor over memory that somebody lent or that Rust owns.
///
/// Any framework's `from_dlpack` takes it, any number of times; each result keeps the memory alive.
#[cfg_attr(doc, doc = include_str!("tensor.md"))]
#[pyclass(name = "Tensor", module = "dlbridge", frozen, weakref)]
pub struct PyTensor {
    tensor: Arc<Tensor>,
    protocol: Option<Protocol>,
    copied: bool,
}

impl From<Tensor> for PyTensor {
    fn from(tensor: Tensor) -> Self {
        Self { tensor: Arc::new(tensor), protocol: None, copied: false }
    }
}

impl From<Imported> for PyTensor {
    fn from(imported: Imported) -> Self {
        let Imported { tensor, protocol, copied } = imported;
        Self { tensor: Arc::new(tensor), protocol: Some(protocol), copied }
    }
}

impl PyTensor {
    /// Imports any Python object that speaks DLPack or the buffer protocol. A `Tensor` comes back
    /// as it is. `copy` is that of the array API standard: with `None` it is the producer who
    /// decides, `Some(false)` shares memory or fails, `Some(true)` copies.
    ///
    /// # Errors
    /// As [`import`](crate::import).
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn keep<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTensor>> {
    ///     PyTensor::import(x, None)
    /// }
    /// ```
    pub fn import<'py>(
        object: &Bound<'py, PyAny>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, Self>> {
        if let Ok(tensor) = object.cast::<Self>() {
            return match copy {
                Some(true) => {
                    let this = tensor.get();
                    let copied = this.tensor.to_copy().map_err(to_py_err)?;
                    let protocol = this.protocol;
                    Bound::new(
                        object.py(),
                        Self { tensor: Arc::new(copied), protocol, copied: true },
                    )
                }
                _ => Ok(tensor.clone()),
            };
        }
        let wanted = Wanted { copy, device: None };
        finish(object.py(), protocol::by_ladder(object, &wanted)?, copy)
    }

    /// Imports through `__dlpack__` alone, as the function `from_dlpack` of the array API standard:
    /// `device` is where the data is to be.
    ///
    /// # Errors
    /// As [`import`](crate::import); `BufferError` if the producer cannot give the data on `device`.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn on_cpu<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTensor>> {
    ///     PyTensor::from_dlpack(x, Some(dlbridge::Device::CPU), None)
    /// }
    /// ```
    pub fn from_dlpack<'py>(
        object: &Bound<'py, PyAny>,
        device: Option<Device>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, Self>> {
        let wanted = Wanted { copy, device };
        finish(object.py(), protocol::by_dlpack(object, &wanted)?, copy)
    }

    /// The tensor.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn elements(x: &Bound<'_, PyTensor>) -> usize {
    ///     x.get().tensor().len()
    /// }
    /// ```
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Whether the data must not be written, or its producer could not have said so.
    fn is_read_only(&self) -> bool {
        let told = self.copied || self.protocol.is_none_or(Protocol::tells_read_only);
        !told || self.tensor.is_read_only()
    }

    /// A second handle on the same memory, which claims no exclusivity.
    pub(crate) fn alias(&self) -> PyResult<Tensor> {
        if self.is_read_only() {
            return Ok(self.tensor.share());
        }
        // SAFETY: just lent, and nobody else's. Python code that writes while a view is alive is
        // the program's race (see the crate documentation).
        unsafe { Tensor::from_raw(self.tensor.lend()) }.map_err(to_py_err)
    }
}

/// Makes the copy that was asked for, and the Python object.
fn finish(
    py: Python<'_>,
    mut imported: Imported,
    copy: Option<bool>,
) -> PyResult<Bound<'_, PyTensor>> {
    if copy == Some(true) && !imported.copied {
        imported.tensor = imported.tensor.to_copy().map_err(to_py_err)?;
        imported.copied = true;
    }
    Bound::new(py, PyTensor::from(imported))
}

#[pymethods]
impl PyTensor {
    /// A capsule over the tensor, as the array API standard describes it.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<&Bound<'py, PyAny>>,
        dl_device: Option<&Bound<'py, PyAny>>,
        copy: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let request = Request { stream, max_version, dl_device, copy };
        protocol::export(py, &self.tensor, self.is_read_only(), &request)
    }

    /// The device as a tuple of DLPack device type and device id.
    fn __dlpack_device__(&self) -> (i32, i32) {
        let device = self.tensor.device();
        (device.device_type().code(), device.id())
    }

    /// The extents, in elements.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.shape())
    }

    /// The strides, in elements.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.strides())
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor.ndim()
    }

    /// The name of the dtype, like 'float32'.
    #[getter]
    fn dtype(&self) -> String {
        self.tensor.dtype().to_string()
    }

    /// The name of the device, like 'cpu' or 'cuda:0'.
    #[getter]
    fn device(&self) -> String {
        self.tensor.device().to_string()
    }

    /// Whether the data must not be written. A legacy producer cannot say so; what it lends is taken
    /// for read-only.
    #[getter]
    fn readonly(&self) -> bool {
        self.is_read_only()
    }

    /// The door the tensor came through: 'dlpack', 'dlpack-legacy' or 'buffer'; None if Rust made
    /// it.
    #[getter]
    fn protocol(&self) -> Option<&'static str> {
        self.protocol.map(Protocol::name)
    }

    /// Whether the elements were copied on the way in, by the producer or by dlbridge.
    #[getter]
    fn copied(&self) -> bool {
        self.copied
    }

    /// The number of bytes that the elements take when they are adjacent.
    #[getter]
    fn nbytes(&self) -> u128 {
        self.tensor.nbytes()
    }

    /// The address of the element at index zero as an integer; 0 without elements, a handle on
    /// devices that have handles.
    #[getter]
    fn address(&self) -> usize {
        self.tensor.data().addr()
    }

    fn __repr__(&self) -> String {
        let tuple = |numbers: &[i64]| match numbers {
            [one] => format!("({one},)"),
            _ => format!("({})", numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
        };
        let bool = |value| if value { "True" } else { "False" };
        let protocol = self.protocol.map_or("None".to_owned(), |door| format!("'{}'", door.name()));
        format!(
            "dlbridge.Tensor(shape={}, strides={}, dtype='{}', device='{}', readonly={}, \
             protocol={protocol}, copied={})",
            tuple(self.tensor.shape()),
            tuple(self.tensor.strides()),
            self.tensor.dtype(),
            self.tensor.device(),
            bool(self.is_read_only()),
            bool(self.copied),
        )
    }
}
