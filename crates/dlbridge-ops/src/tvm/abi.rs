//! The structs of tvm-ffi's C interface 0.1, as `tvm/ffi/c_api.h` defines them.

use std::ffi::c_void;
use std::mem::offset_of;
use std::slice;

pub(crate) const NONE: i32 = 0;
pub(crate) const INT: i32 = 1;
pub(crate) const BOOL: i32 = 2;
pub(crate) const FLOAT: i32 = 3;
pub(crate) const DL_TENSOR: i32 = 7;
pub(crate) const RAW_STRING: i32 = 8;
pub(crate) const RVALUE: i32 = 10;
pub(crate) const SMALL_STRING: i32 = 11;
/// Types from here on are objects.
pub(crate) const FIRST_OBJECT: i32 = 64;
pub(crate) const STRING: i32 = 65;
pub(crate) const SHAPE: i32 = 69;
pub(crate) const TENSOR: i32 = 70;
pub(crate) const ARRAY: i32 = 71;
pub(crate) const LIST: i32 = 75;

/// A value of any type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Any {
    /// The type, which selects the field of the payload.
    pub type_index: i32,
    /// The length of a small string; 0 for all other types.
    pub small_length: u32,
    /// The value.
    pub payload: Payload,
}

/// The value of an [`Any`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union Payload {
    /// An integer or a boolean.
    pub int: i64,
    /// A float.
    pub float: f64,
    /// A `DLTensor`, a string that ends with 0, or an object.
    pub pointer: *mut c_void,
    /// A string of at most 7 bytes.
    pub bytes: [u8; 8],
}

/// The header of an object; its content follows.
#[repr(C)]
pub(crate) struct Object {
    pub(crate) reference_counts: u64,
    pub(crate) type_index: i32,
    pub(crate) padding: u32,
    pub(crate) deleter: Deleter,
}

/// The function that frees an object, in 8 bytes on every platform.
#[repr(C)]
pub(crate) union Deleter {
    pub(crate) function: Option<unsafe extern "C" fn(*mut c_void, i32)>,
    pub(crate) bits: i64,
}

/// A pointer and a number of elements: the content of strings and shapes.
#[repr(C)]
pub(crate) struct Run<T> {
    pub(crate) data: *const T,
    pub(crate) length: usize,
}

/// The first fields of arrays and lists.
#[repr(C)]
pub(crate) struct Sequence {
    pub(crate) data: *const Any,
    pub(crate) length: i64,
}

const _: () = {
    assert!(size_of::<Any>() == 16 && offset_of!(Any, small_length) == 4);
    assert!(offset_of!(Any, payload) == 8);
    assert!(size_of::<Object>() == 24 && offset_of!(Object, type_index) == 8);
    assert!(offset_of!(Object, padding) == 12 && offset_of!(Object, deleter) == 16);
    let pointer = size_of::<usize>();
    assert!(size_of::<Run<u8>>() == 2 * pointer && offset_of!(Run<u8>, length) == pointer);
    // The second field has 8 bytes, which some platforms of 32 bits align to 4.
    let second = pointer.next_multiple_of(align_of::<i64>());
    assert!(size_of::<Sequence>() == second + 8 && offset_of!(Sequence, length) == second);
};

impl Any {
    /// The value None.
    pub const NONE: Self = Self { type_index: NONE, small_length: 0, payload: Payload { int: 0 } };

    /// An object, whose reference goes to the receiver.
    pub(crate) fn object(type_index: i32, pointer: *mut c_void) -> Self {
        Self { type_index, small_length: 0, payload: Payload { pointer } }
    }

    /// The content of an object, behind its header.
    ///
    /// # Safety
    /// The value is an object that is alive.
    pub(crate) unsafe fn content<T>(&self) -> *const T {
        // SAFETY: an object's payload is a pointer to its header, which the content follows.
        unsafe { self.payload.pointer.byte_add(size_of::<Object>()).cast_const().cast() }
    }
}

/// The elements at a pointer, which may be null if there are none.
///
/// # Safety
/// `length` elements are at `data` for `'a`, and no code writes them.
pub(crate) unsafe fn slice<'a, T>(data: *const T, length: i64) -> &'a [T] {
    match usize::try_from(length) {
        // SAFETY: the caller guarantees the elements; the pointer is not null.
        Ok(length) if length > 0 && !data.is_null() => unsafe {
            slice::from_raw_parts(data, length)
        },
        _ => &[],
    }
}
