//! ONNX Runtime's `OrtValue`.

use dlbridge::DataType;

use super::dtypes::is_plain;
use super::framework::{Argument, FRAMEWORK, Framework, Layout, ReadOnly};

pub(super) static ONNXRUNTIME: Framework = Framework {
    name: "onnxruntime",
    aliases: &["ort"],
    module: "onnxruntime",
    function: "OrtValue.from_dlpack",
    argument: Argument::LegacyObject,
    read_only: ReadOnly::Lost,
    layout: Layout::C,
    takes: |dtype| is_plain(dtype) || dtype == DataType::BFLOAT16,
    ..FRAMEWORK
};
