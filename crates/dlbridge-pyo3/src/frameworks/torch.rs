//! PyTorch.

use dlbridge::DataType;

use super::dtypes::is_rare;
use super::framework::{Behaviour, FRAMEWORK, Framework, Layout};

pub(super) static TORCH: Framework = Framework {
    name: "torch",
    aliases: &["pytorch"],
    module: "torch",
    table_of: Some("Tensor"),
    on_device: Behaviour { layout: Layout::NonNegative, ..Behaviour::DEVICE },
    // Its tensors cannot have others.
    layout_limit: Layout::NonNegative,
    takes: |dtype| {
        let unknown = [DataType::FLOAT8_E3M4, DataType::FLOAT8_E4M3, DataType::FLOAT8_E4M3B11FNUZ];
        let rare = is_rare(dtype) && dtype != DataType::COMPLEX32;
        !dtype.is_subbyte() && !rare && !unknown.contains(&dtype)
    },
    // Two elements of four bits in a byte, which PyTorch names `float4_e2m1fn_x2`.
    takes_lanes: |dtype| dtype == DataType::FLOAT4_E2M1FN.with_lanes(2),
    counts_bytes: false,
    ..FRAMEWORK
};
