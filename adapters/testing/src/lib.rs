//! Tensors, owners and counters that the tests of several adapters share.

mod allocations;
mod chains;
mod devices;
mod exports;
mod foreign;
mod matrices;
mod read_only;
mod required;

pub use allocations::{Counting, allocations, large_allocations};
pub use chains::{STACK, TURNS, repeat};
pub use devices::{
    Narrow, SLICES, Slice, assert_bytes, assert_slices, for_each_dtype, for_each_shape, numbers,
    sliced,
};
pub use exports::{consume, through_c, through_legacy_c};
pub use foreign::{
    Counted, Drops, Layout, foreign, foreign_strided, foreign_vec, misaligned, misaligned_floats,
    on_cuda, out_of_reach,
};
pub use matrices::{counting_matrix, product_element};
pub use read_only::{Writer, written_by_another_handle};
pub use required::required;
