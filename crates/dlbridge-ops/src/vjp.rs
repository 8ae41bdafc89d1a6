//! The rule for operators that compute gradients: they are matched with their operator by the names and kinds of
//! parameters.

use crate::error::{Error, ErrorKind, Result};
use crate::library::Library;
use crate::operator::Operator;
use crate::parameter::{Kind, Parameter};

impl Library {
    /// Checks that each vjp fits its operator, and is in the library too.
    pub(crate) fn check(&self) -> Result<()> {
        self.operators.iter().try_for_each(|exported| match exported.operator.vjp {
            Some(vjp) => self.check_vjp(exported.operator, vjp),
            None => Ok(()),
        })
    }

    fn check_vjp(&self, operator: &Operator, vjp: &'static Operator) -> Result<()> {
        let wrong = |what: String| {
            Err(Error::of(
                ErrorKind::Type,
                format_args!("{} is the vjp of {}, {what}", vjp.name, operator.name),
            ))
        };
        if !self.operators.iter().any(|exported| std::ptr::eq(exported.operator, vjp)) {
            return wrong(format!(
                "but is not in the library; add it to `library!(\"{}\": ...)`",
                self.namespace
            ));
        }
        for one in [operator, vjp] {
            let in_place = |input: &&Parameter| matches!(input.kind, Kind::InPlace(_));
            if let Some(input) = one.inputs().find(in_place) {
                let (name, input) = (one.name, input.name);
                return wrong(format!(
                    "but {name} changes {input} in place; give it an output instead"
                ));
            }
        }
        for parameter in vjp.inputs() {
            let name = parameter.name;
            if let Some(input) = operator.inputs().find(|input| input.name == name) {
                if !passes(input.kind, parameter.kind) {
                    let (found, passed) = (parameter.kind.text(), input.kind.text());
                    return wrong(format!(
                        "so it cannot take {name} as {found}: in {} it is {passed}; write it with the same type",
                        operator.name
                    ));
                }
                continue;
            }
            let of_output = name.strip_prefix("grad_").unwrap_or(name);
            if !operator.outputs().any(|output| output.name == of_output) {
                return wrong(format!(
                    "so it cannot take {name}; it may take the inputs and outputs of {0} by their names, and grad_NAME \
                     for the gradient of each output",
                    operator.name
                ));
            }
            if parameter.kind.is_attribute() {
                let (found, gradient) = (parameter.kind.text(), name != of_output);
                let passed = if gradient { "the gradient of an output" } else { "an output" };
                return wrong(format!(
                    "so it cannot take {name} as {found}: it is {passed} of {}; write it as a tensor, such as `&[f32]`",
                    operator.name
                ));
            }
        }
        for output in vjp.outputs() {
            let input = output.name.strip_prefix("grad_");
            if !operator.inputs().any(|one| Some(one.name) == input && !one.kind.is_attribute()) {
                return wrong(format!(
                    "so it cannot return {}; its outputs are grad_NAME, for tensors that {} takes",
                    output.name, operator.name
                ));
            }
        }
        Ok(())
    }
}

/// Returns true if a vjp takes what its operator was called with.
fn passes(from: Kind, to: Kind) -> bool {
    match (from, to) {
        (Kind::Input(_), Kind::Optional(_)) => true,
        _ => from.is_same(to),
    }
}
