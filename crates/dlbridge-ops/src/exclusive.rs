//! Tensors that an operator writes: no other argument shares their memory.

use smallvec::SmallVec;

use crate::arguments::refused;
use crate::call::Values;
use crate::error::{Error, ErrorKind, Result};
use crate::operator::Operator;
use crate::parameter::{Kind, Parameter};
use crate::value::Value;

/// Tensors to fill: one for each output, or none.
pub(crate) type Targets<'a> = SmallVec<[Value<'a>; 2]>;

/// The arguments of a call.
#[derive(Default)]
pub(crate) struct Arguments<'a> {
    /// For each parameter that is not an output.
    pub(crate) values: Values<'a>,
    pub(crate) targets: Targets<'a>,
}

/// Adds a tensor that the operator fills to those before it.
///
/// # Errors
/// Returns an error if an input or a target before it shares its memory.
///
/// # Safety
/// `target` is a tensor. For `'a` no code except this call reads or writes its elements, which are valid for writes, and
/// no code writes those of `values`.
#[inline]
pub(crate) unsafe fn add_target<'a>(
    operator: &'static Operator,
    values: &[Value<'_>],
    targets: &mut Targets<'a>,
    target: Value<'a>,
) -> Result<()> {
    let output = operator.output(targets.len())?;
    if let Some(memory) = target.addresses() {
        let inputs = operator.inputs.iter().zip(values);
        let shares = |value: &Value<'_>| {
            value
                .addresses()
                .is_some_and(|other| memory.start < other.end && other.start < memory.end)
        };
        for (other, value) in inputs.chain(operator.outputs.iter().zip(&*targets)) {
            if shares(value) {
                return Err(shared(output, other));
            }
        }
    }
    // SAFETY: no other argument shares the memory, which the loop found, and the caller guarantees that no other code uses
    // it.
    targets.push(unsafe { exclusive(output, target) }?);
    Ok(())
}

/// Makes the values of tensors that change in place writable.
///
/// # Errors
/// Returns an error if another input shares memory with one of them.
///
/// # Safety
/// For `'a` no code except this call writes the elements of any of the tensors, or reads those of tensors that change in
/// place; these are valid for writes.
#[inline]
pub(crate) unsafe fn make_writable<'a>(
    operator: &'static Operator,
    values: &mut [Value<'a>],
) -> Result<()> {
    for (position, changed) in operator.inputs.iter().enumerate() {
        if !matches!(changed.kind, Kind::InPlace(_)) {
            continue;
        }
        let Some(memory) = values.get(position).and_then(Value::addresses) else { continue };
        for (place, (other, value)) in operator.inputs.iter().zip(&*values).enumerate() {
            if place != position
                && let Some(others) = value.addresses()
                && memory.start < others.end
                && others.start < memory.end
            {
                return Err(shared(changed, other));
            }
        }
        // SAFETY: no other input shares the memory, which the loop found, and targets are compared with all inputs. The
        // caller guarantees that no other code uses it.
        values[position] = unsafe { exclusive(changed, std::mem::take(&mut values[position])) }?;
    }
    Ok(())
}

/// The tensor for writing.
///
/// # Safety
/// For `'a` no other code reads or writes the elements, which are valid for writes.
#[inline]
unsafe fn exclusive<'a>(parameter: &Parameter, value: Value<'a>) -> Result<Value<'a>> {
    Ok(match value {
        Value::Contiguous(tensor) => {
            let is_output = !matches!(parameter.kind, Kind::InPlace(_));
            // SAFETY: the caller guarantees this contract. Functions get elements only of types of which all bytes are valid.
            Value::ContiguousMut(unsafe { tensor.assume_exclusive(is_output) })
        }
        Value::Tensor(tensor) => {
            // SAFETY: as above. Views check booleans before they show them.
            let tensor = unsafe { tensor.assume_exclusive() };
            Value::of_mut(tensor.map_err(|error| refused(error).in_operator(parameter.name))?)
        }
        other => other,
    })
}

#[cold]
fn shared(written: &Parameter, other: &Parameter) -> Error {
    Error::of(
        ErrorKind::Buffer,
        format_args!(
            "{} is written and shares memory with {}; pass a copy",
            written.name, other.name
        ),
    )
}
