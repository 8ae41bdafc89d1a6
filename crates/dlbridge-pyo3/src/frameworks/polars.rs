//! Polars: columns, which enter by Arrow.

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
    ..FRAMEWORK
};

pub(super) static RULES: ImportRules =
    ImportRules { packages: &["polars"], looks_for_attributes: true, ..NO_RULES };
