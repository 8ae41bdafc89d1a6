//! Operators as functions of tvm-ffi: exported symbols `__tvm_ffi_NAME`, which `tvm_ffi.load_module` finds.
//!
//! The number of arguments selects the form of a call:
//!
//! - all inputs and attributes, in order: the call returns a new tensor, or an array of tensors for several outputs;
//!   trailing arguments with a default may be omitted;
//! - the same, followed by a tensor for each output: the call fills these tensors and returns None.
//!
//! An operator without outputs changes an argument in place and returns None.

pub(crate) mod abi;
mod arguments;
mod results;
mod runtime;

use std::ffi::c_void;

use crate::Define;
use crate::error::{Result, entered};
use crate::exclusive::Arguments;
use crate::new_tensors::{self, Made};
use crate::operator::Operator;

pub use self::abi::{Any, Payload};

use self::results::Failure;
use self::runtime::Runtime;

/// The new tensors that a call returns.
pub type Results = Made;

/// Calls an operator by the convention of tvm-ffi. Returns 0, or -1 once it has set an error.
///
/// # Safety
/// The contract of [`invoke`], and `result` is null or valid for writes.
pub unsafe extern "C" fn call<O: Define>(
    _handle: *mut c_void,
    arguments: *const Any,
    count: i32,
    result: *mut Any,
) -> i32 {
    // SAFETY: the caller guarantees the contract of `invoke`.
    let answered = entered(O::OPERATOR.name(), || unsafe { answer(O::OPERATOR, arguments, count) });
    match answered.unwrap_or_else(|error| Err(Failure::Error(error))) {
        Ok(value) => {
            if !result.is_null() {
                // SAFETY: `result` is valid for writes. Its caller set it to a value that owns nothing, so that
                // nothing leaks.
                unsafe { result.write(value) };
            }
            0
        }
        Err(Failure::Raised) => -1,
        Err(Failure::Error(error)) => {
            runtime::raise(&error);
            -1
        }
    }
}

/// # Safety
/// The contract of [`invoke`].
unsafe fn answer(
    operator: &'static Operator,
    arguments: *const Any,
    count: i32,
) -> std::result::Result<Any, Failure> {
    let runtime = Runtime::of_process();
    let runtime = runtime.map_err(|error| error.in_operator(operator.name()))?;
    // SAFETY: the caller guarantees this contract.
    let tensors = unsafe { invoke(operator, arguments, count) }?;
    results::value(runtime, tensors)
}

/// Calls an operator on arguments of tvm-ffi, without its library. Returns the new tensors: none if the arguments
/// include the outputs.
///
/// # Errors
/// Returns an error if an argument is wrong or the operator fails.
///
/// # Safety
/// `arguments` has `count` arguments, as `tvm/ffi/c_api.h` 0.1 defines them. Tensors and lists stay as they are during
/// the call. No other code writes the elements of the tensors, or reads those of tensors that the operator changes or
/// fills.
pub unsafe fn invoke(
    operator: &'static Operator,
    arguments: *const Any,
    count: i32,
) -> Result<Results> {
    // SAFETY: the caller guarantees that the arguments exist and stay as they are during the call.
    let arguments = unsafe { abi::slice(arguments, i64::from(count)) };
    // SAFETY: as above; the lists of numbers are copied.
    let lists = unsafe { arguments::lists(operator, arguments) };
    let lists = lists.map_err(|error| error.in_operator(operator.name()))?;
    let mut read = Arguments::default();
    // SAFETY: the caller guarantees the memory of the tensors, and that no other code uses what the operator writes.
    unsafe { read.read_any(operator, arguments, &lists) }
        .map_err(|error| error.in_operator(operator.name()))?;
    if read.targets.is_empty() {
        return new_tensors::call(operator, &mut read.values, &runtime::stream);
    }
    operator.fill(&mut read.values, read.targets, &runtime::stream)?;
    Ok(Results::new())
}
