//! Tensors whose bytes are not their values, or whose writes somebody would miss: no door of theirs
//! checks all of it.

use dlbridge::{DataType, DataTypeCode};
use pyo3::exceptions::{
    PyAttributeError, PyBufferError, PyException, PyImportError, PyMemoryError, PyRecursionError,
    PyTypeError,
};
use pyo3::intern;
use pyo3::prelude::*;

use super::kind::{self, Caveats};

/// Refuses an object in a state that its bytes do not show; `dtype` is that of its tensor, since
/// most states belong to some dtypes only.
pub(super) fn check(object: &Bound<'_, PyAny>, caveats: &Caveats, dtype: DataType) -> PyResult<()> {
    let refuse = |reason: &str| Err(PyBufferError::new_err(reason.to_owned()));
    let complex = dtype.code() == DataTypeCode::COMPLEX;
    let differentiable = complex || !is_whole(dtype);
    if let Some(requires_grad) = &caveats.requires_grad
        && differentiable
        && requires_grad.ask(object)?
    {
        return refuse(
            "the tensor requires grad, and autograd would not see what is done through the shared \
             memory; call detach() first",
        );
    }
    if let Some((is_conj, is_neg)) = &caveats.lazy_bits {
        if complex && is_conj.ask(object)? {
            return refuse(
                "the tensor has its conjugate bit set: its values are the conjugates of what is in \
                 memory; call resolve_conj() first",
            );
        }
        if is_neg.ask(object)? {
            return refuse(
                "the tensor has its negative bit set: its values are the negatives of what is in \
                 memory; call resolve_neg() first",
            );
        }
    }
    if let Some(stop_gradient) = &caveats.stop_gradient
        && differentiable
        && !stop_gradient.ask(object)?
    {
        return refuse(
            "the tensor has stop_gradient=False, and autograd would not see what is done through \
             the shared memory; call detach() first",
        );
    }
    Ok(())
}

/// Refuses an object for what must be known before any of its doors is opened.
pub(super) fn check_before(object: &Bound<'_, PyAny>, caveats: &Caveats) -> PyResult<()> {
    if caveats.mask {
        check_mask(object)?;
    }
    if caveats.memoryview {
        let lender = object.getattr(intern!(object.py(), "obj"))?;
        if kind::of(&lender)?.caveats.mask {
            check_mask(&lender)?;
        }
    }
    if caveats.dtype {
        let dtype = object.getattr(intern!(object.py(), "dtype"))?;
        let name = dtype.getattr_opt(intern!(object.py(), "name"))?;
        let name = name.and_then(|name| name.extract::<String>().ok()).unwrap_or_default();
        if ["string", "variant", "resource"].contains(&name.as_str()) {
            return Err(PyBufferError::new_err(format!(
                "the tensor's elements are of the dtype {name}, which are no numbers in memory; \
                 convert them first"
            )));
        }
    }
    Ok(())
}

/// Refuses a masked array in which something is masked: none of its doors says so.
fn check_mask(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    let any = object.getattr(intern!(py, "mask"))?.call_method0(intern!(py, "any"));
    match any.and_then(|any| any.is_truthy()) {
        Ok(false) => return Ok(()),
        // The mask of a record has no `any`, and no door lets records through.
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

/// What PyTorch's tensors are that have no strided memory: the attribute that says so, and a way out.
const NOT_STRIDED: [(&str, &str); 4] = [
    (
        "is_nested",
        "the tensor is nested: its rows have different lengths; call to_padded_tensor(padding) first",
    ),
    ("is_meta", "the tensor is on the device meta, which holds no data; make it on another one"),
    (
        "is_quantized",
        "the tensor is quantised: its values are not what is in memory; call dequantize() or int_repr() first",
    ),
    ("layout", "the tensor is not strided, as sparse ones are not; call to_dense() first"),
];

/// The reason why a producer refused, where its own exception does not say what to do about it.
pub(super) fn explained(object: &Bound<'_, PyAny>, caveats: &Caveats, error: PyErr) -> PyErr {
    let py = object.py();
    if !caveats.library || !error.is_instance_of::<PyException>(py) {
        return error;
    }
    if caveats.lazy_bits.is_none() {
        return of_standard(py, error);
    }
    let applies = |name: &str| -> PyResult<bool> {
        let found = object.getattr(name)?;
        match name {
            "layout" => Ok(found.str()?.to_cow()? != "torch.strided"),
            _ => found.is_truthy(),
        }
    };
    for (name, reason) in NOT_STRIDED {
        if applies(name).unwrap_or(false) {
            let refusal = PyBufferError::new_err(reason);
            refusal.set_cause(py, Some(error));
            return refusal;
        }
    }
    of_standard(py, error)
}

/// The refusal of a library as the class that the standard has for it, with what the library says.
fn of_standard(py: Python<'_>, error: PyErr) -> PyErr {
    let ours = error.is_instance_of::<PyBufferError>(py)
        || error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyMemoryError>(py)
        || error.is_instance_of::<PyRecursionError>(py)
        || error.is_instance_of::<PyImportError>(py);
    if ours {
        return error;
    }
    let text = error.value(py).to_string();
    let sentence = text.lines().next().unwrap_or_default();
    let refusal = PyBufferError::new_err(format!(
        "the producer cannot export the data: {sentence}; convert it to a plain tensor first"
    ));
    refusal.set_cause(py, Some(error));
    refusal
}

/// Whether elements are integers or truth values.
fn is_whole(dtype: DataType) -> bool {
    matches!(dtype.code(), DataTypeCode::INT | DataTypeCode::UINT | DataTypeCode::BOOL)
}
