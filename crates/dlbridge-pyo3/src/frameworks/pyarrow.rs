//! pyarrow's `Tensor`.

use super::dtypes::is_plain;
use super::framework::{FRAMEWORK, Framework};
use super::import_rules::{ImportRules, NO_RULES};

pub(super) static PYARROW: Framework = Framework {
    name: "pyarrow",
    aliases: &["pa"],
    module: "pyarrow",
    cpu_only: true,
    function: "Tensor.from_dlpack",
    takes: is_plain,
    column: Some(|_| Ok("array")),
    times: &[
        "datetime64[D]",
        "datetime64[s]",
        "datetime64[ms]",
        "datetime64[us]",
        "datetime64[ns]",
        "timedelta64[s]",
        "timedelta64[ms]",
        "timedelta64[us]",
        "timedelta64[ns]",
    ],
    ..FRAMEWORK
};

pub(super) static RULES: ImportRules = ImportRules { packages: &["pyarrow"], ..NO_RULES };
