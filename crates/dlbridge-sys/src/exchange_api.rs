//! The C exchange API: a table of functions that a Python tensor type offers as
//! `__dlpack_c_exchange_api__`, a capsule named `dlpack_exchange_api`.

use core::ffi::{c_char, c_int, c_void};

use crate::{DLDeviceType, DLManagedTensorVersioned, DLPackVersion, DLTensor};

/// Reports an error of a [`DLPackManagedTensorAllocator`]: context, kind, message.
///
/// ```
/// use core::ffi::{c_char, c_void};
/// use dlbridge_sys::DLPackSetError;
///
/// unsafe extern "C" fn ignore(_: *mut c_void, _kind: *const c_char, _message: *const c_char) {}
/// let set_error: DLPackSetError = ignore;
/// ```
pub type DLPackSetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// Makes a new tensor like `prototype` (its dtype, ndim, shape and device). Returns 0, or -1 after
/// calling the error function.
///
/// ```
/// # use dlbridge_sys::DLPackExchangeAPI;
/// fn can_allocate(api: &DLPackExchangeAPI) -> bool {
///     let allocate: Option<dlbridge_sys::DLPackManagedTensorAllocator> = api.managed_tensor_allocator;
///     allocate.is_some()
/// }
/// ```
pub type DLPackManagedTensorAllocator = unsafe extern "C" fn(
    prototype: *mut DLTensor,
    out: *mut *mut DLManagedTensorVersioned,
    error_ctx: *mut c_void,
    set_error: Option<DLPackSetError>,
) -> c_int;

/// Exports a Python tensor of the table's type as an owning managed tensor, without synchronising
/// any stream. Returns 0, or -1 with a Python exception set.
///
/// ```
/// # use dlbridge_sys::DLPackExchangeAPI;
/// use dlbridge_sys::DLPackManagedTensorFromPyObjectNoSync;
///
/// fn export(api: &DLPackExchangeAPI) -> Option<DLPackManagedTensorFromPyObjectNoSync> {
///     api.managed_tensor_from_py_object_no_sync
/// }
/// ```
pub type DLPackManagedTensorFromPyObjectNoSync =
    unsafe extern "C" fn(py_object: *mut c_void, out: *mut *mut DLManagedTensorVersioned) -> c_int;

/// Describes a Python tensor of the table's type in the caller's struct, valid until control
/// returns to Python, without synchronising any stream. Returns 0, or -1 with a Python exception
/// set.
///
/// ```
/// # use dlbridge_sys::DLPackExchangeAPI;
/// use dlbridge_sys::DLPackDLTensorFromPyObjectNoSync;
///
/// fn borrow(api: &DLPackExchangeAPI) -> Option<DLPackDLTensorFromPyObjectNoSync> {
///     api.dltensor_from_py_object_no_sync
/// }
/// ```
pub type DLPackDLTensorFromPyObjectNoSync =
    unsafe extern "C" fn(py_object: *mut c_void, out: *mut DLTensor) -> c_int;

/// Stores the stream that a framework is working on; NULL on the CPU. Returns 0, or -1 with a
/// Python exception set.
///
/// ```
/// # use dlbridge_sys::DLPackExchangeAPI;
/// use dlbridge_sys::DLPackCurrentWorkStream;
///
/// fn stream(api: &DLPackExchangeAPI) -> Option<DLPackCurrentWorkStream> {
///     api.current_work_stream
/// }
/// ```
pub type DLPackCurrentWorkStream = unsafe extern "C" fn(
    device_type: DLDeviceType,
    device_id: i32,
    out_current_stream: *mut *mut c_void,
) -> c_int;

/// Imports an owning managed tensor as a Python tensor of the table's type, without synchronising
/// any stream. Takes ownership of the tensor. Returns 0, or -1 with a Python exception set.
///
/// ```
/// # use dlbridge_sys::DLPackExchangeAPI;
/// use dlbridge_sys::DLPackManagedTensorToPyObjectNoSync;
///
/// fn import(api: &DLPackExchangeAPI) -> Option<DLPackManagedTensorToPyObjectNoSync> {
///     api.managed_tensor_to_py_object_no_sync
/// }
/// ```
pub type DLPackManagedTensorToPyObjectNoSync = unsafe extern "C" fn(
    tensor: *mut DLManagedTensorVersioned,
    out_py_object: *mut *mut c_void,
) -> c_int;

/// The start of the table in every version. Check the major version before reading on.
///
/// ```
/// use dlbridge_sys::{DLPackExchangeAPIHeader, DLPackVersion};
///
/// let header =
///     DLPackExchangeAPIHeader { version: DLPackVersion::CURRENT, prev_api: core::ptr::null_mut() };
/// assert!(header.prev_api.is_null());
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct DLPackExchangeAPIHeader {
    /// The version of DLPack the table was written for.
    pub version: DLPackVersion,
    /// The table of an older major version, or NULL.
    pub prev_api: *mut DLPackExchangeAPIHeader,
}

/// The table of functions. It lives as long as the process.
///
/// The header allows NULL only in `dltensor_from_py_object_no_sync`. All fields are options,
/// because a table comes from another library, which may be wrong.
///
/// ```
/// use dlbridge_sys::DLPackExchangeAPI;
///
/// assert_eq!(core::mem::offset_of!(DLPackExchangeAPI, header), 0);
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct DLPackExchangeAPI {
    /// Version and older table.
    pub header: DLPackExchangeAPIHeader,
    /// Makes new tensors.
    pub managed_tensor_allocator: Option<DLPackManagedTensorAllocator>,
    /// Python tensor to managed tensor.
    pub managed_tensor_from_py_object_no_sync: Option<DLPackManagedTensorFromPyObjectNoSync>,
    /// Managed tensor to Python tensor.
    pub managed_tensor_to_py_object_no_sync: Option<DLPackManagedTensorToPyObjectNoSync>,
    /// Python tensor to borrowed tensor; may be NULL.
    pub dltensor_from_py_object_no_sync: Option<DLPackDLTensorFromPyObjectNoSync>,
    /// The stream in use.
    pub current_work_stream: Option<DLPackCurrentWorkStream>,
}
