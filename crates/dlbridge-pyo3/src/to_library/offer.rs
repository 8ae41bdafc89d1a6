//! A tensor that is given to a framework.

use dlbridge::{DataType, DataTypeCode, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::borrow::Guard;
use crate::error::{library, to_py_err};
use crate::frameworks::{Offer, Request, numpy};
use crate::{PyTensor, copies, reexport};

/// A tensor, and the options of its caller.
pub(super) struct Offered<'a, 'py> {
    pub(super) tensor: &'a Bound<'py, PyTensor>,
    /// False if the caller forbids copies.
    pub(super) may_copy: bool,
    /// How the framework requests tensors.
    pub(super) request: Request,
}

impl<'py> Offer<'py> for Offered<'_, 'py> {
    fn object(&self) -> &Bound<'py, PyAny> {
        self.tensor.as_any()
    }

    fn tensor(&self) -> &Tensor {
        self.tensor.get().tensor()
    }

    fn may_copy(&self) -> bool {
        self.may_copy
    }

    fn capsule(&self) -> PyResult<Bound<'py, PyAny>> {
        let (py, method) = (self.tensor.py(), intern!(self.tensor.py(), "__dlpack__"));
        let Request::Versioned(major, minor) = self.request else {
            return self.tensor.call_method0(method);
        };
        let keywords = PyDict::new(py);
        keywords.set_item(intern!(py, "max_version"), (major, minor))?;
        self.tensor.call_method(method, (), Some(&keywords))
    }

    fn array(&self) -> PyResult<Bound<'py, PyAny>> {
        let py = self.tensor.py();
        let module = library(py, numpy::NUMPY.module, numpy::NUMPY.package(), numpy::NUMPY.name)?;
        numpy::enter(&module.getattr(numpy::NUMPY.function)?, self)
    }

    fn integers(&self) -> PyResult<Bound<'py, PyAny>> {
        let (this, read_only) = (self.tensor.get().tensor(), self.tensor.get().is_read_only());
        let copied = this.dtype().is_subbyte() && !this.is_subbyte_padded();
        let unpacked;
        let this = match copied {
            true => {
                let _reading = Guard::reading(this, "tensor that is copied")?;
                unpacked = copies::unpacked(this)?.into_shared();
                &unpacked
            }
            false => this,
        };
        // The largest element on this path has eight bytes.
        let bits = (this.dtype().itemsize() * 8) as u8;
        let integers = DataType::new(DataTypeCode::UINT, bits, 1);
        let integers = reexport::with_dtype(this, read_only && !copied, integers);
        let integers = PyTensor::from(integers.map_err(to_py_err)?);
        Ok(Bound::new(self.tensor.py(), integers)?.into_any())
    }
}
