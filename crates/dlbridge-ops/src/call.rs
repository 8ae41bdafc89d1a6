//! One call of an operator, from a framework's arguments to the function and its outputs:
//!
//! 1. `choose` finds the kernel for the dtypes, and refuses wrong kinds, dtypes and numbers of dimensions;
//! 2. `check_devices` refuses tensors on other devices than the operator's;
//! 3. `shapes` computes the shapes of the outputs;
//! 4. the framework provides the memory of the outputs, and the stream of a call on CUDA;
//! 5. `copies_for` copies inputs that the function takes as slices and that have gaps;
//! 6. `guarded` calls the function, and turns a panic into an error.

use std::sync::atomic::Ordering;

use dlbridge::{DataType, Tensor, TensorRef};
use smallvec::SmallVec;

use crate::contiguous::is_aligned;
use crate::error::{Error, ErrorKind, Result, guarded};
use crate::operator::{Kernel, Operator};
use crate::outputs::{Outputs, Slot};
use crate::parameter::{Kind, Parameter};
use crate::shape::{OutputShape, Shapes};
use crate::value::Value;

/// The values of a call, for few parameters without an allocation.
pub(crate) type Values<'a> = SmallVec<[Value<'a>; 6]>;

/// The dtype and the number of dimensions of an argument; `None` if it is not a tensor.
pub(crate) type Described = Option<(DataType, usize)>;

