//! The structs of the Arrow C data interface, and helpers to make them.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicIsize, Ordering};

/// The number of structs that are not released yet.
pub(crate) static LIVE: AtomicIsize = AtomicIsize::new(0);

/// An aligned address that no code may read.
pub(crate) const POISON: usize = 0x1000;

pub(crate) fn poison<T>() -> *mut T {
    ptr::without_provenance_mut(POISON)
}

#[repr(C)]
pub(crate) struct ArrowSchema {
    pub(crate) format: *const c_char,
    pub(crate) name: *const c_char,
    pub(crate) metadata: *const c_char,
    pub(crate) flags: i64,
    pub(crate) n_children: i64,
    pub(crate) children: *mut *mut ArrowSchema,
    pub(crate) dictionary: *mut ArrowSchema,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub(crate) private_data: *mut c_void,
}

#[repr(C)]
pub(crate) struct ArrowArray {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    pub(crate) n_buffers: i64,
    pub(crate) n_children: i64,
    pub(crate) buffers: *mut *const c_void,
    pub(crate) children: *mut *mut ArrowArray,
    pub(crate) dictionary: *mut ArrowArray,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(crate) private_data: *mut c_void,
}

#[repr(C)]
pub(crate) struct ArrowDeviceArray {
    pub(crate) array: ArrowArray,
    pub(crate) device_id: i64,
    pub(crate) device_type: i32,
    pub(crate) sync_event: *mut c_void,
    pub(crate) reserved: [i64; 3],
}

pub(crate) type Get<T> = unsafe extern "C" fn(*mut ArrowArrayStream, *mut T) -> c_int;

#[repr(C)]
pub(crate) struct ArrowArrayStream {
    pub(crate) get_schema: Option<Get<ArrowSchema>>,
    pub(crate) get_next: Option<Get<ArrowArray>>,
    pub(crate) get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    pub(crate) private_data: *mut c_void,
}

/// The fault of a pointer to a child, if any.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Child {
    Right,
    NoList,
    OddList,
    Null,
    Odd,
}

pub(crate) const WRONG_CHILDREN: &[Child] =
    &[Child::NoList, Child::OddList, Child::Null, Child::Odd];

/// Returns a list of one child, of exactly its size, and the pointer to it.
pub(crate) fn list<T>(
    child: Option<*mut T>,
    count: i64,
    wrong: Child,
) -> (Option<Box<*mut T>>, *mut *mut T) {
    let entry = match (wrong, child) {
        (_, None) | (Child::Null, _) => ptr::null_mut(),
        (Child::Odd, Some(child)) => child.wrapping_byte_add(1),
        (_, Some(child)) => child,
    };
    match wrong {
        Child::NoList => (None, ptr::null_mut()),
        Child::OddList => (None, poison::<*mut T>().wrapping_byte_add(1)),
        _ if count != 1 => (None, poison()),
        _ => {
            let mut list = Box::new(entry);
            let place = ptr::from_mut(&mut *list);
            (Some(list), place)
        }
    }
}

/// Returns the private data of a struct, counted in `LIVE` until it is released.
pub(crate) fn live<T>(parts: T) -> *mut c_void {
    LIVE.fetch_add(1, Ordering::SeqCst);
    Box::into_raw(Box::new(parts)).cast()
}
