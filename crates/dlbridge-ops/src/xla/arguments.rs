//! The buffers of a call as the values of parameters.

use std::cell::OnceCell;
use std::ptr;

use dlbridge::Device;
use smallvec::SmallVec;

use super::attributes::{Attributes, Converted};
use super::buffers::{Checked, failed};
use super::frame::{Buffers, CallFrame};
use crate::call::Values;
use crate::error::{Error, ErrorKind, Result};
use crate::operator::Operator;
use crate::parameter::{Kind, Parameter};
use crate::value::Value;

/// The buffers of a call, which do not overlap where one of them is written.
pub(super) struct Arguments<'a> {
    arguments: SmallVec<[Checked<'a>; 4]>,
    /// The tensors that change in place, then the outputs.
    results: SmallVec<[Checked<'a>; 2]>,
    /// The number of tensors that change in place.
    in_place: usize,
    /// A bit for each optional input that the call has.
    present: u64,
}

impl<'a> Arguments<'a> {
    /// # Safety
    /// The frame and the attributes are those of XLA, complete and of a known version; buffers are on `device`, and stay as
    /// they are for `'a`.
    pub(super) unsafe fn new(
        operator: &'static Operator,
        frame: &'a CallFrame,
        attributes: &Attributes<'a>,
        device: Device,
    ) -> Result<Self> {
        attributes.check(operator.inputs())?;
        let present = attributes.present()?;
        let tensors: SmallVec<[_; 6]> = passed(operator, present).collect();
        let changed = tensors.iter().filter(|one| matches!(one.kind, Kind::InPlace(_)));
        let written: SmallVec<[_; 4]> = changed.copied().chain(operator.outputs()).collect();
        let count = |buffers: &Buffers, expected: usize, role: &str| match buffers.count {
            found if found == expected as i64 => Ok(()),
            found => Err(Error::of(
                ErrorKind::Type,
                format_args!("{expected} {role} are expected, but XLA passes {found}"),
            )),
        };
        count(&frame.arguments, tensors.len(), "tensors")?;
        count(&frame.results, written.len(), "results")?;
        if let Some(output) = written.iter().find(|one| matches!(one.kind, Kind::Dynamic(_))) {
            return Err(failed(format_args!(
                "the function decides the shape of {}, but XLA allocates results before the call",
                output.name
            )));
        }
        let in_place = written.len() - operator.outputs().count();
        let read = |buffers: &'a Buffers, index, name| {
            // SAFETY: `count` found as many entries as there are names, and the caller guarantees the buffers for `'a`.
            unsafe { Checked::read(buffers, index, name, device) }
        };
        let arguments = tensors.iter().enumerate();
        let arguments = arguments.map(|(i, one)| read(&frame.arguments, i, one.name));
        let results = written.iter().enumerate();
        let results = results.map(|(i, one)| read(&frame.results, i, one.name));
        let new = Self {
            arguments: arguments.collect::<Result<_>>()?,
            results: results.collect::<Result<_>>()?,
            in_place,
            present,
        };
        new.check(&tensors, &written)?;
        Ok(new)
    }

    /// Checks that only a tensor that changes in place shares the memory of its result.
    fn check(&self, tensors: &[&'static Parameter], written: &[&'static Parameter]) -> Result<()> {
        let refused = |one: &str, other: &str| {
            Err(Error::of(
                ErrorKind::Buffer,
                format_args!("the memory of the result {one} overlaps that of {other}"),
            ))
        };
        for (i, result) in self.results.iter().enumerate() {
            for (argument, parameter) in self.arguments.iter().zip(tensors) {
                let is_own = i < self.in_place && ptr::eq(*parameter, written[i]);
                if is_own && (argument.dtype != result.dtype || argument.shape != result.shape) {
                    return Err(Error::of(
                        ErrorKind::Value,
                        format_args!(
                            "{} changes in place, so its result must be {} of shape {:?}, but is {} of shape {:?}",
                            parameter.name,
                            argument.dtype,
                            argument.shape,
                            result.dtype,
                            result.shape
                        ),
                    ));
                }
                if !(is_own && argument.is_same(result)) && argument.overlaps(result) {
                    return refused(written[i].name, parameter.name);
                }
            }
            if let Some(j) = (0..i).find(|j| self.results[*j].overlaps(result)) {
                return refused(written[i].name, written[j].name);
            }
        }
        Ok(())
    }

    /// The memory of the outputs, in order.
    pub(super) fn outputs(&self) -> &[Checked<'a>] {
        &self.results[self.in_place..]
    }

    /// The values of the parameters. `lists` has a place for each list among them.
    ///
    /// # Safety
    /// All buffers have their elements for `'v`, and results are valid for writes. This is the only call of this function,
    /// and no other code writes arguments or uses results for `'v`.
    pub(super) unsafe fn values<'v>(
        &self,
        operator: &'static Operator,
        attributes: &Attributes<'v>,
        lists: &'v [OnceCell<Converted>],
    ) -> Result<Values<'v>>
    where
        'a: 'v,
    {
        let (mut arguments, mut changed) = (self.arguments.iter(), self.results.iter());
        let (mut lists, mut optional) = (lists.iter(), 0);
        let mut values = Values::new();
        for parameter in operator.inputs() {
            let value = match parameter.kind {
                Kind::InPlace(_) => {
                    let (argument, result) = (next(&mut arguments)?, next(&mut changed)?);
                    if !argument.is_same(result) {
                        if !result.is_on_cpu() {
                            return Err(failed(format_args!(
                                "{} changes in place, but XLA's result is other memory; pass `input_output_aliases` to `ffi_call`",
                                parameter.name
                            )));
                        }
                        // SAFETY: both have their elements on the CPU, the result is valid for writes, and no reference to it exists
                        // before the next statement; `check` found that they are of one shape and do not overlap.
                        unsafe { result.copy_from(argument) };
                    }
                    // SAFETY: only this tensor uses the result: `check` found that no other buffer overlaps it, and
                    // `outputs` begins behind it.
                    unsafe { result.value_mut() }?
                }
                Kind::Optional(_) => {
                    optional += 1;
                    if is_present(self.present, optional - 1) {
                        // SAFETY: no code writes an argument: `check` found that no result overlaps it.
                        unsafe { next(&mut arguments)?.value() }?
                    } else {
                        Value::None
                    }
                }
                Kind::Ints | Kind::Floats => attributes.list(parameter, next(&mut lists)?)?,
                kind if kind.is_attribute() => attributes.value(parameter)?,
                // SAFETY: no code writes an argument: `check` found that no result overlaps it.
                _ => unsafe { next(&mut arguments)?.value() }?,
            };
            values.push(value);
        }
        Ok(values)
    }
}

/// The parameters for which the call has a tensor.
fn passed(operator: &'static Operator, present: u64) -> impl Iterator<Item = &'static Parameter> {
    let mut optional = 0;
    operator.inputs().filter(move |parameter| {
        let is_optional = matches!(parameter.kind, Kind::Optional(_));
        optional += usize::from(is_optional);
        !parameter.kind.is_attribute() && (!is_optional || is_present(present, optional - 1))
    })
}

/// The bit of an optional input; those after the last bit are present.
fn is_present(present: u64, optional: usize) -> bool {
    optional >= 64 || present >> optional & 1 == 1
}

/// The next of as many as there are parameters, which `Arguments::new` has counted.
fn next<'i, T>(all: &mut impl Iterator<Item = &'i T>) -> Result<&'i T> {
    all.next().ok_or_else(|| failed("an argument is missing"))
}
