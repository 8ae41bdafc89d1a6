//! The arguments of a call, from the values of tvm-ffi.

use std::borrow::Cow;
use std::ffi::CStr;

use dlbridge::sys::DLTensor;
use dlbridge::{DataType, Device, RawParts, TensorRef};
use smallvec::SmallVec;

use super::abi::{self, Any, Object, Run, Sequence};
use crate::arguments::refused;
use crate::contiguous::{Contiguous, is_c_order};
use crate::error::{Error, ErrorKind, Result};
use crate::exclusive::{Arguments, add_target, make_writable};
use crate::operator::Operator;
use crate::parameter::{Kind, Parameter};
use crate::value::{List, Value};

/// The lists among the arguments, in the order of the parameters; `None` for an argument that is not a list.
///
/// # Safety
/// The arguments are valid, and lists stay as they are during this call.
pub(super) unsafe fn lists(
    operator: &'static Operator,
    arguments: &[Any],
) -> Result<SmallVec<[Option<List>; 2]>> {
    let mut lists = SmallVec::new();
    for (parameter, any) in operator.inputs().zip(arguments) {
        if let Kind::Ints | Kind::Floats = parameter.kind {
            // SAFETY: the caller guarantees the argument.
            let list = unsafe { list(parameter, &target(any)) };
            lists.push(list.map_err(|error| error.in_operator(parameter.name))?);
        }
    }
    Ok(lists)
}

impl<'a> Arguments<'a> {
    /// Reads the arguments in place, because they are large. `lists` has those that are lists.
    ///
    /// # Safety
    /// For `'a` the arguments are valid, no code writes the elements of the tensors, and no code reads those of tensors
    /// that the operator changes or fills.
    pub(super) unsafe fn read_any(
        &mut self,
        operator: &'static Operator,
        arguments: &'a [Any],
        lists: &'a [Option<List>],
    ) -> Result<()> {
        let (inputs, outputs) = (operator.inputs().count(), operator.outputs().count());
        if arguments.len() > inputs && arguments.len() != inputs + outputs {
            return Err(wrong_count(arguments.len(), inputs, outputs));
        }
        let (given, destinations) = arguments.split_at(arguments.len().min(inputs));

        let mut lists = lists.iter();
        for (position, parameter) in operator.inputs().enumerate() {
            let list = match parameter.kind {
                Kind::Ints | Kind::Floats => lists.next().and_then(Option::as_ref),
                _ => None,
            };
            if let Some(any) = given.get(position)
                // SAFETY: the caller guarantees the argument for `'a`.
                && let Some(tensor) = unsafe { contiguous(any) }
            {
                self.values.push(Value::Contiguous(tensor));
                continue;
            }
            self.values.push(match (given.get(position), list) {
                (_, Some(list)) => Value::from(list),
                // SAFETY: the caller guarantees the argument for `'a`.
                (Some(any), _) => unsafe { value(parameter, any) }
                    .map_err(|error| error.in_operator(parameter.name))?,
                (None, _) => match (parameter.kind, parameter.default.map(Value::from)) {
                    (_, Some(value)) => value,
                    (Kind::Optional(_), _) => Value::None,
                    _ => return Err(wrong_count(arguments.len(), inputs, outputs)),
                },
            });
        }

        // SAFETY: the caller guarantees this contract.
        unsafe { make_writable(operator, &mut self.values) }?;
        for (parameter, any) in operator.outputs().zip(destinations) {
            // SAFETY: the caller guarantees the argument for `'a`.
            let target = match unsafe { contiguous(any) } {
                Some(tensor) => Some(Value::Contiguous(tensor)),
                // SAFETY: the caller guarantees the argument for `'a`, whatever its layout.
                None => unsafe { tensor(&target(any)) }
                    .map_err(|error| error.in_operator(parameter.name))?,
            };
            let missing = || {
                let message = format!("{} must be a tensor to fill", parameter.name);
                Error::of(ErrorKind::Type, message)
            };
            let target = target.ok_or_else(missing)?;
            // SAFETY: the caller guarantees this contract.
            unsafe { add_target(operator, &self.values, &mut self.targets, target) }?;
        }
        Ok(())
    }
}

