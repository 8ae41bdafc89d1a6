//! Tensors that an operator writes: no other argument shares their memory.

use std::ops::Range;

use dlbridge::{TensorRef, TensorRefMut};
use smallvec::SmallVec;

use crate::arguments::refused;
use crate::error::{Error, ErrorKind, Result};
use crate::operator::Operator;
use crate::parameter::{Kind, Parameter};
use crate::value::Value;

/// Returns the targets for writing, and makes the values of tensors that change in place mutable.
///
/// # Errors
/// Returns an error if another argument shares memory with a tensor that the operator writes.
///
/// # Safety
/// For `'a` no code except this call writes the elements of any of the tensors, or reads those of the targets and of the
/// tensors that change in place; these are valid for writes.
pub(crate) unsafe fn exclusive<'a>(
    operator: &'static Operator,
    values: &mut [Value<'a>],
    targets: SmallVec<[TensorRef<'a>; 2]>,
) -> Result<SmallVec<[TensorRefMut<'a>; 2]>> {
    check_overlap(operator, values, &targets)?;
    let mut writable = SmallVec::new();
    for (parameter, target) in operator.outputs().zip(targets) {
        // SAFETY: no other argument shares the memory, which the check has found, and the caller guarantees that
        // no other code uses it. Views check booleans before they show them.
        let target = unsafe { target.assume_exclusive() };
        writable.push(target.map_err(|error| refused(error).in_operator(parameter.name))?);
    }
    for (parameter, value) in operator.inputs().zip(values) {
        if let (Kind::InPlace(_), Value::Tensor(_)) = (parameter.kind, &*value)
            && let Value::Tensor(tensor) = std::mem::take(value)
        {
            // SAFETY: no other argument shares the memory, which the check has found, and the caller guarantees
            // that no other code uses it. Views check booleans before they show them.
            let tensor = unsafe { tensor.assume_exclusive() };
            *value =
                Value::Mutable(tensor.map_err(|error| refused(error).in_operator(parameter.name))?);
        }
    }
    Ok(writable)
}

/// Checks that no argument shares memory with one that the operator writes.
fn check_overlap(
    operator: &'static Operator,
    values: &[Value<'_>],
    targets: &[TensorRef<'_>],
) -> Result<()> {
    let writes = |parameter: &Parameter| matches!(parameter.kind, Kind::InPlace(_));
    if targets.is_empty() && !operator.inputs().any(writes) {
        return Ok(());
    }
    let inputs = operator.inputs().zip(values).filter_map(|(parameter, value)| match value {
        Value::Tensor(tensor) => Some((parameter.name, memory(tensor), writes(parameter))),
        _ => None,
    });
    let mut all: SmallVec<[_; 6]> = inputs.collect();
    let targets = operator.outputs().zip(targets);
    all.extend(targets.map(|(parameter, tensor)| (parameter.name, memory(tensor), true)));
    for (position, (one, memory, written)) in all.iter().enumerate() {
        for (other, others, also) in &all[..position] {
            if (*written || *also) && memory.start < others.end && others.start < memory.end {
                let (one, other) = if *written { (one, other) } else { (other, one) };
                return Err(Error::of(
                    ErrorKind::Buffer,
                    format_args!("{one} is written and shares memory with {other}; pass a copy"),
                ));
            }
        }
    }
    Ok(())
}

/// The addresses of the elements, and of the gaps between them.
fn memory(tensor: &TensorRef<'_>) -> Range<usize> {
    if tensor.is_empty() {
        return 0..0;
    }
    let size = tensor.dtype().itemsize().max(1) as isize;
    let (mut first, mut last) = (0_isize, 0_isize);
    for (extent, stride) in tensor.shape().iter().zip(tensor.strides()) {
        // No overflow: the tensor's constructor found that the elements are in the address space.
        let reach = (extent - 1).wrapping_mul(*stride) as isize;
        if reach < 0 { first += reach } else { last += reach }
    }
    let address = tensor.data().addr();
    let at = |elements: isize| address.wrapping_add_signed(elements.wrapping_mul(size));
    at(first)..at(last + 1)
}
