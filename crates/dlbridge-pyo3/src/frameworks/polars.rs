//! Polars: columns, which are exported to it through Arrow.

use dlbridge::Tensor;

use super::dtypes::is_plain;
use super::framework::{Argument, Behaviour, FRAMEWORK, Framework, Layout, Need, ReadOnly};
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
    needs_copy: |tensor| {
        is_unaligned(tensor).then(|| {
            Need::new(
                "polars copies elements whose address is not a multiple of their size",
                "copy them once, with asdlpack(obj, copy=True)",
            )
        })
    },
    copies_itself: is_unaligned,
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

/// Returns true if the first element is not aligned to its size.
fn is_unaligned(tensor: &Tensor) -> bool {
    let size = tensor.dtype().itemsize();
    !tensor.is_empty() && !tensor.data().addr().is_multiple_of(size)
}

pub(super) static RULES: ImportRules =
    ImportRules { packages: &["polars"], looks_for_attributes: true, ..NO_RULES };
