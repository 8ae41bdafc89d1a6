//! The value that a call returns to tvm-ffi.

use std::ffi::c_void;

use dlbridge::Tensor;
use smallvec::SmallVec;

use super::abi::{self, Any};
use super::runtime::{self, Runtime};
use crate::error::Error;
use crate::extension::keep_loaded;
use crate::new_tensors::Made;

/// Why a call failed.
pub(super) enum Failure {
    /// An error that tvm-ffi does not have yet.
    Error(Error),
    /// A function of tvm-ffi failed and has set its error.
    Raised,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// None, a tensor, or an array of tensors.
pub(super) fn value(runtime: &Runtime, tensors: Made) -> Result<Any, Failure> {
    if tensors.is_empty() {
        return Ok(Any::NONE);
    }
    // The deleters of the tensors are code of this library.
    keep_loaded()?;
    let mut objects: SmallVec<[Owned<'_>; 2]> = SmallVec::new();
    for tensor in tensors {
        objects.push(object(runtime, tensor)?);
    }
    match objects.len() {
        1 => Ok(objects.remove(0).into_any()),
        _ => array(runtime, &objects),
    }
}

/// A reference to an object of tvm-ffi.
struct Owned<'r> {
    runtime: &'r Runtime,
    type_index: i32,
    object: *mut c_void,
}

impl Owned<'_> {
    fn as_any(&self) -> Any {
        Any::object(self.type_index, self.object)
    }

    fn into_any(self) -> Any {
        let any = self.as_any();
        std::mem::forget(self);
        any
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the reference is owned, and given back once.
        unsafe { (self.runtime.release)(self.object) };
    }
}

/// A tensor object that owns the tensor.
fn object(runtime: &Runtime, tensor: Tensor) -> Result<Owned<'_>, Failure> {
    let (managed, mut object) = (tensor.into_raw(), std::ptr::null_mut());
    // SAFETY: `managed` is a valid tensor that goes to the object; alignment and contiguity are not asked for.
    match unsafe { (runtime.tensor)(managed, 0, 0, &mut object) } {
        0 => Ok(Owned { runtime, type_index: abi::TENSOR, object }),
        _ => {
            // SAFETY: a call that fails leaves the tensor with the caller, and its deleter is called once.
            unsafe {
                if let Some(deleter) = (*managed).deleter {
                    deleter(managed);
                }
            }
            Err(Failure::Raised)
        }
    }
}

/// An array of objects, which gets references of its own.
fn array(runtime: &Runtime, objects: &[Owned<'_>]) -> Result<Any, Failure> {
    let (name, mut function) =
        (abi::Run { data: b"ffi.Array".as_ptr(), length: 9 }, std::ptr::null_mut());
    // SAFETY: the name is valid during the call, and `function` is writable.
    if unsafe { (runtime.global)(&name, &mut function) } != 0 {
        return Err(Failure::Raised);
    }
    if function.is_null() {
        return Err(runtime::incompatible("has no function `ffi.Array`").into());
    }
    let function = Owned { runtime, type_index: abi::NONE, object: function };
    let mut elements: SmallVec<[Any; 2]> = objects.iter().map(Owned::as_any).collect();
    let mut result = Any::NONE;
    // SAFETY: the function takes any number of objects, which are alive and which it does not keep without a reference
    // of its own.
    let code = unsafe {
        (runtime.call)(function.object, elements.as_mut_ptr(), elements.len() as i32, &mut result)
    };
    if code == 0 { Ok(result) } else { Err(Failure::Raised) }
}