impl Operator {
    /// Calls the function. `inputs` has a value for each parameter that is not an output; the call takes them out of
    /// their places.
    pub(crate) fn call(
        &'static self,
        inputs: &mut [Value<'_>],
        outputs: &dyn Outputs,
    ) -> Result<()> {
        self.call_unnamed(inputs, outputs).map_err(|error| error.in_operator(self.name()))
    }

    fn call_unnamed(&'static self, inputs: &mut [Value<'_>], outputs: &dyn Outputs) -> Result<()> {
        let kernel = self.kernels.iter().find(|kernel| kernel.takes(inputs));
        let kernel = kernel.ok_or_else(|| self.refusal(inputs))?;
        let device = self.check_devices(inputs)?;
        let shapes = self.output_shapes(inputs)?;
        let mut filled = SmallVec::<[Value<'_>; 2]>::new();
        for (index, (kind, shape)) in kernel.outputs.iter().zip(&shapes).enumerate() {
            filled.push(match (kind, shape.extents()) {
                (Kind::Output(form), Some(shape)) => {
                    let memory = outputs.output(index, form.dtype, shape)?;
                    match memory.into_contiguous(form.dtype, shape) {
                        Ok(output) => Value::ContiguousMut(output),
                        Err(memory) => Value::of_mut(memory.into_tensor(form.dtype, shape)?),
                    }
                }
                _ => Value::Slot(Slot::new(outputs, index)),
            });
        }
        let fit = kernel.inputs.iter().zip(&*inputs).all(|(kind, value)| fits(kind, value));
        let copies = if fit { None } else { Some(self.copies_for(kernel, inputs)?) };
        if self.on_cuda {
            filled.push(Value::Cuda(outputs.cuda(device)?));
        }
        let Some(copies) = copies else {
            return guarded(|| (kernel.run)(inputs, &mut filled));
        };
        let mut contiguous = Values::new();
        for (value, copy) in inputs.iter_mut().zip(&copies) {
            contiguous.push(match copy {
                Some(copy) => Value::of(TensorRef::from(copy)),
                None => std::mem::take(value),
            });
        }
        guarded(|| (kernel.run)(&mut contiguous, &mut filled))
    }

    /// The shapes of the outputs, in order. Checks that the shapes of the inputs fulfil the operator's requirements.
    pub(crate) fn output_shapes<'a>(
        &'static self,
        inputs: &[Value<'a>],
    ) -> Result<SmallVec<[OutputShape<'a>; 2]>> {
        let shapes = Shapes::new(self.name, self.inputs, inputs);
        if self.elementwise {
            shapes.check_equal()?;
        }
        self.requires.iter().try_for_each(|require| shapes.check(require))?;
        let mut outputs = SmallVec::new();
        for (shape, output) in self.shapes.iter().zip(self.outputs) {
            let shape = shapes.output(shape)?;
            if let (Some(extents), Some(expected)) =
                (shape.extents(), output.kind.form().and_then(|form| form.ndim))
                && extents.len() != expected
            {
                let name = output.name;
                let message =
                    format!("{name} must have {expected} dimensions, but its shape is {extents:?}");
                return Err(Error::of(ErrorKind::Value, message));
            }
            outputs.push(shape);
        }
        Ok(outputs)
    }

    /// Why no kernel takes the inputs.
    #[cold]
    fn refusal(&self, inputs: &[Value<'_>]) -> Error {
        let described = |input: usize| described(&inputs[input]);
        let checked = self.check_kinds(inputs).and_then(|()| self.choose(described).map(drop));
        checked.err().unwrap_or_else(|| self.no_kernel(described))
    }

    /// Checks that each value is of its parameter's kind.
    fn check_kinds(&self, inputs: &[Value<'_>]) -> Result<()> {
        let expected = self.inputs().count();
        if inputs.len() != expected {
            return Err(Error::of(
                ErrorKind::Type,
                format_args!("{expected} arguments are expected, but there are {}", inputs.len()),
            ));
        }
        let wrong =
            self.inputs().zip(inputs).find(|(parameter, value)| !value.fits(&parameter.kind));
        match wrong {
            Some((Parameter { name, kind, .. }, value)) => Err(Error::of(
                ErrorKind::Type,
                format_args!("{name} must be {}, but is {}", kind.text(), value.text()),
            )),
            None => Ok(()),
        }
    }

    /// The kernel for the dtypes of the inputs.
    pub(crate) fn choose(&self, described: impl Fn(usize) -> Described) -> Result<&'static Kernel> {
        let kernels = self.kernels;
        for (input, parameter) in self.inputs().enumerate() {
            let (Some(form), Some((_, found))) = (parameter.kind.form(), described(input)) else {
                continue;
            };
            if let Some(expected) = form.ndim
                && expected != found
            {
                return Err(Error::of(
                    ErrorKind::Value,
                    format_args!(
                        "{} must have {expected} dimensions, but has {found}",
                        parameter.name
                    ),
                ));
            }
        }
        let fits = |kernel: &&Kernel| {
            kernel.inputs.iter().enumerate().all(|(input, kind)| {
                match (kind.form(), described(input)) {
                    (Some(form), Some((found, _))) => form.dtype == found,
                    _ => true,
                }
            })
        };
        kernels.iter().find(fits).ok_or_else(|| self.no_kernel(described))
    }

    /// The error for dtypes without a kernel.
    fn no_kernel(&self, described: impl Fn(usize) -> Described) -> Error {
        for (input, parameter) in self.inputs().enumerate() {
            let Some((found, _)) = described(input) else { continue };
            let mut possible: Vec<DataType> = Vec::new();
            for form in self.kernels.iter().filter_map(|kernel| kernel.inputs.get(input)?.form()) {
                if !possible.contains(&form.dtype) {
                    possible.push(form.dtype);
                }
            }
            if !possible.contains(&found) {
                let possible: Vec<_> = possible.iter().map(ToString::to_string).collect();
                return Error::of(
                    ErrorKind::Type,
                    format_args!(
                        "{} must be {}, but is {found}; convert it before the call",
                        parameter.name,
                        possible.join(" or ")
                    ),
                );
            }
        }
        let found: Vec<_> = self
            .inputs()
            .enumerate()
            .filter_map(|(input, parameter)| {
                described(input).map(|(dtype, _)| format!("{} is {dtype}", parameter.name))
            })
            .collect();
        Error::of(
            ErrorKind::Type,
            format_args!(
                "the dtypes must agree, but {}; convert them before the call",
                found.join(", ")
            ),
        )
    }

    /// Copies of the inputs that the kernel cannot take as they are.
    fn copies_for(
        &self,
        kernel: &Kernel,
        inputs: &[Value<'_>],
    ) -> Result<SmallVec<[Option<Tensor>; 6]>> {
        if self.on_cuda {
            let unfit =
                kernel.inputs.iter().zip(inputs).position(|(kind, value)| !fits(kind, value));
            let name =
                unfit.and_then(|input| self.inputs.get(input)).map_or("an input", |one| one.name);
            return Err(Error::of(
                ErrorKind::Buffer,
                format_args!(
                    "{name} must be aligned and in C order without gaps, because the call copies nothing on CUDA; pass a \
                     contiguous copy"
                ),
            ));
        }
        let copy = |(kind, value): (&Kind, &Value<'_>)| match value.to_tensor_ref()? {
            Some(tensor) if !fits(kind, value) => {
                (self.copies)().fetch_add(1, Ordering::Relaxed);
                Ok(Some(tensor.to_copy()?))
            }
            _ => Ok(None),
        };
        kernel.inputs.iter().zip(inputs).map(copy).collect()
    }
}

impl Kernel {
    /// Returns true if the values are of the kinds, dtypes and numbers of dimensions of this kernel.
    fn takes(&self, inputs: &[Value<'_>]) -> bool {
        let takes = |(kind, value): (&Kind, &Value<'_>)| {
            value.fits(kind)
                && kind.form().is_none_or(|form| {
                    described(value).is_none_or(|(dtype, ndim)| {
                        form.dtype == dtype && form.ndim.is_none_or(|expected| expected == ndim)
                    })
                })
        };
        inputs.len() == self.inputs.len() && self.inputs.iter().zip(inputs).all(takes)
    }
}

/// Returns true if a kernel takes the layout of a value.
#[inline]
fn fits(kind: &Kind, value: &Value<'_>) -> bool {
    match (kind.form(), value) {
        (Some(form), Value::Contiguous(tensor)) => tensor.is_aligned(form.align),
        (Some(form), Value::Tensor(tensor)) => {
            (!form.contiguous || tensor.is_c_contiguous()) && is_aligned(tensor, form.align)
        }
        _ => true,
    }
}

/// The dtype and the number of dimensions of a value, if it is a tensor.
#[inline]
pub(crate) fn described(value: &Value<'_>) -> Described {
    Some((value.dtype()?, value.shape()?.len()))
}
