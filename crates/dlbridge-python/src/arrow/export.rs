//! The export through Arrow.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU8;

use dlbridge::{ArcTensor, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::Capsules;
use super::abi::{ArrowArray, ArrowSchema, NULLABLE, Owned, Release};
use super::format::{self, FIXED_SHAPE};
use dlbridge_pyo3::layout::root;

/// A capsule over the schema and one over the array of a tensor.
pub(crate) fn export<'py>(py: Python<'py>, tensor: &ArcTensor) -> PyResult<Capsules<'py>> {
    let schema = export_schema(py, tensor)?;
    let length = tensor.len() as i64;
    let numbers = array(length, vec![ptr::null(), data(tensor)], None, Some(root(tensor)));
    let array = match tensor.shape() {
        [_] => numbers,
        shape => array(shape[0], vec![ptr::null()], Some(numbers), None),
    };
    Ok((schema, capsule(py, array)?))
}

/// A capsule over the schema of a tensor.
pub(crate) fn export_schema<'py>(
    py: Python<'py>,
    tensor: &Tensor,
) -> PyResult<Bound<'py, PyCapsule>> {
    let (numbers, items) = form(tensor)?;
    let [_, lists @ ..] = tensor.shape() else { unreachable!("the tensor has a dimension") };
    if lists.is_empty() {
        return capsule(py, schema(numbers, c"", Vec::new(), None));
    }
    let item = schema(numbers, c"item", Vec::new(), None);
    let metadata = metadata(&[
        ("ARROW:extension:name", FIXED_SHAPE.to_owned()),
        ("ARROW:extension:metadata", format!("{{\"shape\":{lists:?}}}")),
    ]);
    capsule(py, schema(&list_of(items), c"", metadata, Some(item)))
}

/// The format of the numbers of a tensor that an Arrow array can hold, and their number in each of its lists.
pub(super) fn form(tensor: &Tensor) -> PyResult<(&'static CStr, i64)> {
    let refuse = |reason: String| Err(PyBufferError::new_err(reason));
    let (dtype, device) = (tensor.dtype(), tensor.device());
    if !device.device_type().is_host_accessible() {
        return refuse(format!("the data is on {device}, and Arrow needs it on the CPU"));
    }
    let Some(numbers) = format::of_dtype(dtype) else {
        return refuse(format!(
            "Arrow has no type with the memory layout of {dtype}; convert the elements first (it packs \
             booleans eight to a byte)"
        ));
    };
    if !tensor.is_c_contiguous() {
        return refuse(
            "an Arrow array has no strides, and the elements are not contiguous; copy them first, \
             for example with dlbridge.asdlpack(t, contiguous='C')"
                .to_owned(),
        );
    }
    let Some((_, lists)) = tensor.shape().split_first() else {
        return refuse("an Arrow array has a length; give the tensor a dimension first".to_owned());
    };
    // The product of the extents fits, because the tensor has a size; but not if one of them is 0.
    let items = lists.iter().try_fold(1_i64, |n, &extent| n.checked_mul(extent));
    match items.filter(|&items| i32::try_from(items).is_ok()) {
        Some(items) => Ok((numbers, items)),
        None => refuse("the lists of an Arrow array must be shorter than 2^31".to_owned()),
    }
}

/// The format of fixed-size lists.
pub(super) fn list_of(items: i64) -> CString {
    CString::new(format!("+w:{items}")).expect("digits")
}

/// The buffer of a tensor's elements, which must not be NULL.
pub(super) fn data(tensor: &Tensor) -> *const c_void {
    match tensor.is_empty() {
        true => ptr::dangling::<u64>().cast(),
        false => tensor.data().cast_const(),
    }
}

