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

#[cfg(test)]
mod tests {
    use crate::error::ErrorKind;
    use crate::library::{Exported, Library};
    use crate::private::exported;
    use crate::{InPlace, op};

    macro_rules! pairs {
        ($($module:ident: ($($parameter:tt)*) -> ($($vjp:tt)*);)*) => {
            $(
                #[allow(dead_code, unused_variables, reason = "only the names matter, and one library without its vjp")]
                mod $module {
                    use super::*;

                    #[op(vjp = scale_vjp)]
                    fn scale($($parameter)*) {}

                    #[op]
                    fn scale_vjp($($vjp)*) {}

                    static OPERATORS: [Exported; 2] =
                        [exported::<scale::Operator>(), exported::<scale_vjp::Operator>()];
                    pub(super) static LIBRARY: Library = Library::new("tests", &OPERATORS);
                    pub(super) static WITHOUT_VJP: Library =
                        Library::new("tests", OPERATORS.split_at(1).0);
                }
            )*
        };
    }

    pairs! {
        fits: (x: &[f32], by: f64, out: &mut [f32])
            -> (x: &[f32], by: f64, out: &[f32], grad_out: &[f32], grad_x: &mut [f32]);
        unknown_input: (x: &[f32], out: &mut [f32]) -> (y: &[f32], grad_x: &mut [f32]);
        unknown_gradient: (x: &[f32], out: &mut [f32]) -> (grad_y: &[f32], grad_x: &mut [f32]);
        output_without_prefix: (x: &[f32], out: &mut [f32]) -> (grad_out: &[f32], dx: &mut [f32]);
        output_of_no_input: (x: &[f32], out: &mut [f32]) -> (grad_out: &[f32], grad_y: &mut [f32]);
        output_of_attribute: (x: &[f32], by: f64, out: &mut [f32])
            -> (grad_out: &[f32], grad_by: &mut [f32]);
        in_place: (x: InPlace<'_, f32>, out: &mut [f32]) -> (grad_out: &[f32], grad_x: &mut [f32]);
        in_place_vjp: (x: &[f32], out: &mut [f32])
            -> (x: InPlace<'_, f32>, grad_out: &[f32], grad_x: &mut [f32]);
    }

    #[test]
    fn fitting_vjp_is_accepted() {
        assert!(fits::LIBRARY.check().is_ok());
    }

    #[test]
    fn wrong_vjp_is_refused_with_the_names() {
        for (library, message) in [
            (&fits::WITHOUT_VJP, "but is not in the library; add it to `library!(\"tests\": ...)`"),
            (&unknown_input::LIBRARY, "so it cannot take y; it may take the inputs and outputs of"),
            (&unknown_gradient::LIBRARY, "so it cannot take grad_y; it may take the inputs"),
            (&output_without_prefix::LIBRARY, "so it cannot return dx; its outputs are grad_NAME,"),
            (&output_of_no_input::LIBRARY, "so it cannot return grad_y; its outputs are grad_NAME"),
            (&output_of_attribute::LIBRARY, "so it cannot return grad_by; its outputs are"),
            (&in_place::LIBRARY, "but scale changes x in place; give it an output instead"),
            (&in_place_vjp::LIBRARY, "but scale_vjp changes x in place; give it an output instead"),
        ] {
            let error = library.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Type);
            let expected = format!("scale_vjp is the vjp of scale, {message}");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }
}
