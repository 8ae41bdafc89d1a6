//! ONNX Runtime's `OrtValue`.

use dlbridge::DataType;

use super::dtypes::is_plain;
use super::framework::{FRAMEWORK, Framework};

pub(super) static ONNXRUNTIME: Framework = Framework {
    name: "onnxruntime",
    aliases: &["ort"],
    module: "onnxruntime",
    function: "OrtValue.from_dlpack",
    takes: |dtype| is_plain(dtype) || dtype == DataType::BFLOAT16,
    ..FRAMEWORK
};
