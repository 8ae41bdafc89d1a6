//! What the code of the macros uses.

pub use crate::library::{Exported, TorchKernel};
pub use crate::operator::{Kernel, Vjp};
pub use crate::parameter::{DefaultValue, Form, Kind, Parameter};
pub use crate::shape::{Extent, Part, Require, Shape};
pub use crate::value::Value;

use crate::arguments::Argument;
use crate::error::{Error, ErrorKind, Result};
use crate::library::Library;
use crate::{Define, torch, xla};

/// The kind of a parameter. Fails at compile time for a type alias that hides an output from the macro.
pub const fn kind_of(kind: Kind, is_output: bool, is_cuda: bool) -> Kind {
    let found = matches!(kind, Kind::Output(_) | Kind::Dynamic(_));
    assert!(
        found == is_output && matches!(kind, Kind::Cuda) == is_cuda,
        "write an output as `&mut [T]`, `Out`, `Dynamic` or `CudaOut`, and the device as `OnCuda`, without a type alias"
    );
    kind
}

/// The shape of an output for which the attribute has none: that of the first tensor.
pub const fn default_shape(kinds: &[Kind], output: usize) -> Shape {
    if let Kind::Dynamic(_) = kinds[output] {
        return Shape::Dynamic;
    }
    let (mut position, mut input) = (0, 0);
    while position < kinds.len() {
        match kinds[position] {
            Kind::Input(_) | Kind::InPlace(_) => return Shape::Like(input),
            Kind::Output(_) | Kind::Dynamic(_) | Kind::Cuda => {}
            _ => input += 1,
        }
        position += 1;
    }
    panic!(
        "without an input that is a tensor, the attribute must have the shape: `shape(out = [n])`"
    )
}

/// Checks that the parameters are of the same kinds in all kernels; dtypes differ.
pub const fn check_kernels(kernels: &[Kernel]) {
    let mut kernel = 1;
    while kernel < kernels.len() {
        same_kinds(kernels[0].inputs, kernels[kernel].inputs);
        same_kinds(kernels[0].outputs, kernels[kernel].outputs);
        kernel += 1;
    }
}

const fn same_kinds(first: &[Kind], other: &[Kind]) {
    assert!(first.len() == other.len(), "all kernels must have the same number of parameters");
    let mut position = 0;
    while position < first.len() {
        assert!(
            first[position].is_same(other[position]),
            "a parameter must be a tensor for all types of `T in [...]`, or an attribute of one type for all"
        );
        position += 1;
    }
}

/// Checks that tensors are on a CUDA device if the function takes one, and on the CPU otherwise.
pub const fn check_places(kinds: &[Kind]) {
    let (mut position, mut device, mut cuda, mut cpu) = (0, 0, false, false);
    while position < kinds.len() {
        match kinds[position] {
            Kind::Cuda => device += 1,
            Kind::Input(form)
            | Kind::Optional(form)
            | Kind::InPlace(form)
            | Kind::Output(form)
            | Kind::Dynamic(form) => (cuda, cpu) = (cuda || form.on_cuda, cpu || !form.on_cuda),
            _ => {}
        }
        position += 1;
    }
    assert!(device < 2, "write one parameter `cuda: OnCuda<'_>`");
    assert!(
        device == 1 || !cuda,
        "an operator with tensors on a CUDA device needs a parameter `cuda: OnCuda<'_>`, which has the stream"
    );
    assert!(
        device == 0 || !cpu,
        "an operator with `OnCuda` takes tensors as `CudaArray`, `CudaView`, `CudaInPlace` and `CudaOut`"
    );
}

