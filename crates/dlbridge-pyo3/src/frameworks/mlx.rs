//! MLX.

use dlbridge::DataType;

use super::framework::{FRAMEWORK, Framework};

pub(super) static MLX: Framework = Framework {
    name: "mlx",
    module: "mlx.core",
    cpu_only: true,
    // MLX silently converts these to 32-bit numbers.
    takes: |dtype| dtype != DataType::FLOAT64 && dtype != DataType::COMPLEX128,
    ..FRAMEWORK
};
