//! The C ABI of DLPack 1.3: every struct, code, flag and function type of `dlpack.h`.
//!
//! Names are those of the C header. This crate owns, checks and frees nothing: the crate
//! `dlbridge` builds the safe, owning tensor on top. Every enumeration of the header is an open
//! newtype ([`DLDeviceType`], [`DLDataTypeCode`]), so Rust can hold, compare and print a code from
//! a newer minor version.
//!
//! | header | here |
//! | --- | --- |
//! | `DLPackVersion`, the version macros, the flag macros | the crate root |
//! | `DLDeviceType`, `DLDevice` | the crate root |
//! | `DLDataTypeCode`, `DLDataType` | the crate root |
//! | `DLTensor`, `DLManagedTensor`, `DLManagedTensorVersioned` | the crate root |
//! | `DLPackExchangeAPI`, its header and its five function types | the crate root |
//!
//! `tests/abi.rs` compares sizes, offsets, alignments and values with those that a C program
//! prints, compiled against the real header. For pointers of 64 bits, and for pointers of 32 bits
//! with `u64` aligned to 8 or 4 bytes, a build also asserts the layouts; for any other target it
//! asserts nothing. `tests/layout.rs` compares them with C compilers for many targets.
//!
//! ```
//! use dlbridge_sys::{DLDevice, kDLCPU};
//!
//! let device = DLDevice { device_type: kDLCPU, device_id: 0 };
//! assert_eq!(device.device_type.0, 1);
//! ```
#![no_std]

mod enums;
mod exchange_api;
mod layout;
mod tensor;

pub use enums::*;
pub use exchange_api::*;
pub use tensor::*;

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

/// The column of [`layout::layouts`] for this target. `None` on a target with another size of a pointer or alignment of
/// `u64`: the header's layout there is not known, so the build asserts nothing.
const LAYOUT: Option<usize> = match (size_of::<*const ()>(), align_of::<u64>()) {
    (8, 8) => Some(0),
    (4, 8) => Some(1),
    (4, 4) => Some(2),
    _ => None,
};

/// Asserts the layout of each struct, and that no field is missing in the list.
macro_rules! assert_layouts {
    ($($struct:ident {
        size $($size:literal)*, align $($align:literal)*,
        $($field:ident $($offset:literal)*),*
    })*) => {$(
        const _: fn(&$struct) = |$struct { $($field: _),* }| ();
        const _: () = if let Some(layout) = LAYOUT {
            assert!(size_of::<$struct>() == [$($size),*][layout]);
            assert!(align_of::<$struct>() == [$($align),*][layout]);
            $(assert!(core::mem::offset_of!($struct, $field) == [$($offset),*][layout]);)*
        };
    )*};
}
layout::layouts!(assert_layouts);
