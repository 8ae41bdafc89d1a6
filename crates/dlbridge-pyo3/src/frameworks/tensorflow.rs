//! TensorFlow.

use dlbridge::DataType;
use pyo3::prelude::*;

use super::dtypes::{is_complex, is_plain};
use super::framework::{Argument, Behaviour, FRAMEWORK, Framework, Layout, ReadOnly, Request};

pub(super) static TENSORFLOW: Framework = Framework {
    name: "tensorflow",
    aliases: &["tf"],
    module: "tensorflow",
    function: "experimental.dlpack.from_dlpack",
    argument: Argument::Capsule,
    enter: |function, offer| function.call1((offer.capsule()?,)),
    on_device: Behaviour {
        request: Request::Legacy,
        read_only: ReadOnly::Immutable,
        layout: Layout::C,
        align: 64,
        ..Behaviour::FREE
    },
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
