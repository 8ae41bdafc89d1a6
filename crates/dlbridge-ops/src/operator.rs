//! The description of an operator, which the attribute [`op`](crate::op) makes from a function's signature.

use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};
use crate::parameter::{Kind, Parameter, alias};
use crate::shape::{Require, Shape};
use crate::value::Value;

/// An operator: its parameters, the shapes of its outputs, and a kernel for each list of dtypes.
///
/// ```
/// use dlbridge_ops::{Define, op};
///
/// #[op]
/// fn double(x: &[f32], out: &mut [f32]) {
///     for (out, x) in out.iter_mut().zip(x) {
///         *out = 2.0 * x;
///     }
/// }
///
/// let operator = double::Operator::OPERATOR;
/// assert_eq!(operator.name(), "double");
/// assert_eq!(operator.schema(), "double(Tensor x) -> Tensor");
/// ```
#[derive(Debug)]
pub struct Operator {
    #[doc(hidden)]
    pub name: &'static str,
    #[doc(hidden)]
    pub doc: &'static str,
    /// The parameters that the caller passes, in the order of the function's signature.
    #[doc(hidden)]
    pub inputs: &'static [Parameter],
    /// The parameters that the function fills.
    #[doc(hidden)]
    pub outputs: &'static [Parameter],
    /// At least one, in the order of the dtypes in the attribute.
    #[doc(hidden)]
    pub kernels: &'static [Kernel],
    /// The shapes of the outputs, in the order of the outputs among the parameters.
    #[doc(hidden)]
    pub shapes: &'static [Shape],
    #[doc(hidden)]
    pub requires: &'static [Require],
    #[doc(hidden)]
    pub vjp: Option<Vjp>,
    /// All inputs have one shape, whose leading dimensions are those of all outputs, however many there are.
    #[doc(hidden)]
    pub elementwise: bool,
    /// Tensors are on a CUDA device, and the function gets the stream.
    #[doc(hidden)]
    pub on_cuda: bool,
    /// The counter of copies. A function, because a constant must not refer to memory that changes.
    #[doc(hidden)]
    pub copies: fn() -> &'static AtomicU64,
}

/// The operator that computes gradients, by its name in the library.
#[doc(hidden)]
#[derive(Debug)]
pub struct Vjp {
    pub name: &'static str,
    /// The message for a library that does not have it.
    pub missing: &'static str,
}

/// The function for one list of dtypes.
#[doc(hidden)]
#[derive(Debug)]
pub struct Kernel {
    /// The kinds of the parameters that the caller passes, with their dtypes for this kernel.
    pub inputs: &'static [Kind],
    /// The kinds of the parameters that the function fills.
    pub outputs: &'static [Kind],
    /// Runs the function on the values of the parameters that the caller passes, and of those that the function fills.
    /// Those end with the device and the stream of a call on CUDA.
    pub run: fn(&mut [Value<'_>], &mut [Value<'_>]) -> Result<()>,
}

impl Operator {
    /// The name of the function.
    ///
    /// ```
    /// use dlbridge_ops::{Define, op};
    ///
    /// #[op]
    /// fn twice(x: &[f32], out: &mut [f32]) {}
    ///
    /// assert_eq!(twice::Operator::OPERATOR.name(), "twice");
    /// ```
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The documentation of the function.
    ///
    /// ```
    /// use dlbridge_ops::{Define, op};
    ///
    /// /// Doubles each element.
    /// #[op]
    /// fn twice(x: &[f32], out: &mut [f32]) {}
    ///
    /// assert_eq!(twice::Operator::OPERATOR.doc(), "Doubles each element.");
    /// ```
    pub fn doc(&self) -> &'static str {
        self.doc
    }

    /// The parameters that the caller passes: all except the outputs.
    pub(crate) fn inputs(&self) -> slice::Iter<'static, Parameter> {
        self.inputs.iter()
    }

    /// The parameters that the function fills.
    pub(crate) fn outputs(&self) -> slice::Iter<'static, Parameter> {
        self.outputs.iter()
    }

    /// The parameter of an output.
    pub(crate) fn output(&self, index: usize) -> Result<&'static Parameter> {
        let missing = || Error::of(ErrorKind::Failed, format_args!("there is no output {index}"));
        self.outputs.get(index).ok_or_else(missing)
    }

    /// The number of inputs that the operator copied since the program started, because the function demands
    /// contiguous elements and the caller's were not.
    ///
    /// ```
    /// use dlbridge_ops::{Define, op};
    ///
    /// #[op]
    /// fn twice(x: &[f32], out: &mut [f32]) {}
    ///
    /// assert_eq!(twice::Operator::OPERATOR.copies(), 0);
    /// ```
    pub fn copies(&self) -> u64 {
        (self.copies)().load(Ordering::Relaxed)
    }

    /// The signature in the syntax of PyTorch, without the namespace.
    ///
    /// ```
    /// use dlbridge_ops::{Define, op};
    ///
    /// #[op(default(by = 2.0))]
    /// fn scale(x: &[f32], by: f64, out: &mut [f32]) {}
    ///
    /// assert_eq!(scale::Operator::OPERATOR.schema(), "scale(Tensor x, float by=2.) -> Tensor");
    /// ```
    pub fn schema(&self) -> String {
        let parameters = self.schema_parameters();
        let results = match self.outputs().count() {
            1 => "Tensor".to_owned(),
            count => format!("({})", vec!["Tensor"; count].join(", ")),
        };
        format!("{}({}) -> {results}", self.name, parameters.join(", "))
    }

    fn schema_parameters(&self) -> Vec<String> {
        let first = self.first_omissible();
        let schema = |(position, parameter): (usize, &Parameter)| {
            parameter.schema(position, position >= first)
        };
        self.inputs().enumerate().map(schema).collect()
    }

    /// The position from which on the caller may omit each argument. Signatures have default values only there, because
    /// neither Python nor PyTorch accepts them before a parameter without one.
    pub(crate) fn first_omissible(&self) -> usize {
        let required = self.inputs().rposition(|parameter| !parameter.is_omissible());
        required.map_or(0, |last| last + 1)
    }

    /// The signature of the variant that fills tensors of the caller, in the syntax of PyTorch. It returns nothing, because
    /// PyTorch compiles only operators whose results are not arguments.
    ///
    /// ```
    /// use dlbridge_ops::{Define, op};
    ///
    /// #[op]
    /// fn twice(x: &[f32], out: &mut [f32]) {}
    ///
    /// let schema = twice::Operator::OPERATOR.out_schema();
    /// assert_eq!(schema, "twice.out(Tensor x, *, Tensor(a0!) out) -> ()");
    /// ```
    pub fn out_schema(&self) -> String {
        let mut parameters = self.schema_parameters();
        parameters.push("*".to_owned());
        let outputs = self.outputs().enumerate();
        parameters
            .extend(outputs.map(|(i, output)| format!("Tensor({}!) {}", alias(i), output.name)));
        format!("{}.out({}) -> ()", self.name, parameters.join(", "))
    }
}
