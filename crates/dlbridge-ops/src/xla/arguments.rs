//! The buffers of a call as the values of parameters.

use std::cell::OnceCell;

use dlbridge::Device;

use super::attributes::Attributes;
use super::buffers::{Array, failed};
use super::frame::{Buffers, CallFrame};
use crate::error::{Error, ErrorKind, Result};
use crate::exclusive::{Arguments, add_target, make_writable};
use crate::operator::Operator;
use crate::parameter::{Kind, Parameter};
use crate::value::{List, Value};

impl<'a> Arguments<'a> {
    /// Reads the arguments in place, because they are large. `lists` has a place for each list among them.
    ///
    /// # Safety
    /// The frame and the attributes are those of XLA, complete and of a known version, and stay as they are for `'a`.
    /// Buffers are on `device` and have their elements for `'a`, and results are valid for writes. This is the only call
    /// of this function, and no other code writes arguments or uses results for `'a`.
    pub(super) unsafe fn read_frame(
        &mut self,
        operator: &'static Operator,
        frame: &'a CallFrame,
        attributes: &Attributes<'a>,
        lists: &'a [OnceCell<List>],
        device: Device,
    ) -> Result<()> {
        attributes.check(operator.inputs())?;
        let present = attributes.present()?;
        let in_place = |one: &&Parameter| matches!(one.kind, Kind::InPlace(_));
        let changed = operator.inputs().filter(in_place).count();
        count(&frame.arguments, passed(operator, present).count(), "tensors")?;
        count(&frame.results, changed + operator.outputs.len(), "results")?;
        if let Some(output) = operator.outputs().find(|one| matches!(one.kind, Kind::Dynamic(_))) {
            return Err(failed(format_args!(
                "the function decides the shape of {}, but XLA allocates results before the call",
                output.name
            )));
        }
        let buffer = |buffers: &Buffers, index, name| {
            // SAFETY: `count` found as many entries as there are names, and the caller guarantees the buffers for `'a`.
            unsafe { Array::read(buffers, index, name, device) }
        };

        let (mut lists, mut optional, mut argument) = (lists.iter(), 0, 0);
        for parameter in operator.inputs() {
            let is_tensor = match parameter.kind {
                Kind::Optional(_) => {
                    optional += 1;
                    is_present(present, optional - 1)
                }
                kind => !kind.is_attribute(),
            };
            self.values.push(match parameter.kind {
                _ if is_tensor => {
                    argument += 1;
                    let array = buffer(&frame.arguments, argument - 1, parameter.name)?;
                    // SAFETY: the caller guarantees the elements for `'a`.
                    unsafe { array.value(parameter.name) }?
                }
                Kind::Optional(_) => Value::None,
                Kind::Ints | Kind::Floats => match lists.next() {
                    Some(list) => attributes.list(parameter, list)?,
                    None => return Err(failed("a list has no place")),
                },
                _ => attributes.value(parameter)?,
            });
        }

        if changed > 0 {
            let tensors = passed(operator, present).enumerate().filter(|(_, one)| in_place(one));
            let positions = operator.inputs().enumerate().filter(|(_, one)| in_place(one));
            for (result, ((argument, parameter), (position, _))) in
                tensors.zip(positions).enumerate()
            {
                let name = parameter.name;
                let argument = buffer(&frame.arguments, argument, name)?;
                let result = buffer(&frame.results, result, name)?;
                // SAFETY: the caller guarantees both; values are not references.
                unsafe { result.replace(&argument, name, &self.values) }?;
                // SAFETY: the caller guarantees the elements for `'a`.
                self.values[position] = unsafe { result.value(name) }?;
            }
            // SAFETY: the caller guarantees this contract.
            unsafe { make_writable(operator, &mut self.values) }?;
        }
        for (index, output) in operator.outputs().enumerate() {
            let array = buffer(&frame.results, changed + index, output.name)?;
            // SAFETY: the caller guarantees the elements for `'a`.
            let target = unsafe { array.value(output.name) }?;
            // SAFETY: the caller guarantees this contract.
            unsafe { add_target(operator, &self.values, &mut self.targets, target) }?;
        }
        Ok(())
    }
}

/// Checks that XLA passes as many buffers as the operator has.
fn count(buffers: &Buffers, expected: usize, role: &str) -> Result<()> {
    match buffers.count {
        found if found == expected as i64 => Ok(()),
        found => Err(Error::of(
            ErrorKind::Type,
            format_args!("{expected} {role} are expected, but XLA passes {found}"),
        )),
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
