//! Python objects that export the structs.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::abi::{ArrowArray, ArrowArrayStream, ArrowSchema, LIVE};

/// An object with one of the methods of the interface.
macro_rules! producer {
    ($name:ident, $method:ident) => {
        #[pyclass(frozen)]
        pub(crate) struct $name(pub(crate) Py<PyAny>);

        #[pymethods]
        impl $name {
            fn $method(&self, py: Python<'_>) -> Py<PyAny> {
                self.0.clone_ref(py)
            }
        }
    };
}

producer!(OfArray, __arrow_c_array__);
producer!(OfDevice, __arrow_c_device_array__);
producer!(OfStream, __arrow_c_stream__);

/// A struct in a capsule without a destructor, released at the end unless the consumer has moved it out.
pub(crate) struct Place<T> {
    pub(crate) place: *mut T,
    pub(crate) release: fn(&mut T),
}

impl<T> Place<T> {
    pub(crate) fn new(value: T, release: fn(&mut T)) -> Self {
        Self { place: Box::into_raw(Box::new(value)), release }
    }

    pub(crate) fn capsule<'py>(&self, py: Python<'py>, name: &'static CStr) -> Bound<'py, PyAny> {
        let place = NonNull::new(self.place.cast::<c_void>()).expect("a box is never NULL");
        // SAFETY: the place outlives the capsule.
        unsafe { PyCapsule::new_with_pointer(py, place, name) }.expect("a capsule").into_any()
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        // SAFETY: the place was made from a box, and is freed only here.
        let mut value = unsafe { Box::from_raw(self.place) };
        (self.release)(&mut value);
    }
}

pub(crate) fn drop_schema(schema: &mut ArrowSchema) {
    if let Some(release) = schema.release {
        // SAFETY: the struct is not released yet, because its callback is still set.
        unsafe { release(schema) };
    }
}

pub(crate) fn drop_array(array: &mut ArrowArray) {
    if let Some(release) = array.release {
        // SAFETY: the struct is not released yet, because its callback is still set.
        unsafe { release(array) };
    }
}

pub(crate) fn drop_stream(stream: &mut ArrowArrayStream) {
    if let Some(release) = stream.release {
        // SAFETY: the struct is not released yet, because its callback is still set.
        unsafe { release(stream) };
    }
}

/// The results of a stream's functions.
pub(crate) struct Streamed {
    pub(crate) schema: Option<ArrowSchema>,
    /// The arrays; the stream returns the last one first.
    pub(crate) arrays: Vec<ArrowArray>,
    pub(crate) schema_code: c_int,
    /// The array that fails, counted from the last.
    pub(crate) failing: Option<usize>,
}

pub(crate) unsafe extern "C" fn must_not_release<T>(_: *mut T) {
    panic!("released a struct that a failed function left behind");
}

pub(crate) unsafe extern "C" fn get_schema(
    stream: *mut ArrowArrayStream,
    place: *mut ArrowSchema,
) -> c_int {
    // SAFETY: the interface lets the consumer pass only a live stream of this producer and a writable place.
    unsafe {
        let streamed = &mut *(*stream).private_data.cast::<Streamed>();
        if streamed.schema_code != 0 {
            (*place).release = Some(must_not_release);
            return streamed.schema_code;
        }
        place.write(streamed.schema.take().expect("the schema is read once"));
    }
    0
}

pub(crate) unsafe extern "C" fn get_next(
    stream: *mut ArrowArrayStream,
    place: *mut ArrowArray,
) -> c_int {
    // SAFETY: the interface lets the consumer pass only a live stream of this producer and a writable place.
    unsafe {
        let streamed = &mut *(*stream).private_data.cast::<Streamed>();
        if streamed.failing == Some(streamed.arrays.len()) {
            (*place).release = Some(must_not_release);
            return -1;
        }
        if let Some(array) = streamed.arrays.pop() {
            place.write(array);
        }
    }
    0
}

pub(crate) unsafe extern "C" fn get_last_error(_: *mut ArrowArrayStream) -> *const c_char {
    c"the reason \xff".as_ptr()
}

pub(crate) unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: the interface lets the consumer pass only a live stream of this producer, and release it once.
    unsafe {
        let mut streamed = Box::from_raw((*stream).private_data.cast::<Streamed>());
        streamed.schema.iter_mut().for_each(drop_schema);
        streamed.arrays.iter_mut().for_each(drop_array);
        (*stream).release = None;
    }
    LIVE.fetch_sub(1, Ordering::SeqCst);
}
