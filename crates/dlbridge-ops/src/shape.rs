//! The shapes of outputs, computed from the shapes of inputs and from integer attributes.

use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result, guarded};
use crate::parameter::{Kind, Parameter};
use crate::value::Value;

/// The extents of a shape, without an allocation for few.
pub(crate) type Extents = SmallVec<[i64; 6]>;

/// The shape of an output.
#[doc(hidden)]
#[derive(Debug)]
pub enum Shape {
    /// The shape of the input with this position among the parameters that are not outputs.
    Like(usize),
    /// One extent or several from each part.
    Parts(&'static [Part]),
    /// The extents that a Rust function returns.
    Function(fn(&Shapes<'_, '_>) -> Result<Vec<i64>>),
    /// The function of the operator decides.
    Dynamic,
}

impl Shape {
    /// The number of dimensions, if the types of the inputs decide it.
    pub(crate) const fn ndim(&self, inputs: &[Kind]) -> Option<usize> {
        let parts = match self {
            Self::Like(input) => return ndim(inputs, *input),
            Self::Parts(parts) => *parts,
            Self::Function(_) | Self::Dynamic => return None,
        };
        let (mut count, mut part) = (0, 0);
        while part < parts.len() {
            count += match &parts[part] {
                Part::One(_) => 1,
                Part::Axes { input, from, to } => match ndim(inputs, *input) {
                    Some(ndim) => {
                        let (from, to) = axes(*from, *to, ndim);
                        to.saturating_sub(from)
                    }
                    None => return None,
                },
            };
            part += 1;
        }
        Some(count)
    }
}

/// The number of dimensions of an input, if its type has it.
const fn ndim(inputs: &[Kind], input: usize) -> Option<usize> {
    match inputs[input].form() {
        Some(form) => form.ndim,
        None => None,
    }
}

/// The first axis of a range among `ndim`, and the axis after the last. Negative axes count from the end.
const fn axes(from: i64, to: Option<i64>, ndim: usize) -> (usize, usize) {
    const fn among(axis: i64, ndim: usize) -> usize {
        let axis = if axis < 0 { axis.saturating_add(ndim as i64) } else { axis };
        match axis {
            ..0 => 0,
            _ if axis as usize > ndim => ndim,
            _ => axis as usize,
        }
    }
    let to = match to {
        Some(to) => among(to, ndim),
        None => ndim,
    };
    (among(from, ndim), to)
}

/// The shape of an output of a call.
pub(crate) enum OutputShape<'a> {
    /// That of an input.
    Of(&'a [i64]),
    Computed(Extents),
    /// The function decides.
    Dynamic,
}

impl OutputShape<'_> {
    /// The extents, unless the function decides them.
    #[inline]
    pub(crate) fn extents(&self) -> Option<&[i64]> {
        match self {
            Self::Of(extents) => Some(extents),
            Self::Computed(extents) => Some(extents),
            Self::Dynamic => None,
        }
    }
}

/// A part of a shape.
#[doc(hidden)]
#[derive(Debug)]
pub enum Part {
    One(Extent),
    /// The extents of an input from an axis to another, which is not included. Negative axes count from the end.
    Axes {
        input: usize,
        from: i64,
        to: Option<i64>,
    },
}

/// An extent as an expression.
#[doc(hidden)]
#[derive(Debug)]
pub enum Extent {
    Number(i64),
    /// A negative axis counts from the end.
    Axis {
        input: usize,
        axis: i64,
    },
    Attribute(usize),
    Add(&'static Extent, &'static Extent),
    Subtract(&'static Extent, &'static Extent),
    Multiply(&'static Extent, &'static Extent),
    /// Rounds down.
    Divide(&'static Extent, &'static Extent),
}

