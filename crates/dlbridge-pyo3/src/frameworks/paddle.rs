//! Paddle.

use dlbridge::DataType;

use super::dtypes::{is_complex, is_plain};
use super::framework::{Behaviour, FRAMEWORK, Framework, Layout};

pub(super) static PADDLE: Framework = Framework {
    name: "paddle",
    aliases: &["paddlepaddle"],
    module: "paddle",
    table_of: Some("Tensor"),
    on_device: Behaviour { layout: Layout::NonNegative, ..Behaviour::DEVICE },
    misread: Some((DataType::UINT16, DataType::BFLOAT16)),
    // It imports negative strides, and few of its operations know them.
    layout_limit: Layout::NonNegative,
    max_ndim: 9,
    takes: |dtype| {
        let others =
            [DataType::BOOL, DataType::BFLOAT16, DataType::FLOAT8_E4M3FN, DataType::FLOAT8_E5M2];
        is_plain(dtype) || is_complex(dtype) || others.contains(&dtype)
    },
    ..FRAMEWORK
};
