//! Every raw pointer of the core. The invariants are stated here, once; SAFETY comments cite them
//! by label.
//!
//! Let `m` be the `DLManagedTensorVersioned` that a [`Managed`] points at, and `t` its `dl_tensor`.
//!
//! - **Block.** `m` begins a heap block laid out by `block/`: header, owner, extents and strides.
//!   The `Managed` is the only handle on it: nobody else calls the deleter, and it has not run.
//! - **Dims.** `0 <= t.ndim <= MAX_NDIM`; `t.shape` and `t.strides` are not NULL, are aligned and
//!   point at `ndim` initialised `i64`, which nobody writes while the block lives. They are in the
//!   block itself or in one that the owner keeps alive.
//! - **Layout.** Extents are not negative; element count and byte extent fit an `isize`; address
//!   arithmetic within the byte extent does not wrap around the address space.
//! - **Data.** If the tensor has elements and its device is host-accessible, `t.byte_offset` is 0
//!   and the byte extent around `t.data` lies in one allocation; every byte of every element is
//!   initialised and stays valid for reads until the owner is dropped, and for writes too unless
//!   `READ_ONLY` is set. What lies between elements may be anything, and is not touched.
//!   A tensor without elements has NULL `data`.
//! - **Calm.** Nothing writes the data while a view borrowed from the tensor is alive. For memory
//!   that Rust owns and does not export the types guarantee it; for foreign memory it is the contract
//!   of [`Tensor::from_raw`](crate::Tensor::from_raw), and for memory that [`Tensor::lend`](crate::Tensor::lend)
//!   exported, the duty of the code that passed it on.
//! - **Exclusive.** If `IS_COPIED` is set and `READ_ONLY` is not, only two parties read or write the data:
//!   the holder of the `Managed` and, while that is in an `Arc`, the consumers it was exported to. So code
//!   that has it by `&mut` is its only user.
//! - **Immutable.** If the block's bit `immutable` is set, nothing writes the data until the owner is dropped or taken
//!   out of the block, and `READ_ONLY` is set. The bit comes from an owner that promises it, from exclusive data
//!   that its only holder gave up writing ([`Tensor::try_into_immutable`](crate::Tensor::try_into_immutable)), or
//!   from an unsafe promise ([`Tensor::assume_immutable`](crate::Tensor::assume_immutable)); never from a flag.
//! - **Dtype.** The dtype passed [`DataType::check`](crate::DataType::check).
//! - **Send.** The owner may be dropped on any thread.
//!
//! `view.rs` adds **View** for typed views, `tensor_ref/mod.rs` **Ref** for borrowed tensors of any
//! dtype, and `layout/part.rs` **Part** for parts of a layout.

mod aligned;
mod block;
mod byte_order;
mod copy;
mod dl_tensor;
mod doors;
mod element;
mod export;
mod import;
mod iter;
mod origin;
mod owner;
mod pace;
mod pages;
mod parts;
mod slice;
mod strided;
mod subbyte;
mod tensor_ref;
mod tensor_ref_mut;
mod threads;
mod unaligned;
mod view;
mod whole_bytes;
mod zeros;

#[cfg(feature = "ndarray")]
pub(crate) use block::DimsOut;
pub(crate) use block::Managed;
pub(crate) use copy::{to_vec, try_to_vec, with_room};
pub use dl_tensor::DLTensorRef;
pub use element::Element;
pub(crate) use export::{into_raw_legacy, lend, lend_legacy, share, share_bytes};
pub use iter::{Iter, IterMut};
#[cfg(feature = "ndarray")]
pub(crate) use owner::from_strided;
pub use owner::{Items, Owner};
pub(crate) use owner::{from_adjacent, from_bytes, from_owner, from_whole};
pub use parts::RawParts;
pub use slice::{TensorSlice, TensorSliceMut};
pub(crate) use subbyte::to_copy as to_subbyte_copy;
pub use subbyte::{SubbyteView, SubbyteViewMut};
pub use tensor_ref::TensorRef;
pub use tensor_ref_mut::TensorRefMut;
pub use unaligned::Unaligned;
pub use view::{TensorView, TensorViewMut};
pub(crate) use zeros::zeroed;
