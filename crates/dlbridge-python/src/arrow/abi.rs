//! Arrow's C structs, and handles on those that dlbridge must release.
//!
//! Source: "The Arrow C data interface", "The Arrow C stream interface" and "The Arrow C device data
//! interface" in the format documentation of Apache Arrow.
//!
//! - **Valid.** Until it is released, a struct of these types is as the interface describes. In a schema, `format` and `name`
//!   are NULL or strings, and `metadata` is NULL, or the number of pairs and then the pairs, each text behind its
//!   length. In an array, `buffers` leads to `n_buffers` pointers, and a buffer that is not NULL has a number or a
//!   bit for each of the first `offset + length` elements, which nothing writes. For lists, texts and binary values it
//!   has an offset for each and one more, unless there are none, and the buffer of the texts has as many bytes as the last offset.
//!   `children` leads to `n_children` pointers to structs that are Valid too; dlbridge checks these pointers, and
//!   those to buffers, for NULL and alignment, and all offsets.
//!
//! The producer guarantees Valid: `Owned::take` reads a struct out of a capsule with the name that the interface
//! reserves for it, and `Owned::filled` gets one from a stream. `RELEASED` has zeros, and `export.rs` makes
//! all other structs of this crate.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use dlbridge_pyo3::python::error::repr_in_message;
use dlbridge_pyo3::python::interpreter::while_it_lives;

/// `ARROW_FLAG_NULLABLE`.
pub(super) const NULLABLE: i64 = 2;

/// `ARROW_DEVICE_CPU`; Arrow uses DLPack's numbers.
pub(super) const CPU: i32 = 1;

/// The type of the elements.
#[repr(C)]
pub(super) struct ArrowSchema {
    pub(super) format: *const c_char,
    pub(super) name: *const c_char,
    pub(super) metadata: *const c_char,
    pub(super) flags: i64,
    pub(super) n_children: i64,
    pub(super) children: *mut *mut ArrowSchema,
    pub(super) dictionary: *mut ArrowSchema,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub(super) private_data: *mut c_void,
}

/// The elements.
#[repr(C)]
pub(super) struct ArrowArray {
    pub(super) length: i64,
    pub(super) null_count: i64,
    pub(super) offset: i64,
    pub(super) n_buffers: i64,
    pub(super) n_children: i64,
    pub(super) buffers: *mut *const c_void,
    pub(super) children: *mut *mut ArrowArray,
    pub(super) dictionary: *mut ArrowArray,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(super) private_data: *mut c_void,
}

/// The elements, and their device.
#[repr(C)]
pub(super) struct ArrowDeviceArray {
    pub(super) array: ArrowArray,
    pub(super) device_id: i64,
    pub(super) device_type: i32,
    pub(super) sync_event: *mut c_void,
    pub(super) reserved: [i64; 3],
}

type GetSchema = unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int;
type GetNext = unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int;
type GetLastError = unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char;

/// Arrays of one type, one after the other.
#[repr(C)]
pub(super) struct ArrowArrayStream {
    get_schema: Option<GetSchema>,
    get_next: Option<GetNext>,
    get_last_error: Option<GetLastError>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

impl ArrowSchema {
    /// The format, which must not be NULL.
    pub(super) fn format(&self) -> PyResult<&CStr> {
        if self.format.is_null() {
            return Err(PyBufferError::new_err("the Arrow schema lacks a format"));
        }
        // SAFETY: Valid: a format that is not NULL is a string, which lives as long as the schema.
        Ok(unsafe { CStr::from_ptr(self.format) })
    }

    /// The name, which may be NULL.
    pub(super) fn name(&self) -> String {
        match self.name.is_null() {
            true => String::new(),
            // SAFETY: Valid: a name that is not NULL is a string, which lives as long as the schema.
            false => unsafe { CStr::from_ptr(self.name) }.to_string_lossy().into_owned(),
        }
    }

    /// The child of a schema with one child; `None` if it is NULL or not aligned.
    pub(super) fn only_child(&self) -> Option<&Self> {
        (self.n_children == 1).then(|| self.child(0)).flatten()
    }

    /// A child; `None` if the schema has fewer, or if it is NULL or not aligned.
    pub(super) fn child(&self, nth: usize) -> Option<&Self> {
        // SAFETY: Valid: this number of pointers, to structs that live as long as the schema.
        unsafe { nth_of(self.children, self.n_children, nth) }
    }
}

impl ArrowArray {
    /// A buffer, which may be NULL; `None` if the array has fewer buffers, or if their list is NULL or not aligned.
    pub(super) fn buffer(&self, nth: usize) -> Option<*const c_void> {
        let is_there = usize::try_from(self.n_buffers).is_ok_and(|count| nth < count);
        if !is_there || self.buffers.is_null() || !self.buffers.is_aligned() {
            return None;
        }
        // SAFETY: Valid: `n_buffers` pointers, more than `nth`.
        Some(unsafe { *self.buffers.add(nth) })
    }

