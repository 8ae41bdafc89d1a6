//! The rule for operators that compute gradients: they are matched with their operator by the names and kinds of
//! parameters.

use dlbridge::DataType;

use crate::error::{Error, ErrorKind, Result};
use crate::library::Library;
use crate::operator::{Kernel, Operator};
use crate::parameter::{Kind, Parameter};

impl Library {
    /// Checks that each vjp fits its operator.
    pub(crate) fn check(&self) -> Result<()> {
        self.operators.iter().try_for_each(|exported| match self.vjp_of(exported.operator) {
            Some(vjp) => check_vjp(exported.operator, vjp),
            None => Ok(()),
        })
    }
}

fn check_vjp(operator: &Operator, vjp: &Operator) -> Result<()> {
    let wrong = |what: String| {
        Err(Error::of(
            ErrorKind::Type,
            format_args!("{} is the vjp of {}, {what}", vjp.name, operator.name),
        ))
    };
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
            let is_present =
                matches!((input.kind, parameter.kind), (Kind::Input(_), Kind::Optional(_)));
            if !is_present && !input.kind.is_same(parameter.kind) {
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
    for kernel in operator.kernels {
        let needed = needed(operator, kernel, vjp);
        if !vjp.kernels.iter().any(|one| takes(vjp, one, &needed)) {
            let types = vjp.inputs().chain(vjp.outputs()).zip(&needed);
            let types = types.filter_map(|(one, needed)| match (*needed)? {
                (dtype, Some(ndim)) => Some(format!("{}: {dtype} of {ndim} dimensions", one.name)),
                (dtype, None) => Some(format!("{}: {dtype}", one.name)),
            });
            let types = types.collect::<Vec<_>>().join(", ");
            return wrong(format!("so its types must be {types}, as those of {}", operator.name));
        }
    }
    Ok(())
}

/// The dtype and the number of dimensions of a tensor, as far as the operator decides them.
type Known = Option<(DataType, Option<usize>)>;

/// What a vjp takes and returns for a kernel of its operator: for each of its inputs, then for its outputs.
fn needed(operator: &Operator, kernel: &Kernel, vjp: &Operator) -> Vec<Known> {
    let input = |name: &str| {
        let position = operator.inputs().position(|one| one.name == name)?;
        kernel.inputs[position].form().map(|form| (form.dtype, form.ndim))
    };
    let output = |name: &str| {
        let name = name.strip_prefix("grad_").unwrap_or(name);
        let position = operator.outputs().position(|one| one.name == name)?;
        let ndim = operator.shapes[position].ndim(kernel.inputs);
        kernel.outputs[position].form().map(|form| (form.dtype, form.ndim.or(ndim)))
    };
    let inputs = vjp.inputs().map(|one| input(one.name).or_else(|| output(one.name)));
    let gradient = |one: &Parameter| input(one.name.strip_prefix("grad_")?);
    inputs.chain(vjp.outputs().map(gradient)).collect()
}

/// Returns true if a kernel of a vjp has the types.
fn takes(vjp: &Operator, kernel: &Kernel, needed: &[Known]) -> bool {
    let inputs = kernel.inputs.iter().map(|kind| (kind, None));
    let shapes = vjp.shapes.iter().map(|shape| shape.ndim(kernel.inputs));
    let mut kinds = inputs.chain(kernel.outputs.iter().zip(shapes)).zip(needed);
    kinds.all(|((kind, ndim), needed)| match (kind.form(), needed) {
        (Some(form), Some((dtype, expected))) => {
            let ndim = form.ndim.or(ndim);
            form.dtype == *dtype && ndim.zip(*expected).is_none_or(|(one, other)| one == other)
        }
        _ => true,
    })
}