fn wrong_count(found: usize, inputs: usize, outputs: usize) -> Error {
    let message = match outputs {
        0 => format!("{inputs} arguments are expected, but there are {found}"),
        _ => format!(
            "{inputs} arguments are expected, or {} with the tensors to fill, but there are {found}",
            inputs + outputs
        ),
    };
    Error::of(ErrorKind::Type, message)
}

/// The value itself, if the caller passed a reference to an object instead.
///
/// # Safety
/// The value is valid.
unsafe fn target(any: &Any) -> Cow<'_, Any> {
    if any.type_index != abi::RVALUE {
        return Cow::Borrowed(any);
    }
    // SAFETY: this type's payload is a pointer to a pointer to an object. The object is borrowed, not moved, which the
    // convention allows.
    let (object, type_index) = unsafe {
        let object = *any.payload.pointer.cast::<*mut Object>();
        (object, object.as_ref().map_or(abi::NONE, |object| object.type_index))
    };
    Cow::Owned(Any::object(type_index, object.cast()))
}

/// The value of an argument that is not a list.
///
/// # Safety
/// The value is valid for `'a`, and no code writes the elements of a tensor meanwhile.
unsafe fn value<'a>(parameter: &Parameter, any: &'a Any) -> Result<Value<'a>> {
    // SAFETY: the type selects the field, and the caller guarantees what the pointers lead to.
    unsafe {
        Ok(match any.type_index {
            abi::NONE => parameter.default.map_or(Value::None, Value::from),
            abi::INT if parameter.kind == Kind::Float => Value::Float(any.payload.int as f64),
            abi::INT => Value::Int(any.payload.int),
            abi::BOOL => Value::Bool(any.payload.int != 0),
            abi::FLOAT => Value::Float(any.payload.float),
            abi::SMALL_STRING => {
                let length = any.small_length.min(7) as usize;
                text(&any.payload.bytes[..length])?
            }
            abi::RAW_STRING if !any.payload.pointer.is_null() => {
                text(CStr::from_ptr(any.payload.pointer.cast_const().cast()).to_bytes())?
            }
            abi::STRING => {
                let run = &*any.content::<Run<u8>>();
                text(abi::slice(run.data, run.length as i64))?
            }
            _ => {
                let target = target(any);
                match tensor(&target)? {
                    Some(tensor) => tensor,
                    None => return Err(unknown(parameter, target.type_index)),
                }
            }
        })
    }
}

fn unknown(parameter: &Parameter, type_index: i32) -> Error {
    let expected = parameter.kind.text();
    let found = match type_index {
        abi::SHAPE | abi::ARRAY | abi::LIST => "a list",
        abi::FIRST_OBJECT.. => "another object",
        _ => "a value of another type",
    };
    let message = format!("must be {expected}, but is {found} (type {type_index} of tvm-ffi)");
    Error::of(ErrorKind::Type, message)
}

fn text(bytes: &[u8]) -> Result<Value<'_>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Value::Str(text)),
        Err(error) => Err(Error::of(ErrorKind::Value, format_args!("must be UTF-8, but {error}"))),
    }
}

