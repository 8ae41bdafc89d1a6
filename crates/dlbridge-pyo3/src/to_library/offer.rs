//! A tensor on its way into a framework.

use std::sync::Arc;

use dlbridge::{DataType, DataTypeCode, Tensor};
use pyo3::prelude::*;

use super::entrance::Entrance;
use crate::borrow::Guard;
use crate::error::to_py_err;
use crate::frameworks::{Offer, numpy};
use crate::{PyTensor, copies, lent};

/// A tensor, and what its caller allows.
pub(super) struct Offered<'a, 'py> {
    pub(super) tensor: &'a Bound<'py, PyTensor>,
    /// False if the caller forbids copies.
    pub(super) may_copy: bool,
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

    fn array(&self) -> PyResult<Bound<'py, PyAny>> {
        let entrance = Entrance::of(self.tensor.py(), &numpy::NUMPY)?;
        numpy::enter(entrance.function.bind(self.tensor.py()), self)
    }

    fn integers(&self) -> PyResult<Bound<'py, PyAny>> {
        let (this, read_only) = (self.tensor.get().tensor(), self.tensor.get().is_read_only());
        let copied = this.dtype().is_subbyte() && !this.is_subbyte_padded();
        let unpacked;
        let this = match copied {
            true => {
                let _reading = Guard::reading(this, "tensor that is copied")?;
                unpacked = Arc::new(copies::unpacked(this)?);
                &unpacked
            }
            false => this,
        };
        // The largest element that is offered so has eight bytes.
        let bits = (this.dtype().itemsize() * 8) as u8;
        let integers = DataType::new(DataTypeCode::UINT, bits, 1);
        let integers = lent::with_dtype(this, "dlpack", read_only && !copied, integers);
        let integers = PyTensor::from(integers.map_err(to_py_err)?);
        Ok(Bound::new(self.tensor.py(), integers)?.into_any())
    }
}
