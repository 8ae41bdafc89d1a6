//! TensorFlow.

use dlbridge::DataType;
use pyo3::prelude::*;

use super::dtypes::{is_complex, is_plain};
use super::framework::{Argument, FRAMEWORK, Framework, Layout, ReadOnly};

pub(super) static TENSORFLOW: Framework = Framework {
    name: "tensorflow",
    aliases: &["tf"],
    module: "tensorflow",
    function: "experimental.dlpack.from_dlpack",
    argument: Argument::LegacyCapsule,
    enter: |function, offer| {
        let capsule = offer.object().call_method0(intern!(function.py(), "__dlpack__"))?;
        function.call1((capsule,))
    },
    read_only: ReadOnly::Immutable,
    layout: Layout::C,
    // It accepts others, and aborts the process in the middle of a computation.
    align: 64,
    takes: |dtype| {
        is_plain(dtype)
            || is_complex(dtype)
            || [DataType::BFLOAT16, DataType::BOOL].contains(&dtype)
    },
    ..FRAMEWORK
};
