//! The rows: one piece of work by one library each.
//!
//! | work | |
//! | --- | --- |
//! | `vec` | a `Vec<f32>` becomes a versioned managed tensor, whose deleter is called |
//! | `four` | the same with a buffer of four dimensions |
//! | `array` | an `ndarray::Array3` becomes a tensor, then a view; one element is read, and the tensor is dropped |
//!
//! A row's name is `WORK/LIBRARY`. `WORK/source` only makes and drops the value that the other rows of this work begin
//! with, and is subtracted from them.

mod dlbridge;
mod floor;
#[cfg(feature = "peers")]
mod peers;
mod source;

/// One piece of work by one library.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
}

/// All rows.
pub(crate) fn all() -> Vec<Row> {
    #[cfg(feature = "peers")]
    let others = peers::ROWS;
    #[cfg(not(feature = "peers"))]
    let others = &[];
    [OURS, others].concat()
}

/// dlbridge, its source, and hand-written code.
const OURS: &[Row] = &[
    Row { name: "vec/source", run: source::vec },
    Row { name: "vec/floor", run: floor::vec },
    Row { name: "vec/dlbridge", run: dlbridge::vec },
    Row { name: "four/source", run: source::vec },
    Row { name: "four/floor", run: floor::four },
    Row { name: "four/dlbridge", run: dlbridge::four },
    Row { name: "array/source", run: source::array },
    Row { name: "array/floor", run: floor::array },
    Row { name: "array/dlbridge", run: dlbridge::array },
];

/// Returns the row with a name.
pub(crate) fn named(name: &str) -> Option<Row> {
    all().into_iter().find(|row| row.name == name)
}
