//! MLX.

use dlbridge::DataType;

use super::framework::{FRAMEWORK, Framework, Layout, ReadOnly};

pub(super) static MLX: Framework = Framework {
    name: "mlx",
    module: "mlx.core",
    cpu_only: true,
    read_only: ReadOnly::Copied,
    layout: Layout::NonNegative,
    // It cuts these to numbers of 32 bits without an error.
    takes: |dtype| dtype != DataType::FLOAT64 && dtype != DataType::COMPLEX128,
    ..FRAMEWORK
};
