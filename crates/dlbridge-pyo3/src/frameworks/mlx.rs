//! MLX.

use dlbridge::DataType;

use super::dtypes::is_plain;
use super::framework::{FRAMEWORK, Framework};

pub(super) static MLX: Framework = Framework {
    name: "mlx",
    module: "mlx.core",
    cpu_only: true,
    takes: |dtype| {
        let others = [DataType::BOOL, DataType::BFLOAT16, DataType::COMPLEX64];
        // MLX silently converts 64-bit floats to 32 bits.
        (is_plain(dtype) && dtype != DataType::FLOAT64) || others.contains(&dtype)
    },
    ..FRAMEWORK
};
