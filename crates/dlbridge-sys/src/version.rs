//! The version of the ABI and the flags of a versioned managed tensor.

/// The major version of the ABI described here. A tensor of another major version has another
/// memory layout after its `flags` field.
///
/// ```
/// assert_eq!(dlbridge_sys::DLPACK_MAJOR_VERSION, 1);
/// ```
pub const DLPACK_MAJOR_VERSION: u32 = 1;

/// The minor version of the ABI described here. Minor versions add codes and never change layout.
///
/// ```
/// assert_eq!(dlbridge_sys::DLPACK_MINOR_VERSION, 3);
/// ```
pub const DLPACK_MINOR_VERSION: u32 = 3;

/// Flag: the consumer must not write the data.
///
/// ```
/// assert_eq!(dlbridge_sys::DLPACK_FLAG_BITMASK_READ_ONLY, 1);
/// ```
pub const DLPACK_FLAG_BITMASK_READ_ONLY: u64 = 1 << 0;

/// Flag: the producer made a copy, which belongs to the consumer alone until it calls the deleter.
///
/// ```
/// assert_eq!(dlbridge_sys::DLPACK_FLAG_BITMASK_IS_COPIED, 2);
/// ```
pub const DLPACK_FLAG_BITMASK_IS_COPIED: u64 = 1 << 1;

/// Flag: elements narrower than a byte take a whole byte each. Without it they are packed.
///
/// ```
/// assert_eq!(dlbridge_sys::DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, 4);
/// ```
pub const DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED: u64 = 1 << 2;

/// The version of DLPack that a struct was written for.
///
/// ```
/// use dlbridge_sys::DLPackVersion;
///
/// let version = DLPackVersion { major: 1, minor: 3 };
/// assert_eq!(version, DLPackVersion::CURRENT);
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DLPackVersion {
    /// Grows when the memory layout changes.
    pub major: u32,
    /// Grows when codes are added.
    pub minor: u32,
}

impl DLPackVersion {
    /// The version this crate describes.
    ///
    /// ```
    /// use dlbridge_sys::{DLPACK_MINOR_VERSION, DLPackVersion};
    ///
    /// assert_eq!(DLPackVersion::CURRENT.minor, DLPACK_MINOR_VERSION);
    /// ```
    pub const CURRENT: Self = Self { major: DLPACK_MAJOR_VERSION, minor: DLPACK_MINOR_VERSION };
}
