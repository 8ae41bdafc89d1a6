//! NumPy's scalars, read in place.
//!
//! - **Scalar.** An object whose type is the scalar type of one of NumPy's own dtypes is a struct of the object's
//!   head and then the value, in the machine's byte order, by NumPy's C API in its ABI versions 1 and 2. No code
//!   writes the value.
//!
//! Source: `numpy/arrayscalars.h` of NumPy 1.7 to 2.5.

use std::slice;

use dlbridge::DataType;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::api::NumpyApi;
use super::object_head;
use crate::once::once;

/// A NumPy scalar type; subclasses are excluded.
#[derive(Clone, Copy)]
pub(crate) struct NumpyScalar {
    /// The address of the type, which lives as long as the process.
    address: usize,
    dtype: DataType,
}

impl NumpyScalar {
    /// The type of an object; `None` unless it is the scalar type of one of NumPy's dtypes that DLPack has.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        static TYPES: PyOnceLock<Vec<NumpyScalar>> = PyOnceLock::new();
        let py = object.py();
        let types = match TYPES.get(py) {
            Some(types) => types,
            None => {
                let Some(api) = NumpyApi::of_loaded(py)? else { return Ok(None) };
                once(&TYPES, py, || Self::all(py, api))?
            }
        };
        let address = object.get_type_ptr().addr();
        Ok(types.iter().find(|known| known.address == address).copied())
    }

    fn all(py: Python<'_>, api: &NumpyApi) -> PyResult<Vec<Self>> {
        let of = |(descr, dtype): (&Py<PyAny>, DataType)| {
            let object_type = descr.bind(py).getattr(intern!(py, "type"))?;
            let address = object_type.as_ptr().addr();
            // The types are static; this keeps a reference to each anyway.
            std::mem::forget(object_type);
            Ok(Self { address, dtype })
        };
        api.descrs().map(of).collect()
    }

    pub(crate) fn dtype(self) -> DataType {
        self.dtype
    }

    /// The bytes of the value; `None` for an object of another type.
    #[inline]
    pub(crate) fn bytes<'a>(self, object: &'a Bound<'_, PyAny>) -> Option<&'a [u8]> {
        if object.get_type_ptr().addr() != self.address {
            return None;
        }
        // Values have an alignment of eight bytes or less, and the size of a head is a multiple of eight.
        // SAFETY: Scalar: the value follows the head, and has the size of an element of the dtype. The reference
        // keeps the object alive.
        Some(unsafe {
            let value = object_head::fields::<u8>(object.as_ptr());
            slice::from_raw_parts(value, self.dtype.itemsize())
        })
    }
}