    /// A child; `None` if the array has fewer, or if it is NULL or not aligned.
    pub(super) fn child(&self, nth: usize) -> Option<&Self> {
        // SAFETY: Valid: this number of pointers, to structs that live as long as the array.
        unsafe { nth_of(self.children, self.n_children, nth) }
    }
}

/// A child of a schema, and of its array.
pub(super) fn child_pair<'a>(
    schema: &'a ArrowSchema,
    array: &'a ArrowArray,
    nth: usize,
) -> PyResult<(&'a ArrowSchema, &'a ArrowArray)> {
    let (Some(schema), Some(array)) = (schema.child(nth), array.child(nth)) else {
        return Err(broken("a child that is NULL or not aligned"));
    };
    match schema.is_released() || array.is_released() {
        true => Err(broken("a child that was released")),
        false => Ok((schema, array)),
    }
}

/// A struct of a list; `None` if the list has fewer, or if a pointer to it is NULL or not aligned.
///
/// # Safety
/// The list is NULL, not aligned, or `count` pointers. Each of them is NULL, not aligned, or leads to a struct that
/// lives as long as the result.
unsafe fn nth_of<'a, T>(list: *mut *mut T, count: i64, nth: usize) -> Option<&'a T> {
    if !usize::try_from(count).is_ok_and(|count| nth < count)
        || list.is_null()
        || !list.is_aligned()
    {
        return None;
    }
    // SAFETY: the caller promises more than `nth` pointers, since the list is aligned and not NULL.
    let found = unsafe { *list.add(nth) };
    // SAFETY: the caller promises that an aligned pointer is NULL or leads to a struct.
    if found.is_aligned() { unsafe { found.as_ref() } } else { None }
}

/// A struct with a function that releases it.
///
/// # Safety
/// Zeros in all fields are a released struct.
pub(super) unsafe trait Release: Sized {
    /// The name of a capsule over it.
    const CAPSULE: &'static CStr;
    /// A released struct, to be filled.
    // SAFETY: zeros are a struct, as the implementer promises.
    const RELEASED: Self = unsafe { mem::zeroed() };

    fn is_released(&self) -> bool;

    /// # Safety
    /// The thread is attached; the struct is valid and not released. Afterwards the caller only reads that it is
    /// released.
    unsafe fn release(&mut self);
}

macro_rules! release {
    ($name:ident, $capsule:literal) => {
        // SAFETY: the fields are numbers, pointers and an `Option` of a function, whose zero is `None`: released.
        unsafe impl Release for $name {
            const CAPSULE: &'static CStr = $capsule;

            fn is_released(&self) -> bool {
                self.release.is_none()
            }

            unsafe fn release(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: the caller is attached, and the struct is not released. The interface allows moving a
                    // struct, so its function accepts any address.
                    unsafe { release(self) };
                }
            }
        }
    };
}

release!(ArrowSchema, c"arrow_schema");
release!(ArrowArray, c"arrow_array");
release!(ArrowArrayStream, c"arrow_array_stream");

// SAFETY: the fields are numbers, a pointer, and an array, whose zeros are a released one.
unsafe impl Release for ArrowDeviceArray {
    const CAPSULE: &'static CStr = c"arrow_device_array";

    fn is_released(&self) -> bool {
        self.array.is_released()
    }

    unsafe fn release(&mut self) {
        // SAFETY: the caller's promises hold for the array, which is part of this struct and is released with it.
        unsafe { self.array.release() };
    }
}

/// A struct that this handle releases when it is dropped, on an attached thread.
pub(super) struct Owned<T: Release>(pub(super) Box<T>);

// SAFETY: the interface allows releasing a struct on any thread. It is read only before it becomes the owner of a
// tensor.
unsafe impl<T: Release> Send for Owned<T> {}

// SAFETY: shared handles only read the struct, which nothing writes before it is released (Valid).
unsafe impl<T: Release> Sync for Owned<T> {}

