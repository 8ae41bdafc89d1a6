//! DLPack and the buffer protocol, import and export, and the facts about types. The package has the other protocols.

pub mod buffer;
pub(crate) mod cached_attr;
pub mod dlpack;
pub mod dlpack_export;
pub mod exchange_api;
pub mod exchange_table;
pub mod framework_checks;
pub mod numpy_import;
pub mod storage;
pub mod time;
mod torch_checks;
pub mod torch_view;
pub mod type_info;

pub use self::type_info::TypeInfo;
