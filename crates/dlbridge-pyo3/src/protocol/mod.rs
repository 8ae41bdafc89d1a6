//! The protocols: one file for each, import and export together. `import` tries them.

pub(crate) mod array_interface;
pub(crate) mod array_struct;
pub(crate) mod arrow;
pub(crate) mod buffer;
pub(crate) mod buffer_export;
pub(crate) mod buffer_format;
pub(crate) mod cached_attr;
pub(crate) mod cuda_array_interface;
pub(crate) mod device_copy;
pub(crate) mod dlpack;
pub(crate) mod dlpack_export;
pub(crate) mod dlpack_method;
pub(crate) mod exchange_api;
pub(crate) mod exchange_table;
pub(crate) mod exported;
pub(crate) mod framework_checks;
pub(crate) mod memory;
pub(crate) mod memory_owner;
pub(crate) mod numpy_import;
pub(crate) mod source;
pub(crate) mod storage;
pub(crate) mod time;
pub(crate) mod torch_view;
pub(crate) mod type_checks;
pub(crate) mod type_info;
pub(crate) mod typestr;

use dlbridge::Tensor;
use dlbridge::sys::DLPACK_FLAG_BITMASK_IS_COPIED;

pub(crate) use self::type_info::TypeInfo;

/// Returns true if the producer says that the tensor is a copy.
pub(crate) fn is_copied(tensor: &Tensor) -> bool {
    tensor.flags() & DLPACK_FLAG_BITMASK_IS_COPIED != 0
}