impl<T: Release> Owned<T> {
    /// Moves the struct out of a capsule, which is left released.
    pub(super) fn take(answer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let name = T::CAPSULE.to_string_lossy();
        let capsule = answer.cast::<PyCapsule>().map_err(|_| {
            PyTypeError::new_err(format!(
                "expected a capsule named '{name}', not {}",
                repr_in_message(answer)
            ))
        })?;
        if !capsule.is_valid_checked(Some(T::CAPSULE)) {
            return Err(PyValueError::new_err(format!(
                "{} is not named '{name}'",
                repr_in_message(answer)
            )));
        }
        let place = capsule.pointer_checked(Some(T::CAPSULE))?.cast::<T>();
        // SAFETY: the name determines the type of the struct; the interface allows leaving a released struct in the
        // capsule.
        let taken = Self(Box::new(unsafe { place.replace(T::RELEASED) }));
        if taken.0.is_released() {
            return Err(PyValueError::new_err(format!(
                "{} was consumed before; ask the producer for a new one",
                repr_in_message(answer)
            )));
        }
        Ok(taken)
    }

    pub(super) fn get(&self) -> &T {
        &self.0
    }
}

impl Owned<ArrowDeviceArray> {
    /// The array, if it is on the CPU.
    pub(super) fn on_cpu(mut self) -> PyResult<Owned<ArrowArray>> {
        if self.0.device_type != CPU {
            let device = dlbridge::DeviceType::from_code(self.0.device_type);
            return Err(PyBufferError::new_err(format!(
                "the Arrow array is on a device of type {device}; copy it to the CPU first"
            )));
        }
        if !self.0.sync_event.is_null() {
            return Err(PyBufferError::new_err(
                "the Arrow array on the CPU names an event to wait for, and no driver is known for \
                 such an event; synchronise its producer first, and export it without an event",
            ));
        }
        let array = mem::replace(&mut self.0.array, ArrowArray::RELEASED);
        Ok(Owned(Box::new(array)))
    }
}

impl Owned<ArrowArrayStream> {
    /// The type of the arrays.
    pub(super) fn schema(&mut self, py: Python<'_>) -> PyResult<Owned<ArrowSchema>> {
        let get_schema = self.0.get_schema.ok_or_else(|| missing("get_schema"))?;
        let schema = self.filled(py, get_schema)?;
        if schema.0.is_released() {
            return Err(PyBufferError::new_err(
                "the Arrow stream gave a schema that was released; the producer must fix that",
            ));
        }
        Ok(schema)
    }

    /// The next array; `None` at the end.
    pub(super) fn next(&mut self, py: Python<'_>) -> PyResult<Option<Owned<ArrowArray>>> {
        let get_next = self.0.get_next.ok_or_else(|| missing("get_next"))?;
        let array = self.filled(py, get_next)?;
        Ok((!array.0.is_released()).then_some(array))
    }

    /// The struct that a function of the stream fills. The call is detached, because it may wait for threads that run
    /// Python code.
    fn filled<T: Release>(
        &mut self,
        py: Python<'_>,
        fill: unsafe extern "C" fn(*mut ArrowArrayStream, *mut T) -> c_int,
    ) -> PyResult<Owned<T>> {
        let mut place = Owned(Box::new(T::RELEASED));
        let status = py.detach(|| {
            let (stream, place) = (&mut *self, &mut place);
            // SAFETY: the interface: the stream is not released, and the struct is writable. Any thread may call it,
            // one at a time.
            unsafe { fill(&mut *stream.0, &mut *place.0) }
        });
        if status == 0 {
            return Ok(place);
        }
        // A function that failed may have left a struct there, which is not ours to release.
        *place.0 = T::RELEASED;
        let mut reason = String::new();
        if let Some(get_last_error) = self.0.get_last_error {
            // SAFETY: the interface: called right after a function that failed; the result is NULL, or a string that
            // lives until the next call.
            unsafe {
                let text = get_last_error(&mut *self.0);
                if !text.is_null() {
                    reason = CStr::from_ptr(text).to_string_lossy().into_owned();
                }
            }
        }
        Err(PyBufferError::new_err(format!("the Arrow stream failed with code {status}: {reason}")))
    }
}

fn missing(function: &str) -> PyErr {
    PyBufferError::new_err(format!("the Arrow stream has no {function}; the producer must set it"))
}

impl<T: Release> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.0.is_released() {
            // SAFETY: attached; the struct is ours, is not released, and does not move during the call.
            while_it_lives(|_py| unsafe { self.0.release() });
        }
    }
}

/// The refusal of an array that breaks the interface.
pub(super) fn broken(what: &str) -> PyErr {
    PyBufferError::new_err(format!("the Arrow array has {what}; the producer must fix that"))
}
