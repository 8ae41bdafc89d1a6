//! DLPack and the buffer protocol, import and export, and the facts about types. The package has the other protocols.

pub mod buffer;
pub mod buffer_format;
pub(crate) mod cached_attr;
pub mod dlpack;
pub mod dlpack_export;
pub mod exchange_api;
pub mod exchange_table;
pub mod framework_checks;
pub mod numpy_import;
pub mod same_buffer;
pub mod storage;
pub mod time;
pub mod torch_view;
pub mod type_info;

use dlbridge::Tensor;
use dlbridge::sys::DLPACK_FLAG_BITMASK_IS_COPIED;

pub use self::type_info::TypeInfo;

/// Returns true if the producer says that the tensor is a copy.
pub(crate) fn is_copied(tensor: &Tensor) -> bool {
    tensor.flags() & DLPACK_FLAG_BITMASK_IS_COPIED != 0
}
