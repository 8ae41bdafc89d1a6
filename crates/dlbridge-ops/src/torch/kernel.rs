//! The functions that PyTorch calls for an operator.

use std::ffi::CString;
use std::ptr;

use dlbridge::{DataType, Device};
use smallvec::SmallVec;

use super::shim::Shim;
use super::stack::{Arguments, Owned, Tensor, read_lists, take};
use super::values::{Unshared, shapes, values};
use crate::Define;
use crate::call::{Values, described};
use crate::device::is_cuda;
use crate::error::{Error, ErrorKind, Result, entered};
use crate::exclusive::Targets;
use crate::memory::{Memory, size};
use crate::new_tensors::NewTensors;
use crate::operator::Operator;
use crate::parameter::{Kind, Parameter};
use crate::shape::OutputShape;

/// The results of a call, in order.
type Results = SmallVec<[Tensor; 2]>;

/// Makes new tensors for the outputs, or changes tensors in place.
///
/// # Safety
/// PyTorch calls it: the stack has a value for each argument of the operator's schema, whose ownership passes to this
/// function, and place for the results.
pub unsafe extern "C-unwind" fn kernel<O: Define>(stack: *mut u64, arguments: u64, results: u64) {
    // SAFETY: the caller guarantees the stack.
    unsafe { enter(O::OPERATOR, stack, 0, (arguments, results), call) }
}

/// Fills tensors of the caller.
///
/// # Safety
/// Those of [`kernel`], for the schema of the variant `out`.
pub unsafe extern "C-unwind" fn out_kernel<O: Define>(
    stack: *mut u64,
    arguments: u64,
    results: u64,
) {
    let outs = O::OPERATOR.outputs().count();
    // SAFETY: the caller guarantees the stack.
    unsafe { enter(O::OPERATOR, stack, outs, (arguments, results), call_out) }
}

/// Makes tensors that have only dtype and shape.
///
/// # Safety
/// Those of [`kernel`].
pub unsafe extern "C-unwind" fn meta_kernel<O: Define>(
    stack: *mut u64,
    arguments: u64,
    results: u64,
) {
    // SAFETY: the caller guarantees the stack.
    unsafe { enter(O::OPERATOR, stack, 0, (arguments, results), call_meta) }
}

/// Takes the arguments, runs a call, and puts the results on the stack or raises its error.
///
/// # Safety
/// The stack has a value for each parameter that is not an output, then `outs` tensors; their ownership passes to this
/// function.
unsafe fn enter(
    operator: &'static Operator,
    stack: *mut u64,
    outs: usize,
    (arguments, results): (u64, u64),
    run: fn(&'static Shim, &'static Operator, &mut Arguments) -> Result<Results>,
) {
    let Ok(shim) = Shim::loaded() else {
        // PyTorch called, so that its functions were found when the kernel was registered.
        std::process::abort()
    };
    let called = || {
        let expected = operator.inputs().count() + outs;
        if usize::try_from(arguments) != Ok(expected) {
            let message = format!("{expected} arguments are expected, but there are {arguments}");
            return Err(Error::of(ErrorKind::Type, message));
        }
        // SAFETY: the caller guarantees the values, and their number was compared.
        let mut arguments = unsafe { take(shim, operator, stack, outs) };
        read_lists(operator, &mut arguments)?;
        let made = run(shim, operator, &mut arguments)?;
        if usize::try_from(results) != Ok(made.len()) {
            let message = format!("{results} results are expected, but there are {}", made.len());
            return Err(Error::of(ErrorKind::Type, message));
        }
        for (index, result) in made.into_iter().enumerate() {
            // SAFETY: the stack has place for each result, and takes the ownership.
            unsafe { *stack.add(index) = result.into_raw() };
        }
        Ok(())
    };
    if let Err(error) = entered(operator.name(), called).and_then(|result| result) {
        raise(shim, &error.to_string());
    }
}

/// Throws a C++ exception, which PyTorch turns into a `RuntimeError`.
#[cold]
fn raise(shim: &Shim, message: &str) {
    let message = CString::new(message.replace('\0', "\\0")).unwrap_or_default();
    // SAFETY: the strings end with zero, and PyTorch copies them. The exception passes through Rust functions that drop
    // their values: the function is of an ABI that unwinds, as all of its callers up to PyTorch are.
    unsafe {
        (shim.check)(false, c"operator".as_ptr(), c"dlbridge-ops".as_ptr(), 0, message.as_ptr())
    };
    // The function returns only if the condition is true.
    std::process::abort();
}

