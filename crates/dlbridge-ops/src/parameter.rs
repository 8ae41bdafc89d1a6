//! The parameters of an operator's function.

use dlbridge::DataType;

/// A parameter of the function.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    pub default: Option<DefaultValue>,
}

/// What a parameter takes.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A tensor that the function reads.
    Input(Form),
    /// The same, or none.
    Optional(Form),
    /// A tensor that the function changes in place.
    InPlace(Form),
    /// A tensor that the function fills.
    Output(Form),
    /// A tensor whose shape the function decides.
    Dynamic(Form),
    Float,
    Int,
    Bool,
    Str,
    Ints,
    Floats,
    /// The device and the stream of a call on CUDA, which the framework provides.
    Cuda,
}

/// What a kernel demands of a tensor. The dtype is that of the first kernel.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Form {
    pub dtype: DataType,
    /// `None` for any number of dimensions.
    pub ndim: Option<usize>,
    /// The alignment of an element, in bytes.
    pub align: usize,
    /// The elements are in C order without gaps.
    pub contiguous: bool,
    /// The function gets the elements without the shape.
    pub flat: bool,
    /// The elements are on a CUDA device; otherwise the CPU reads them.
    pub on_cuda: bool,
}

/// The value of an attribute that the caller omits.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DefaultValue {
    Float(f64),
    Int(i64),
    Bool(bool),
    Str(&'static str),
    Ints(&'static [i64]),
    Floats(&'static [f64]),
}

impl Kind {
    /// What the kernel demands, if the parameter is a tensor.
    #[inline]
    pub(crate) const fn form(&self) -> Option<&Form> {
        match self {
            Self::Input(form)
            | Self::Optional(form)
            | Self::InPlace(form)
            | Self::Output(form)
            | Self::Dynamic(form) => Some(form),
            _ => None,
        }
    }

    /// Returns true for two tensors of the same use, and for two attributes of the same type.
    pub(crate) const fn is_same(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Input(_), Self::Input(_))
                | (Self::Optional(_), Self::Optional(_))
                | (Self::InPlace(_), Self::InPlace(_))
                | (Self::Output(_), Self::Output(_))
                | (Self::Dynamic(_), Self::Dynamic(_))
                | (Self::Float, Self::Float)
                | (Self::Int, Self::Int)
                | (Self::Bool, Self::Bool)
                | (Self::Str, Self::Str)
                | (Self::Ints, Self::Ints)
                | (Self::Floats, Self::Floats)
                | (Self::Cuda, Self::Cuda)
        )
    }

    /// Returns true for numbers, booleans, strings and lists.
    pub(crate) fn is_attribute(&self) -> bool {
        self.form().is_none()
    }

    /// The type in a schema of PyTorch.
    fn schema(self) -> &'static str {
        match self {
            Self::Optional(_) => "Tensor?",
            Self::Float => "float",
            Self::Int => "int",
            Self::Bool => "bool",
            Self::Str => "str",
            Self::Ints => "int[]",
            Self::Floats => "float[]",
            _ => "Tensor",
        }
    }
}

impl Kind {
    /// The kind in a message.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Input(_) | Self::Output(_) | Self::Dynamic(_) => "a tensor",
            Self::Optional(_) => "a tensor or None",
            Self::InPlace(_) => "a tensor that may be written",
            Self::Float => "a float",
            Self::Int => "an integer",
            Self::Bool => "a boolean",
            Self::Str => "a string",
            Self::Ints => "a list of integers",
            Self::Floats => "a list of floats",
            Self::Cuda => "the device of the call",
        }
    }
}

impl Parameter {
    /// Returns true if the caller may omit the argument.
    pub(crate) fn is_omissible(&self) -> bool {
        self.default.is_some() || matches!(self.kind, Kind::Optional(_))
    }

    /// The parameter in a schema of PyTorch. `position` is that of the parameter, for a name of the memory it changes.
    pub(crate) fn schema(&self, position: usize, with_default: bool) -> String {
        let Self { name, kind, default } = self;
        let default = match default {
            _ if !with_default => String::new(),
            None if matches!(kind, Kind::Optional(_)) => "=None".to_owned(),
            None => String::new(),
            Some(DefaultValue::Float(value)) if value.fract() == 0.0 => format!("={value:.0}."),
            Some(DefaultValue::Float(value)) => format!("={value:?}"),
            Some(DefaultValue::Int(value)) => format!("={value}"),
            Some(DefaultValue::Bool(value)) => if *value { "=True" } else { "=False" }.to_owned(),
            Some(DefaultValue::Str(value)) => format!("={}", literal(value)),
            Some(DefaultValue::Ints(values)) => format!("={values:?}"),
            Some(DefaultValue::Floats(values)) => format!("={values:?}"),
        };
        match kind {
            Kind::InPlace(_) => format!("Tensor({}!) {name}", alias(position)),
            _ => format!("{} {name}{default}", kind.schema()),
        }
    }
}

/// The name of memory that an operator changes, in a schema of PyTorch.
pub(crate) fn alias(index: usize) -> String {
    format!("a{index}")
}

/// A string in a schema of PyTorch, whose escapes are not those of Rust.
fn literal(text: &str) -> String {
    let mut literal = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => literal.extend(['\\', character]),
            '\n' => literal.push_str("\\n"),
            '\t' => literal.push_str("\\t"),
            // The other control characters of ASCII, in octal.
            _ if character.is_ascii_control() => {
                literal.push_str(&format!("\\{:03o}", u32::from(character)));
            }
            _ => literal.push(character),
        }
    }
    literal.push('"');
    literal
}
