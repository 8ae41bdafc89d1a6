//! NVIDIA Warp.

use dlbridge::DataType;

use super::dtypes::is_plain;
use super::framework::{Behaviour, FRAMEWORK, Framework, Request};

pub(super) static WARP: Framework = Framework {
    name: "warp",
    module: "warp",
    prepare: Some("init"),
    on_device: Behaviour { request: Request::Legacy, idle_strides: true, ..Behaviour::DEVICE },
    min_ndim: 1,
    max_ndim: 4,
    takes: |dtype| is_plain(dtype) || [DataType::BFLOAT16, DataType::BOOL].contains(&dtype),
    ..FRAMEWORK
};
