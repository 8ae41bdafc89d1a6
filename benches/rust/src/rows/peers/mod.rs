//! The peers, each used as in its own documentation.

mod dlpack_rs;
mod dlpark;
mod dlpk;

use super::row::Row;

/// The rows of all peers. A peer without an adapter for a work lacks its row.
pub(super) const ROWS: &[Row] = &[
    Row { name: "vec/dlpark", run: dlpark::vec },
    Row { name: "vec/dlpk", run: dlpk::vec },
    Row { name: "vec/dlpack-rs", run: dlpack_rs::vec },
    Row { name: "four/dlpark", run: dlpark::four },
    Row { name: "four/dlpack-rs", run: dlpack_rs::four },
    Row { name: "array/dlpark", run: dlpark::array },
    Row { name: "array/dlpk", run: dlpk::array },
];
