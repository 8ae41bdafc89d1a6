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
    ..FRAMEWORK
};

pub(super) static RULES: ImportRules = ImportRules { packages: &["pyarrow"], ..NO_RULES };