/// Encodes pairs as the interface does.
fn metadata(pairs: &[(&str, String)]) -> Vec<u8> {
    let mut bytes = (pairs.len() as i32).to_ne_bytes().to_vec();
    for text in pairs.iter().flat_map(|(key, value)| [*key, value.as_str()]) {
        bytes.extend((text.len() as i32).to_ne_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// The memory that a schema points at.
struct SchemaParts {
    format: CString,
    metadata: Vec<u8>,
    child: Option<Box<ArrowSchema>>,
    children: [*mut ArrowSchema; 1],
}

pub(super) fn schema(
    format: &CStr,
    name: &'static CStr,
    metadata: Vec<u8>,
    child: Option<ArrowSchema>,
) -> ArrowSchema {
    let (format, child) = (format.to_owned(), child.map(Box::new));
    let parts = SchemaParts { format, metadata, child, children: [ptr::null_mut()] };
    let parts = Box::leak(Box::new(parts));
    if let Some(child) = &mut parts.child {
        parts.children = [ptr::from_mut(&mut **child)];
    }
    let has_metadata = !parts.metadata.is_empty();
    ArrowSchema {
        format: parts.format.as_ptr(),
        name: name.as_ptr(),
        metadata: if has_metadata { parts.metadata.as_ptr().cast::<c_char>() } else { ptr::null() },
        flags: NULLABLE,
        n_children: i64::from(parts.child.is_some()),
        children: parts.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: ptr::from_mut(parts).cast(),
    }
}

unsafe extern "C" fn release_schema(released: *mut ArrowSchema) {
    // SAFETY: the interface: one of our schemas, released once; `schema` stored its parts there.
    unsafe {
        let mut parts = Box::from_raw((*released).private_data.cast::<SchemaParts>());
        // The consumer may have moved the child out, and left it released.
        if let Some(child) = &mut parts.child {
            child.release();
        }
        (*released).release = None;
    }
}

/// Marks an array that dlbridge made. Writable, so that no linker merges it with another static.
static BRAND: AtomicU8 = AtomicU8::new(0);

/// The memory that an array points at.
#[repr(C)]
struct ArrayParts {
    /// The first field: the address of [`BRAND`].
    brand: *const u8,
    buffers: Vec<*const c_void>,
    child: Option<Box<ArrowArray>>,
    children: [*mut ArrowArray; 1],
    owner: Option<ArcTensor>,
}

pub(super) fn array(
    length: i64,
    buffers: Vec<*const c_void>,
    child: Option<ArrowArray>,
    owner: Option<ArcTensor>,
) -> ArrowArray {
    let child = child.map(Box::new);
    let (brand, children) = (BRAND.as_ptr().cast_const(), [ptr::null_mut()]);
    let parts = ArrayParts { brand, buffers, child, children, owner };
    let parts = Box::leak(Box::new(parts));
    if let Some(child) = &mut parts.child {
        parts.children = [ptr::from_mut(&mut **child)];
    }
    ArrowArray {
        length,
        null_count: 0,
        offset: 0,
        n_buffers: parts.buffers.len() as i64,
        n_children: i64::from(parts.child.is_some()),
        buffers: parts.buffers.as_mut_ptr(),
        children: parts.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_array),
        private_data: ptr::from_mut(parts).cast(),
    }
}

/// The tensor that keeps the elements of an array that dlbridge made; `None` for others.
pub(super) fn tensor_of(array: &ArrowArray) -> Option<&ArcTensor> {
    let is_ours = array.release.is_some_and(|release| {
        ptr::fn_addr_eq(release, release_array as unsafe extern "C" fn(*mut ArrowArray))
    });
    // SAFETY: a linker may have merged the functions of two versions of this crate, but then both use the same memory
    // layout, which begins with the address of a brand. The brand is unique.
    let is_ours = is_ours && unsafe { *array.private_data.cast::<*const u8>() } == BRAND.as_ptr();
    if !is_ours {
        return None;
    }
    // SAFETY: the array is ours and not released, so `array` stored its parts there.
    let parts = unsafe { &*array.private_data.cast::<ArrayParts>() };
    if let Some(owner) = &parts.owner {
        return Some(owner);
    }
    // A child that was moved out is released, and not ours.
    parts.child.as_deref().and_then(tensor_of)
}

unsafe extern "C" fn release_array(released: *mut ArrowArray) {
    // SAFETY: the interface: one of our arrays, released once; `array` stored its parts there. The tensor may be
    // released on any thread.
    unsafe {
        let mut parts = Box::from_raw((*released).private_data.cast::<ArrayParts>());
        if let Some(child) = &mut parts.child {
            child.release();
        }
        (*released).release = None;
    }
}

/// A capsule that owns a struct, and releases it unless a consumer has moved it out.
pub(super) fn capsule<T: Release>(py: Python<'_>, owned: T) -> PyResult<Bound<'_, PyCapsule>> {
    let pointer = Box::into_raw(Box::new(owned));
    let place = NonNull::new(pointer.cast()).expect("a box is never NULL");
    // SAFETY: the destructor is the one for the type, and takes ownership of the box.
    let made = unsafe {
        PyCapsule::new_with_pointer_and_destructor(py, place, T::CAPSULE, Some(destroy::<T>))
    };
    // SAFETY: no capsule was made, so the box is still ours.
    made.inspect_err(|_| drop(Owned(unsafe { Box::from_raw(pointer) })))
}

/// The destructor of a capsule over a struct.
unsafe extern "C" fn destroy<T: Release>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it attached, with the dying capsule, over the box that `capsule` made.
    unsafe {
        let pointer = ffi::PyCapsule_GetPointer(capsule, T::CAPSULE.as_ptr()).cast::<T>();
        if !pointer.is_null() {
            drop(Owned(Box::from_raw(pointer)));
        }
    }
}
