//! TensorFlow.

use dlbridge::DataType;
use pyo3::prelude::*;

use super::dtypes::{is_complex, is_plain};
use super::framework::{Argument, FRAMEWORK, Framework};

pub(super) static TENSORFLOW: Framework = Framework {
    name: "tensorflow",
    aliases: &["tf"],
    module: "tensorflow",
    function: "experimental.dlpack.from_dlpack",
    argument: Argument::Capsule,
    enter: |function, offer| function.call1((offer.capsule()?,)),
    immutable: true,
    // It accepts others, and aborts the process in the middle of a computation.
    align_limit: 64,
    takes: |dtype| {
        is_plain(dtype)
            || is_complex(dtype)
            || [DataType::BFLOAT16, DataType::BOOL].contains(&dtype)
    },
    ..FRAMEWORK
};