/// Checks that shapes have the numbers of dimensions of the outputs' types, and that none reads a slice as if it had only some
/// axes.
pub const fn check_shapes(
    kernel: &Kernel,
    shapes: &[Shape],
    requires: &[Require],
    elementwise: bool,
) {
    let mut position = 0;
    while position < shapes.len() {
        let form = kernel.outputs[position].form();
        if let (Some(form), Some(found)) = (form, shapes[position].ndim(kernel.inputs))
            && let Some(expected) = form.ndim
        {
            assert!(
                expected == found,
                "an output has another number of dimensions in its type, such as `Out<T, 2>`, than in its shape"
            );
        }
        if let (false, Shape::Parts(parts)) = (elementwise, &shapes[position]) {
            check_axes(kernel.inputs, parts);
        }
        position += 1;
    }
    position = 0;
    while position < requires.len() && !elementwise {
        check_axes(kernel.inputs, requires[position].left);
        check_axes(kernel.inputs, requires[position].right);
        position += 1;
    }
}

/// Checks that a list with a single axis of a slice has a range of axes of it too.
const fn check_axes(inputs: &[Kind], parts: &[Part]) {
    let mut input = 0;
    while input < inputs.len() {
        let (mut part, mut axis, mut range) = (0, false, false);
        while part < parts.len() {
            match &parts[part] {
                Part::One(extent) => axis = axis || extent.reads(input),
                Part::Axes { input: one, .. } => range = range || *one == input,
            }
            part += 1;
        }
        let is_flat = matches!(inputs[input].form(), Some(form) if form.flat);
        assert!(
            range || !(axis && is_flat),
            "a shape or a requirement reads an axis such as `x[0]` of a slice `x: &[T]`, which may have more dimensions: take \
             `x: Array<'_, T, 1>` or `View`, whose number of dimensions is checked, or have all of them, as in `[x[0], x[1..]]`"
        );
        input += 1;
    }
}

/// Checks that an operator with `elementwise` takes any number of dimensions.
pub const fn check_elementwise(kinds: &[Kind]) {
    let mut position = 0;
    while position < kinds.len() {
        match kinds[position] {
            Kind::Input(form) | Kind::Optional(form) | Kind::InPlace(form) | Kind::Output(form) => {
                assert!(
                    form.ndim.is_none(),
                    "an operator with `elementwise` takes tensors of any number of dimensions"
                );
            }
            Kind::Dynamic(_) => panic!(
                "an operator with `elementwise` has no output `Dynamic`, whose shape need not begin with that of an input"
            ),
            _ => {}
        }
        position += 1;
    }
}

/// The value of an attribute that the caller omits, if it is of the parameter's kind.
pub const fn default_of(kind: Kind, value: DefaultValue) -> DefaultValue {
    match (kind, value) {
        (Kind::Float, DefaultValue::Int(value)) => DefaultValue::Float(value as f64),
        (Kind::Float, DefaultValue::Float(_))
        | (Kind::Int, DefaultValue::Int(_))
        | (Kind::Bool, DefaultValue::Bool(_))
        | (Kind::Str, DefaultValue::Str(_))
        | (Kind::Ints, DefaultValue::Ints(_))
        | (Kind::Floats, DefaultValue::Floats(_)) => value,
        (Kind::Floats, DefaultValue::Ints([])) => DefaultValue::Floats(&[]),
        _ => panic!("the default value is not of the parameter's type"),
    }
}

/// The argument of the function from its value.
pub fn argument<'a, A: Argument<'a>>(name: &str, value: &mut Value<'a>) -> Result<A> {
    A::from_value(value).map_err(|error| error.in_operator(name))
}

/// The error of a call with another number of values, which only a defect of dlbridge-ops makes.
pub fn wrong_count() -> Result<()> {
    Err(Error::of(ErrorKind::Type, "the number of values is not that of the parameters"))
}

/// An operator with the functions that frameworks call.
pub const fn exported<O: Define>() -> Exported {
    Exported {
        operator: O::OPERATOR,
        torch: torch::kernel::<O>,
        torch_out: torch::out_kernel::<O>,
        torch_meta: torch::meta_kernel::<O>,
        xla: xla::call::<O>,
    }
}

/// Checks that each vjp fits its operator.
///
/// # Errors
/// Returns an error of kind `Type` that says which parameter does not fit.
pub fn check(library: &Library) -> Result<()> {
    library.check()
}

/// Registers the operators with the frameworks that are loaded. The loader calls it once.
pub fn loaded(library: &'static Library) {
    torch::loaded(library);
}