/// The elements of an argument, if it is a list.
///
/// # Safety
/// The value is valid, and the list stays as it is during this call.
unsafe fn list(parameter: &Parameter, any: &Any) -> Result<Option<List>> {
    let is_floats = parameter.kind == Kind::Floats;
    let elements = match any.type_index {
        abi::SHAPE => {
            // SAFETY: the content of this type; the caller guarantees the object.
            let extents = unsafe {
                let run = &*any.content::<Run<i64>>();
                abi::slice(run.data, run.length as i64)
            };
            return Ok(Some(match is_floats {
                true => List::Floats(extents.iter().map(|extent| *extent as f64).collect()),
                false => List::Ints(extents.to_vec()),
            }));
        }
        abi::ARRAY | abi::LIST => {
            // SAFETY: the content of these types; the caller guarantees the object.
            unsafe {
                let sequence = &*any.content::<Sequence>();
                abi::slice(sequence.data, sequence.length)
            }
        }
        _ => return Ok(None),
    };
    let wrong = |position: usize| {
        let expected = if is_floats { "a number" } else { "an integer" };
        Error::of(ErrorKind::Type, format_args!("element {position} must be {expected}"))
    };
    let elements = elements.iter().enumerate();
    // SAFETY: the type selects the field.
    unsafe {
        Ok(Some(match is_floats {
            true => {
                let float = |(position, any): (usize, &Any)| match any.type_index {
                    abi::FLOAT => Ok(any.payload.float),
                    abi::INT => Ok(any.payload.int as f64),
                    _ => Err(wrong(position)),
                };
                List::Floats(elements.map(float).collect::<Result<_>>()?)
            }
            false => {
                let int = |(position, any): (usize, &Any)| match any.type_index {
                    abi::INT => Ok(any.payload.int),
                    _ => Err(wrong(position)),
                };
                List::Ints(elements.map(int).collect::<Result<_>>()?)
            }
        }))
    }
}

/// The description of a tensor, if the value is one.
///
/// # Safety
/// The value is valid for `'a`.
#[inline]
unsafe fn described<'a>(any: &Any) -> Option<&'a DLTensor> {
    // SAFETY: the type selects the field, and the caller guarantees the object.
    unsafe {
        match any.type_index {
            abi::TENSOR => any.content::<DLTensor>().as_ref(),
            abi::DL_TENSOR => any.payload.pointer.cast_const().cast::<DLTensor>().as_ref(),
            _ => None,
        }
    }
}

/// The tensor, if the value is one on the CPU whose elements are in C order.
///
/// # Safety
/// The value is valid for `'a`, and no code writes the tensor's elements meanwhile.
#[inline]
unsafe fn contiguous<'a>(any: &Any) -> Option<Contiguous<'a>> {
    // SAFETY: the caller guarantees the value.
    let described = unsafe { described(any) }?;
    let ndim = i64::from(described.ndim);
    if Device::from(described.device) != Device::CPU || described.byte_offset != 0 || ndim < 0 {
        return None;
    }
    // SAFETY: the description has that many extents and strides; NULL stands for none.
    let (shape, strides) = unsafe {
        (abi::slice::<i64>(described.shape, ndim), abi::slice::<i64>(described.strides, ndim))
    };
    if shape.len() as i64 != ndim || !is_c_order(shape, strides) {
        return None;
    }
    // SAFETY: the caller guarantees the elements for `'a`, which are in C order.
    unsafe { Contiguous::new(described.data, DataType::from(described.dtype), shape) }
}

/// The tensor in the form for every tensor, if the value is one.
///
/// # Safety
/// The value is valid for `'a`, and no code writes the tensor's elements meanwhile.
unsafe fn tensor<'a>(any: &Any) -> Result<Option<Value<'a>>> {
    // SAFETY: the caller guarantees the value.
    let Some(described) = (unsafe { described(any) }) else { return Ok(None) };
    let device = Device::from(described.device);
    let ndim = i64::from(described.ndim);
    // SAFETY: the description has that many extents.
    let shape = unsafe { abi::slice::<i64>(described.shape, ndim) };
    if ndim < 0 || (shape.is_empty() && ndim != 0) {
        return Err(Error::of(ErrorKind::Value, "has no shape; it is not a valid tensor"));
    }
    // SAFETY: the description has that many strides, or none.
    let strides = unsafe { abi::slice::<i64>(described.strides, ndim) };
    let dtype = DataType::from(described.dtype);
    let parts = RawParts {
        byte_offset: described.byte_offset,
        device,
        ..RawParts::new(described.data, dtype)
    };
    // SAFETY: the caller guarantees the elements for `'a`.
    let tensor = unsafe {
        match strides.is_empty() {
            true => TensorRef::from_raw_parts(&parts, shape, None::<&[i64]>),
            false => {
                let axes = shape.iter().zip(strides).map(|(extent, stride)| (*extent, *stride));
                TensorRef::from_raw_axes(&parts, axes)
            }
        }
    };
    tensor.map(|tensor| Some(Value::of(tensor))).map_err(refused)
}
