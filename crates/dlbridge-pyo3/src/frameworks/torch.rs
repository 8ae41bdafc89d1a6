//! PyTorch.
//!
//! Its protocols check neither gradients nor the lazy conjugate and negative bits. `x.data = y` and `x.set_(y)` give
//! a tensor other memory, and a managed tensor that PyTorch exports keeps only the tensor: the memory belongs to the
//! storage, a separate object.

use dlbridge::DataType;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::dtypes::is_rare;
use super::framework::{Behaviour, FRAMEWORK, Framework, Layout};
use super::import_rules::{Attribute, Dtypes, ImportRules, NO_RULES, State};

pub(super) static TORCH: Framework = Framework {
    name: "torch",
    aliases: &["pytorch"],
    module: "torch",
    table_of: Some("Tensor"),
    on_device: Behaviour { layout: Layout::NonNegative, ..Behaviour::DEVICE },
    // PyTorch tensors cannot have negative strides.
    layout_limit: Layout::NonNegative,
    takes: |dtype| {
        let unknown = [DataType::FLOAT8_E3M4, DataType::FLOAT8_E4M3, DataType::FLOAT8_E4M3B11FNUZ];
        let rare = is_rare(dtype) && dtype != DataType::COMPLEX32;
        !dtype.is_subbyte() && !rare && !unknown.contains(&dtype)
    },
    // Two four-bit elements in a byte, which PyTorch names `float4_e2m1fn_x2`.
    takes_lanes: |dtype| dtype == DataType::FLOAT4_E2M1FN.with_lanes(2),
    counts_bytes: false,
    ..FRAMEWORK
};

pub(super) static RULES: ImportRules = ImportRules {
    packages: &["torch"],
    states: &[&[REQUIRES_GRAD], &[IS_CONJ, IS_NEG]],
    storage: Some("untyped_storage"),
    explain: Some(|object| not_strided(object).map(PyBufferError::new_err)),
    ..NO_RULES
};

const REQUIRES_GRAD: State = State {
    attribute: Attribute::Value("requires_grad"),
    dtypes: Dtypes::Differentiable,
    refused: true,
    reason: "the tensor requires grad, and autograd would not see what is done through the shared \
             memory; call detach() first",
};

const IS_CONJ: State = State {
    attribute: Attribute::Method("is_conj"),
    dtypes: Dtypes::Complex,
    refused: true,
    reason: "the tensor has its conjugate bit set: its values are the conjugates of what is in \
             memory; call resolve_conj() first",
};

const IS_NEG: State = State {
    attribute: Attribute::Method("is_neg"),
    dtypes: Dtypes::All,
    refused: true,
    reason: "the tensor has its negative bit set: its values are the negatives of what is in \
             memory; call resolve_neg() first",
};

/// Tensors without strided memory: the attribute that reports the state, and the message.
const NOT_STRIDED: [(&str, &str); 4] = [
    (
        "is_nested",
        "the tensor is nested: its rows have different lengths; call to_padded_tensor(padding) first",
    ),
    ("is_meta", "the tensor is on the device meta, which holds no data; make it on another device"),
    (
        "is_quantized",
        "the tensor is quantised: its values are not what is in memory; call dequantize() or int_repr() first",
    ),
    (
        "layout",
        "the tensor is sparse or has another layout than torch.strided; call to_dense() first",
    ),
];

/// Returns why a tensor does not have strided memory, or `None` if no reason is found.
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