fn named(operator: &'static Operator) -> impl Fn(Error) -> Error {
    |error| error.in_operator(operator.name())
}

fn call(
    shim: &'static Shim,
    operator: &'static Operator,
    arguments: &mut Arguments,
) -> Result<Results> {
    let on_device = arguments.iter().find_map(Owned::tensor).filter(|_| operator.on_cuda);
    let device = on_device.map(|tensor| tensor.strided_on("a tensor")).transpose();
    let device = device.map_err(named(operator))?.unwrap_or(Device::CPU);
    let place = match is_cuda(device) {
        true => (shim.cuda, device.id()),
        false => (shim.cpu, 0),
    };
    let make = |_: &Parameter, dtype, shape: &[i64]| {
        let mut tensor = empty(shim, dtype, shape, place)?;
        let data = tensor.mutable_data()?;
        // SAFETY: the new tensor has memory for these elements in C order, and no other code has the tensor or its address;
        // `NewTensors` keeps it. PyTorch's allocator is foreign code, which may have written the bytes: they have some value,
        // as the memory of every foreign tensor.
        Ok((tensor, unsafe { Memory::new(data, size(dtype, shape)?, device, true) }))
    };
    let stream = |device| shim.cuda_stream(device);
    // SAFETY: the memory is that of the tensor, which a move of the reference does not change.
    let outputs = unsafe { NewTensors::new(operator, make, &stream) };
    let unshared = Unshared::new(operator, arguments).map_err(named(operator))?;
    let mut inputs = Values::new();
    values(shim, operator, unshared, &mut inputs, &mut Targets::new()).map_err(named(operator))?;
    operator.call(&mut inputs, &outputs)?;
    outputs.finish().map_err(named(operator))
}

fn call_out(
    shim: &'static Shim,
    operator: &'static Operator,
    arguments: &mut Arguments,
) -> Result<Results> {
    let unshared = Unshared::new(operator, arguments).map_err(named(operator))?;
    let (mut inputs, mut targets) = (Values::new(), Targets::new());
    values(shim, operator, unshared, &mut inputs, &mut targets).map_err(named(operator))?;
    operator.fill(&mut inputs, targets, &|device| shim.cuda_stream(device))?;
    Ok(Results::new())
}

fn call_meta(
    shim: &'static Shim,
    operator: &'static Operator,
    arguments: &mut Arguments,
) -> Result<Results> {
    let made = || {
        let values = shapes(shim, operator, arguments)?;
        let outputs = operator.choose(|input| described(&values[input]))?.outputs.iter();
        let shapes = operator.output_shapes(&values)?;
        let make = |(kind, shape): (&Kind, &OutputShape<'_>)| match (kind.form(), shape.extents()) {
            (Some(form), Some(shape)) => empty(shim, form.dtype, shape, (shim.meta, 0)),
            _ => Err(Error::new("the shape of an output depends on the elements of the inputs")),
        };
        outputs.zip(&shapes).map(make).collect::<Result<_>>()
    };
    made().map_err(named(operator))
}

/// Makes a tensor without gaps, with arbitrary elements.
fn empty(
    shim: &'static Shim,
    dtype: DataType,
    shape: &[i64],
    (device, index): (i32, i32),
) -> Result<Tensor> {
    let code = shim.code(dtype).ok_or_else(|| {
        let message = format!("PyTorch does not have the dtype {dtype} of the output");
        Error::of(ErrorKind::Type, message)
    })?;
    let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(1, shape.len());
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    let mut object = ptr::null_mut();
    // SAFETY: `shape` and `strides` have as many elements as the tensor has dimensions, and the result is valid for
    // writes.
    let result = unsafe {
        (shim.empty_strided)(
            shape.len() as i64,
            shape.as_ptr(),
            strides.as_ptr(),
            code,
            device,
            index,
            &mut object,
        )
    };
    shim.succeeded(result, "make an output")?;
    // SAFETY: the function succeeded, so that it returned a new reference.
    Ok(unsafe { Tensor::new(shim, object) })
}
