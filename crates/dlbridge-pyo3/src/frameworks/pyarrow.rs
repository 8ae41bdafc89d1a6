//! pyarrow's `Tensor`.

use super::dtypes::is_plain;
use super::framework::{FRAMEWORK, Framework};

pub(super) static PYARROW: Framework = Framework {
    name: "pyarrow",
    aliases: &["pa"],
    module: "pyarrow",
    cpu_only: true,
    function: "Tensor.from_dlpack",
    takes: is_plain,
    ..FRAMEWORK
};
