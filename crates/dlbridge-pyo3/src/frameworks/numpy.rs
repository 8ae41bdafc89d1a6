//! NumPy, and the dtypes that the package `ml_dtypes` adds to it.

use dlbridge::{DataType, DataTypeCode as Code, Tensor};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError};
use pyo3::prelude::*;

use super::dtypes::{is_common, is_plain};
use super::framework::{FRAMEWORK, Framework, Need, Offer};
use super::import_rules::{ImportRules, NO_RULES};
use crate::error::is_absent;

pub(crate) static NUMPY: Framework = Framework {
    name: "numpy",
    // The arrays of ml_dtypes are NumPy arrays.
    aliases: &["np", "ml_dtypes"],
    module: "numpy",
    enter,
    cpu_only: true,
    max_ndim: 64,
    takes: |dtype| match dtype.code() {
        Code::INT | Code::UINT => matches!(dtype.bits(), 1 | 2 | 4 | 8 | 16 | 32 | 64),
        Code::FLOAT => is_plain(dtype),
        Code::COMPLEX => matches!(dtype.bits(), 32 | 64 | 128),
        Code::OPAQUE_HANDLE => false,
        _ => true,
    },
    counts_bytes: false,
    needs_copy,
    ..FRAMEWORK
};

fn needs_copy(tensor: &Tensor) -> Option<Need> {
    is_packed(tensor).then(|| {
        Need::new(
            "numpy does not support packed elements and unpacks them to a byte each",
            "store one element in a byte from the beginning",
        )
    })
}

fn is_packed(tensor: &Tensor) -> bool {
    tensor.dtype().is_subbyte() && !tensor.is_subbyte_padded()
}

/// Returns true if `numpy.from_dlpack` accepts a dtype.
fn is_own(dtype: DataType) -> bool {
    let (code, whole) = (dtype.code(), !dtype.is_subbyte());
    code != Code::BFLOAT && (is_common(dtype) || (code == Code::UINT && whole))
}

/// An array over the same memory. `numpy.from_dlpack` refuses the dtypes of `ml_dtypes`, so these are passed as
/// unsigned integers.
pub(crate) fn enter<'py>(
    from_dlpack: &Bound<'py, PyAny>,
    offer: &dyn Offer<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, tensor) = (from_dlpack.py(), offer.tensor());
    if is_own(tensor.dtype()) {
        return from_dlpack.call1((offer.object(),));
    }
    let name = tensor.dtype().to_string();
    let refuse =
        |what: &str| PyBufferError::new_err(format!("NumPy lacks a dtype for {name}{what}"));
    let ml_dtypes = match py.import(intern!(py, "ml_dtypes")) {
        Err(error) if is_absent(&error, py, "ml_dtypes")? => {
            return Err(refuse("; install ml_dtypes, which may have one"));
        }
        module => module?,
    };
    let Some(scalar) = ml_dtypes.getattr_opt(name.as_str())? else {
        return Err(refuse(", and so does ml_dtypes"));
    };
    if is_packed(tensor) && !offer.may_copy() {
        return Err(refuse(" that is packed, and unpacking needs a copy"));
    }
    from_dlpack.call1((offer.integers()?,))?.call_method1(intern!(py, "view"), (scalar,))
}

pub(super) static RULES: ImportRules = ImportRules {
    class: Some(("numpy.ma", "MaskedArray")),
    check_before: Some(check_mask),
    ..NO_RULES
};

/// Refuses an array with masked elements: no protocol reports the mask.
fn check_mask(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    let any = object.getattr(intern!(py, "mask"))?.call_method0(intern!(py, "any"));
    match any.and_then(|any| any.is_truthy()) {
        Ok(false) => return Ok(()),
        // The mask of a record lacks `any`, and no protocol exports records.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => return Ok(()),
        Err(error) if error.is_instance_of::<PyAttributeError>(py) => return Ok(()),
        Err(error) => return Err(error),
        Ok(true) => {}
    }
    Err(PyBufferError::new_err(
        "the array has masked elements, and a tensor cannot say which; fill them with \
         a.filled(value), or take a.data if they do not matter",
    ))
}
