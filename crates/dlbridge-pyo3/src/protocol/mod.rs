//! The import by DLPack and by buffers, and the facts about types. The package has the other protocols.

pub mod buffer;
pub mod dlpack;
pub mod exchange_api;
pub mod framework_checks;
pub mod numpy;
pub mod time;
pub mod torch_view;
pub mod type_info;

pub use self::type_info::TypeInfo;
