//! MLX.

use dlbridge::DataType;

use super::framework::{FRAMEWORK, Framework};

pub(super) static MLX: Framework = Framework {
    name: "mlx",
    module: "mlx.core",
    cpu_only: true,
    // It cuts these to numbers of 32 bits without an error.
    takes: |dtype| dtype != DataType::FLOAT64 && dtype != DataType::COMPLEX128,
    ..FRAMEWORK
};
