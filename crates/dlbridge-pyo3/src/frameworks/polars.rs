//! Polars: columns, which are exported to it through Arrow.

use super::dtypes::is_plain;
use super::framework::{Argument, Behaviour, FRAMEWORK, Framework, Layout, ReadOnly};
use super::import_rules::{ImportRules, NO_RULES};

pub(super) static POLARS: Framework = Framework {
    name: "polars",
    aliases: &["pl"],
    module: "polars",
    function: "Series",
    argument: Argument::Arrow,
    measured: false,
    stated: Behaviour { read_only: ReadOnly::Immutable, layout: Layout::C, ..Behaviour::FREE },
    immutable: true,
    cpu_only: true,
    min_ndim: 1,
    max_ndim: 1,
    takes: is_plain,
    column: Some(|_| Ok("Series")),
    times: &[
        "datetime64[D]",
        "datetime64[ms]",
        "datetime64[us]",
        "datetime64[ns]",
        "timedelta64[ms]",
        "timedelta64[us]",
        "timedelta64[ns]",
    ],
    ..FRAMEWORK
};

pub(super) static RULES: ImportRules =
    ImportRules { packages: &["polars"], looks_for_attributes: true, ..NO_RULES };