impl Extent {
    /// Returns true if the extent depends on an axis of the input.
    pub(crate) const fn reads(&self, one: usize) -> bool {
        match self {
            Self::Axis { input, .. } => *input == one,
            Self::Number(_) | Self::Attribute(_) => false,
            Self::Add(left, right)
            | Self::Subtract(left, right)
            | Self::Multiply(left, right)
            | Self::Divide(left, right) => left.reads(one) || right.reads(one),
        }
    }
}

/// Two lists of extents that must be equal, with their text for the error.
#[doc(hidden)]
#[derive(Debug)]
pub struct Require {
    pub left: &'static [Part],
    pub right: &'static [Part],
    pub text: &'static str,
}

/// The shapes of the inputs and the integer attributes of a call, for a function that computes an output's shape.
///
/// ```
/// use dlbridge_ops::{Error, Shapes, View, op};
///
/// fn halves(shapes: &Shapes<'_, '_>) -> Result<Vec<i64>, Error> {
///     Ok(shapes.of("x").iter().map(|extent| (extent + 1) / 2).collect())
/// }
///
/// #[op(shape(out = halves))]
/// fn subsample(x: View<'_, f32, 1>, out: &mut [f32]) {
///     out.iter_mut().zip(x.iter().step_by(2)).for_each(|(out, x)| *out = *x);
/// }
/// ```
pub struct Shapes<'v, 'a> {
    operator: &'static str,
    parameters: &'static [Parameter],
    /// For each parameter that is not an output.
    inputs: &'v [Value<'a>],
}

