//! Numbers, booleans, strings and lists.

use std::ops::Deref;

use super::{Argument, unexpected};
use crate::error::Result;
use crate::parameter::Kind;
use crate::value::Value;

macro_rules! attribute {
    ($type:ty, $kind:ident) => {
        impl<'a> Argument<'a> for $type {
            const KIND: Kind = Kind::$kind;

            fn from_value(value: &mut Value<'a>) -> Result<Self> {
                match *value {
                    Value::$kind(value) => Ok(value),
                    _ => unexpected(Self::KIND),
                }
            }
        }
    };
}

attribute!(f64, Float);
attribute!(i64, Int);
attribute!(bool, Bool);
attribute!(&'a str, Str);

macro_rules! list {
    ($(#[$doc:meta])* $name:ident, $element:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name<'a>(&'a [$element]);

        impl Deref for $name<'_> {
            type Target = [$element];

            fn deref(&self) -> &[$element] {
                self.0
            }
        }

        impl<'a> Argument<'a> for $name<'a> {
            const KIND: Kind = Kind::$name;

            fn from_value(value: &mut Value<'a>) -> Result<Self> {
                match *value {
                    Value::$name(values) => Ok(Self(values)),
                    _ => unexpected(Self::KIND),
                }
            }
        }
    };
}

list! {
    /// A list of integers. A type of its own, because `&[i64]` is a tensor.
    ///
    /// ```
    /// use dlbridge_ops::{Ints, op};
    ///
    /// #[op]
    /// fn pad(x: &[f32], widths: Ints<'_>, out: &mut [f32]) {
    ///     assert_eq!(widths.len(), 2);
    /// }
    /// ```
    Ints, i64
}

list! {
    /// A list of floats. A type of its own, because `&[f64]` is a tensor.
    ///
    /// ```
    /// use dlbridge_ops::{Floats, op};
    ///
    /// #[op]
    /// fn blur(x: &[f32], weights: Floats<'_>, out: &mut [f32]) {
    ///     assert_eq!(weights.len(), 3);
    /// }
    /// ```
    Floats, f64
}
