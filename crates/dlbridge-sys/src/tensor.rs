//! The plain tensor and the two managed tensors, with their version and flags.

use core::ffi::c_void;

use crate::{DLDataType, DLDevice};

/// A tensor that owns nothing: the address and the layout of its elements.
///
/// `data` is nominally aligned to 256 bytes; real producers align to the element, or not at all.
/// A tensor without elements should have NULL `data`.
///
/// ```
/// use dlbridge_sys::{DLDataType, DLDevice, DLTensor, kDLCPU, kDLFloat};
///
/// let mut values = [1.0_f32, 2.0, 3.0];
/// let (mut shape, mut strides) = ([3_i64], [1_i64]);
/// let tensor = DLTensor {
///     data: values.as_mut_ptr().cast(),
///     device: DLDevice { device_type: kDLCPU, device_id: 0 },
///     ndim: 1,
///     dtype: DLDataType { code: kDLFloat, bits: 32, lanes: 1 },
///     shape: shape.as_mut_ptr(),
///     strides: strides.as_mut_ptr(),
///     byte_offset: 0,
/// };
/// assert_eq!(tensor.ndim, 1);
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// The start of the allocation, or a handle on some device types.
    pub data: *mut c_void,
    /// The device that holds the data.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// `ndim` extents in elements. May be NULL when `ndim` is 0.
    pub shape: *mut i64,
    /// `ndim` strides in elements. May be NULL when `ndim` is 0; before DLPack 1.2, NULL also
    /// meant C order.
    pub strides: *mut i64,
    /// The distance in bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// The deleter of a [`DLManagedTensor`]: frees what `manager_ctx` holds and the struct itself.
///
/// ```
/// use dlbridge_sys::{DLManagedTensor, DLManagedTensorDeleter};
///
/// unsafe extern "C" fn nothing_to_free(_: *mut DLManagedTensor) {}
/// let deleter: DLManagedTensorDeleter = nothing_to_free;
/// ```
pub type DLManagedTensorDeleter = unsafe extern "C" fn(*mut DLManagedTensor);

/// A tensor exported with a deleter: the legacy struct, without version and flags.
///
/// ```
/// use dlbridge_sys::{DLManagedTensor, DLTensor};
///
/// assert_eq!(core::mem::offset_of!(DLManagedTensor, manager_ctx), size_of::<DLTensor>());
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The producer's data for the deleter. May be NULL.
    pub manager_ctx: *mut c_void,
    /// Frees the tensor; `None` when there is nothing to call.
    pub deleter: Option<DLManagedTensorDeleter>,
}

/// The deleter of a [`DLManagedTensorVersioned`]: frees what `manager_ctx` holds and the struct
/// itself.
///
/// ```
/// use dlbridge_sys::{DLManagedTensorVersioned, DLManagedTensorVersionedDeleter};
///
/// unsafe extern "C" fn nothing_to_free(_: *mut DLManagedTensorVersioned) {}
/// let deleter: DLManagedTensorVersionedDeleter = nothing_to_free;
/// ```
pub type DLManagedTensorVersionedDeleter = unsafe extern "C" fn(*mut DLManagedTensorVersioned);

/// A tensor exported with a deleter, a version and flags.
///
/// Read `version` first. With another major version, only `manager_ctx`, `deleter` and `flags` are
/// where this struct has them: call the deleter and read nothing after `flags`.
///
/// ```
/// use dlbridge_sys::DLManagedTensorVersioned;
///
/// assert_eq!(core::mem::offset_of!(DLManagedTensorVersioned, version), 0);
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version of DLPack this struct was written for.
    pub version: DLPackVersion,
    /// The producer's data for the deleter. May be NULL.
    pub manager_ctx: *mut c_void,
    /// Frees the tensor; `None` when there is nothing to call.
    pub deleter: Option<DLManagedTensorVersionedDeleter>,
    /// A combination of the `DLPACK_FLAG_BITMASK_*` constants.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

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
