//! Tensors whose bytes are not their values, or whose writes autograd would miss. None of their protocols
//! checks all of this.

use dlbridge::{DataType, DataTypeCode};
use pyo3::exceptions::{
    PyAttributeError, PyBufferError, PyException, PyImportError, PyMemoryError, PyRecursionError,
    PyTypeError,
};
use pyo3::prelude::*;

use super::kind::{self, Caveats};
use super::{classes, pandas, typestr};
use crate::copies;
use crate::shown::named;

/// Refuses an object in a state that its bytes do not show; `dtype` is the dtype of its tensor, because
/// most states belong to some dtypes only.
#[inline]
pub(crate) fn check(object: &Bound<'_, PyAny>, caveats: &Caveats, dtype: DataType) -> PyResult<()> {
    let Caveats { requires_grad, lazy_bits, stop_gradient, .. } = caveats;
    match requires_grad.is_none() && lazy_bits.is_none() && stop_gradient.is_none() {
        true => Ok(()),
        false => check_states(object, caveats, dtype),
    }
}

fn check_states(object: &Bound<'_, PyAny>, caveats: &Caveats, dtype: DataType) -> PyResult<()> {
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

/// Refuses an object for states that must be known before an import through any protocol.
pub(crate) fn check_before(object: &Bound<'_, PyAny>, caveats: &Caveats) -> PyResult<()> {
    copies::forget_interrupt();
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
            return Err(typestr::beyond_tensors(format!(
                "the tensor's elements are of the dtype {name}, which are no numbers in memory; \
                 convert them first"
            )));
        }
    }
    Ok(())
}

/// Refuses an array with masked elements, which no protocol reports.
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

/// States in which a PyTorch tensor does not have strided memory: the attribute that reports the state, and
/// the error message.
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

/// The refusal of an object whose library failed for a reason that the object can tell, or whose
/// library's own exception does not say what to do; with that exception as the cause.
pub(crate) fn explained(object: &Bound<'_, PyAny>, caveats: &Caveats, error: PyErr) -> PyErr {
    let py = object.py();
    if !error.is_instance_of::<PyException>(py) || copies::is_interrupt(py, &error) {
        return error;
    }
    let reason = match caveats {
        Caveats { series: true, .. } => pandas::refusal(object),
        Caveats { library: false, .. } => return error,
        Caveats { lazy_bits: Some(_), .. } => not_strided(object).map(str::to_owned),
        _ => gone(object).map(str::to_owned),
    };
    let Some(reason) = reason else { return of_standard(py, error) };
    let refusal = match caveats.series {
        true => typestr::beyond_tensors(reason),
        false => PyBufferError::new_err(reason),
    };
    refusal.set_cause(py, Some(error));
    refusal
}

/// Returns why a PyTorch tensor does not have strided memory, or `None` if no reason is found.
fn not_strided(object: &Bound<'_, PyAny>) -> Option<&'static str> {
    let applies = |name: &str| -> PyResult<bool> {
        let found = object.getattr(name)?;
        match name {
            "layout" => Ok(found.str()?.to_cow()? != "torch.strided"),
            _ => found.is_truthy(),
        }
    };
    let found = NOT_STRIDED.iter().find(|(name, _)| applies(name).unwrap_or(false));
    if let Some((_, reason)) = found {
        return Some(reason);
    }
    let asked = |name: &str| object.call_method0(name).and_then(|answer| answer.extract::<u64>());
    (asked("data_ptr").ok()? == 0 && asked("numel").ok()? > 0).then_some(
        "the tensor has elements but no memory, as a FakeTensor, a MaskedTensor and a tensor with a \
         resized storage have; make a tensor that holds its data first",
    )
}

/// Returns why a JAX array or a Paddle tensor does not have its elements in memory, or `None` if no reason is found.
fn gone(object: &Bound<'_, PyAny>) -> Option<&'static str> {
    let py = object.py();
    if classes::is_instance(object, intern!(py, "jax.core"), intern!(py, "Tracer")).ok()? {
        return Some(
            "the array is a tracer of JAX, which stands for elements that are not computed yet; convert \
             it outside of the transformed function, or in a function called by jax.pure_callback",
        );
    }
    let applies = |name: &str| -> PyResult<bool> { object.call_method0(name)?.is_truthy() };
    if applies("is_deleted").unwrap_or(false) {
        return Some(
            "the array was deleted, or donated to a compiled function, so its memory is gone; convert \
             it before that, or make a new one",
        );
    }
    applies("is_sparse").unwrap_or(false).then_some(
        "the tensor is sparse: its values are not in one piece of memory; call to_dense() first",
    )
}

/// Returns true if a producer's exception means that it cannot export its data, judged by the exception's class.
pub(crate) fn is_refusal(object: &Bound<'_, PyAny>, error: &PyErr) -> bool {
    let py = object.py();
    let of_library = || kind::of(object).is_ok_and(|kind| kind.caveats.library);
    error.is_instance_of::<PyBufferError>(py)
        || (error.is_instance_of::<PyException>(py) && of_library() && !is_final(py, error))
}

/// Returns true if an exception of a library is passed on as it is.
fn is_final(py: Python<'_>, error: &PyErr) -> bool {
    // This crate's own exceptions are of exactly this class and do not come from Python code.
    let own_type_error =
        error.get_type(py).is(py.get_type::<PyTypeError>()) && error.traceback(py).is_none();
    own_type_error
        || error.is_instance_of::<PyBufferError>(py)
        || error.is_instance_of::<PyMemoryError>(py)
        || error.is_instance_of::<PyRecursionError>(py)
        || error.is_instance_of::<PyImportError>(py)
}

/// Turns the refusal of a library into the class that the standard specifies, with the library's message.
fn of_standard(py: Python<'_>, error: PyErr) -> PyErr {
    if is_final(py, &error) {
        return error;
    }
    let text = named(error.value(py));
    let sentence = text.lines().next().unwrap_or_default().trim_end_matches('.');
    let refusal = PyBufferError::new_err(format!(
        "the producer cannot export the data: {sentence}; convert it to a plain tensor first"
    ));
    refusal.set_cause(py, Some(error));
    refusal
}

/// Returns true for integers and booleans.
fn is_whole(dtype: DataType) -> bool {
    matches!(dtype.code(), DataTypeCode::INT | DataTypeCode::UINT | DataTypeCode::BOOL)
}
