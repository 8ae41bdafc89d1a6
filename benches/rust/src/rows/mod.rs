//! The rows: one piece of work, as one library does it.
//!
//! | work | |
//! | --- | --- |
//! | `vec` | a `Vec<f32>` becomes a versioned managed tensor, whose deleter is called |
//! | `four` | the same with a buffer of four dimensions |
//! | `array` | an `ndarray::Array3` becomes a tensor, that a view, of which an element is read; then it is dropped |
//!
//! A row's name is `WORK/LIBRARY`. `WORK/source` only makes and drops what the others of that work begin with, and
//! is subtracted from them.

mod dlbridge;
mod dlpack_rs;
mod dlpark;
mod dlpk;
mod floor;
mod source;

/// One piece of work, as one library does it.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
}

/// All rows.
pub(crate) const ROWS: &[Row] = &[
    Row { name: "vec/source", run: source::vec },
    Row { name: "vec/floor", run: floor::vec },
    Row { name: "vec/dlbridge", run: dlbridge::vec },
    Row { name: "vec/dlpark", run: dlpark::vec },
    Row { name: "vec/dlpk", run: dlpk::vec },
    Row { name: "vec/dlpack-rs", run: dlpack_rs::vec },
    Row { name: "four/source", run: source::vec },
    Row { name: "four/floor", run: floor::four },
    Row { name: "four/dlbridge", run: dlbridge::four },
    Row { name: "four/dlpark", run: dlpark::four },
    Row { name: "four/dlpack-rs", run: dlpack_rs::four },
    Row { name: "array/source", run: source::array },
    Row { name: "array/floor", run: floor::array },
    Row { name: "array/dlbridge", run: dlbridge::array },
    Row { name: "array/dlpark", run: dlpark::array },
    Row { name: "array/dlpk", run: dlpk::array },
];

/// The row of a name.
pub(crate) fn named(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}
