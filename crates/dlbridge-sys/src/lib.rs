//! The C ABI of DLPack 1.3: every struct, code, flag and function type of `dlpack.h`.
//!
//! Names are those of the C header. Nothing here owns, checks or frees anything: the crate
//! `dlbridge` builds the safe, owning tensor on top. Every enumeration of the header is an open
//! newtype ([`DLDeviceType`], [`DLDataTypeCode`]), so that a code from a newer minor version is a
//! value Rust can hold, compare and print.
//!
//! | header | here |
//! | --- | --- |
//! | `DLPackVersion`, the version macros, the flag macros | the crate root |
//! | `DLDeviceType`, `DLDevice` | the crate root |
//! | `DLDataTypeCode`, `DLDataType` | the crate root |
//! | `DLTensor`, `DLManagedTensor`, `DLManagedTensorVersioned` | the crate root |
//! | `DLPackExchangeAPI`, its header and its five function types | the crate root |
//!
//! Sizes, offsets, alignments and values are compared with a C program compiled against the real
//! header by `tests/abi.rs`.
//!
//! ```
//! use dlbridge_sys::{DLDevice, kDLCPU};
//!
//! let device = DLDevice { device_type: kDLCPU, device_id: 0 };
//! assert_eq!(device.device_type.0, 1);
//! ```
#![no_std]

mod device;
mod dtype;
mod exchange_api;
mod tensor;
mod version;

pub use device::*;
pub use dtype::*;
pub use exchange_api::*;
pub use tensor::*;
pub use version::*;

/// Declares the constants of an open newtype, each with an example that states its value.
macro_rules! codes {
    ($type:ident: $($(#[$doc:meta])* $name:ident = $value:literal,)*) => {$(
        $(#[$doc])*
        ///
        #[doc = concat!("```\nassert_eq!(dlbridge_sys::", stringify!($name), ".0, ", $value, ");\n```")]
        #[allow(non_upper_case_globals)]
        pub const $name: $type = $type($value);
    )*};
}
pub(crate) use codes;
