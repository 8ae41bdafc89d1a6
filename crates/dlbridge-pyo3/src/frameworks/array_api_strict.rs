//! array-api-strict, whose arrays wrap NumPy arrays.

use dlbridge::DataType;

use super::dtypes::{is_complex, is_plain};
use super::framework::{FRAMEWORK, Framework};

pub(super) static ARRAY_API_STRICT: Framework = Framework {
    name: "array_api_strict",
    aliases: &["array-api-strict"],
    module: "array_api_strict",
    cpu_only: true,
    takes: |dtype| {
        let known = is_plain(dtype) || is_complex(dtype) || dtype == DataType::BOOL;
        known && dtype != DataType::FLOAT16
    },
    ..FRAMEWORK
};
