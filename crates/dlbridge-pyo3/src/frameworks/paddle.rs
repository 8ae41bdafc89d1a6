//! Paddle.

use dlbridge::DataType;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::dtypes::{is_complex, is_plain};
use super::framework::{Behaviour, FRAMEWORK, Framework, Layout};
use super::import_rules::{Attribute, Dtypes, ImportRules, NO_RULES, State};

pub(super) static PADDLE: Framework = Framework {
    name: "paddle",
    aliases: &["paddlepaddle"],
    module: "paddle",
    table_of: Some("Tensor"),
    on_device: Behaviour { layout: Layout::NonNegative, ..Behaviour::DEVICE },
    misread: Some((DataType::UINT16, DataType::BFLOAT16)),
    // Paddle imports negative strides, but few of its operations support them.
    layout_limit: Layout::NonNegative,
    max_ndim: 9,
    takes: |dtype| {
        let others =
            [DataType::BOOL, DataType::BFLOAT16, DataType::FLOAT8_E4M3FN, DataType::FLOAT8_E5M2];
        is_plain(dtype) || is_complex(dtype) || others.contains(&dtype)
    },
    ..FRAMEWORK
};

pub(super) static RULES: ImportRules = ImportRules {
    packages: &["paddle"],
    states: &[&[STOP_GRADIENT]],
    explain: Some(|object| is_sparse(object).then(|| PyBufferError::new_err(SPARSE))),
    ..NO_RULES
};

const STOP_GRADIENT: State = State {
    attribute: Attribute::Value("stop_gradient"),
    dtypes: Dtypes::Differentiable,
    refused: false,
    reason: "the tensor has stop_gradient=False, and autograd would not see what is done through \
             the shared memory; call detach() first",
};

const SPARSE: &str =
    "the tensor is sparse: its values are not in one piece of memory; call to_dense() first";

fn is_sparse(object: &Bound<'_, PyAny>) -> bool {
    object.call_method0("is_sparse").and_then(|sparse| sparse.is_truthy()).unwrap_or(false)
}
