//! Tensors, owners and counters that the tests of several adapters share.

mod allocations;
mod chains;
mod foreign;
mod read_only;

pub use allocations::{Counting, allocations};
pub use chains::{STACK, TURNS, repeat};
pub use foreign::{Drops, Layout, foreign, foreign_strided, foreign_vec, misaligned, on_cuda};
pub use read_only::{Writer, written_by_another_handle};
