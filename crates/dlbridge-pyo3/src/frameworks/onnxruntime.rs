//! ONNX Runtime's `OrtValue`.

use dlbridge::DataType;

use super::dtypes::is_plain;
use super::framework::{Behaviour, FRAMEWORK, Framework, Layout, Request};

pub(super) static ONNXRUNTIME: Framework = Framework {
    name: "onnxruntime",
    aliases: &["ort"],
    module: "onnxruntime",
    function: "OrtValue.from_dlpack",
    on_device: Behaviour { request: Request::Legacy, layout: Layout::C, ..Behaviour::DEVICE },
    takes: |dtype| is_plain(dtype) || dtype == DataType::BFLOAT16,
    ..FRAMEWORK
};