impl<'v, 'a> Shapes<'v, 'a> {
    pub(crate) fn new(
        operator: &'static str,
        parameters: &'static [Parameter],
        inputs: &'v [Value<'a>],
    ) -> Self {
        Self { operator, parameters, inputs }
    }

    /// The shape of an input by its parameter's name; empty for an optional input that is absent.
    ///
    /// # Panics
    /// If the operator has no input of that name.
    ///
    /// ```
    /// # use dlbridge_ops::{Error, Shapes};
    /// fn same(shapes: &Shapes<'_, '_>) -> Result<Vec<i64>, Error> {
    ///     Ok(shapes.of("x").to_vec())
    /// }
    /// ```
    pub fn of(&self, name: &str) -> &[i64] {
        let input = self.position(name);
        self.shape(input).unwrap_or_default()
    }

    /// The value of an integer attribute by its parameter's name.
    ///
    /// # Panics
    /// If the operator has no integer attribute of that name.
    ///
    /// ```
    /// # use dlbridge_ops::{Error, Shapes};
    /// fn rows(shapes: &Shapes<'_, '_>) -> Result<Vec<i64>, Error> {
    ///     Ok(vec![shapes.int("rows")])
    /// }
    /// ```
    pub fn int(&self, name: &str) -> i64 {
        match self.inputs[self.position(name)] {
            Value::Int(value) => value,
            _ => panic!("{name} is not an integer attribute of {}", self.operator),
        }
    }

    fn position(&self, name: &str) -> usize {
        let position = self.parameters.iter().position(|parameter| parameter.name == name);
        position.unwrap_or_else(|| panic!("{} has no parameter {name}", self.operator))
    }

    fn shape(&self, input: usize) -> Option<&[i64]> {
        self.inputs[input].shape()
    }

    /// The shape of an output.
    #[inline]
    pub(crate) fn output(&self, shape: &Shape) -> Result<OutputShape<'a>> {
        let computed: Extents = match shape {
            Shape::Like(input) => match &self.inputs[*input] {
                Value::Contiguous(tensor) => return Ok(OutputShape::Of(tensor.shape())),
                _ => return self.given(*input).map(|shape| OutputShape::Computed(shape.into())),
            },
            Shape::Parts(parts) => self.parts(parts)?,
            Shape::Function(function) => guarded(|| function(self))?.into(),
            Shape::Dynamic => return Ok(OutputShape::Dynamic),
        };
        match computed.iter().find(|extent| **extent < 0) {
            Some(extent) => Err(Error::of(
                ErrorKind::Value,
                format_args!("an extent of the result would be {extent}; it must not be negative"),
            )),
            None => Ok(OutputShape::Computed(computed)),
        }
    }

    /// Checks that extents are equal where the operator requires it.
    pub(crate) fn check(&self, require: &Require) -> Result<()> {
        let (left, right) = (self.parts(require.left)?, self.parts(require.right)?);
        if left == right { Ok(()) } else { Err(unequal(require.text, &left, &right)) }
    }

    /// Checks that all tensors have one shape.
    pub(crate) fn check_equal(&self) -> Result<()> {
        let tensors = self.parameters.iter().zip(self.inputs);
        let mut tensors = tensors.filter_map(|(one, value)| Some((one.name, value.shape()?)));
        let Some((first, shape)) = tensors.next() else { return Ok(()) };
        match tensors.find(|(_, other)| *other != shape) {
            Some((name, other)) => {
                Err(unequal(&format!("{first}[..] == {name}[..]"), shape, other))
            }
            None => Ok(()),
        }
    }

    fn given(&self, input: usize) -> Result<&[i64]> {
        let name = || self.parameters.get(input).map_or("an input", |input| input.name);
        let missing = || {
            Error::of(
                ErrorKind::Value,
                format_args!("the shape depends on {}, which is None", name()),
            )
        };
        self.shape(input).ok_or_else(missing)
    }

    fn parts(&self, parts: &[Part]) -> Result<Extents> {
        let mut extents = Extents::new();
        for part in parts {
            match part {
                Part::One(extent) => extents.push(self.extent(extent)?),
                Part::Axes { input, from, to } => {
                    let shape = self.given(*input)?;
                    let (from, to) = axes(*from, *to, shape.len());
                    extents.extend_from_slice(shape.get(from..to).unwrap_or_default());
                }
            }
        }
        Ok(extents)
    }

    fn extent(&self, extent: &Extent) -> Result<i64> {
        let both = |left, right| Ok::<_, Error>((self.extent(left)?, self.extent(right)?));
        let found = match *extent {
            Extent::Number(number) => Some(number),
            Extent::Axis { input, axis } => return self.axis(input, axis),
            Extent::Attribute(input) => match self.inputs[input] {
                Value::Int(value) => Some(value),
                _ => None,
            },
            Extent::Add(left, right) => both(left, right).map(|(l, r)| l.checked_add(r))?,
            Extent::Subtract(left, right) => both(left, right).map(|(l, r)| l.checked_sub(r))?,
            Extent::Multiply(left, right) => both(left, right).map(|(l, r)| l.checked_mul(r))?,
            Extent::Divide(left, right) => match both(left, right)? {
                (left, right) if right > 0 => Some(left.div_euclid(right)),
                (_, right) => {
                    return Err(Error::of(
                        ErrorKind::Value,
                        format_args!(
                            "an extent is divided by {right}; divide by a positive number"
                        ),
                    ));
                }
            },
        };
        found.ok_or_else(|| Error::of(ErrorKind::Value, "an extent does not fit in 64 bits"))
    }

    fn axis(&self, input: usize, axis: i64) -> Result<i64> {
        let shape = self.given(input)?;
        let found = if axis < 0 { axis + shape.len() as i64 } else { axis };
        let found = usize::try_from(found).ok().and_then(|axis| shape.get(axis));
        found.copied().ok_or_else(|| {
            let name = self.parameters.get(input).map_or("the input", |input| input.name);
            Error::of(
                ErrorKind::Value,
                format_args!(
                    "{name} needs an axis {axis}, but has {} dimensions: shape {shape:?}",
                    shape.len()
                ),
            )
        })
    }
}

#[cold]
fn unequal(text: &str, left: &[i64], right: &[i64]) -> Error {
    let message = format!("{text} is required, but the extents are {left:?} and {right:?}");
    Error::of(ErrorKind::Value, message)
}
