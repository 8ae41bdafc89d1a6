//! What others do, each as its own documentation has it.

mod dlpack_rs;
mod dlpark;
mod dlpk;

use super::Row;

/// The rows of all peers; who has no adapter for a work has no row of it.
pub(super) const ROWS: &[Row] = &[
    Row { name: "vec/dlpark", run: dlpark::vec },
    Row { name: "vec/dlpk", run: dlpk::vec },
    Row { name: "vec/dlpack-rs", run: dlpack_rs::vec },
    Row { name: "four/dlpark", run: dlpark::four },
    Row { name: "four/dlpack-rs", run: dlpack_rs::four },
    Row { name: "array/dlpark", run: dlpark::array },
    Row { name: "array/dlpk", run: dlpk::array },
];
