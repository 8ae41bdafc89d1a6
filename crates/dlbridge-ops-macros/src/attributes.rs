//! The arguments of the attribute `op`.

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, Result, Token, Type, bracketed, parenthesized};

/// The arguments of the attribute `op`.
#[derive(Default)]
pub(crate) struct Attributes {
    /// The operator that computes gradients.
    pub(crate) vjp: Option<Ident>,
    pub(crate) elementwise: bool,
    /// Each generic parameter, and the types that it stands for.
    pub(crate) types: Vec<(Ident, Vec<Type>)>,
    /// Outputs and their shapes.
    pub(crate) shapes: Vec<(Ident, Expr)>,
    /// Equalities of extents.
    pub(crate) requires: Vec<Expr>,
    /// Attributes and their values.
    pub(crate) defaults: Vec<(Ident, Expr)>,
}

impl Parse for Attributes {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut attributes = Self::default();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            match name.to_string().as_str() {
                _ if input.peek(Token![in]) => attributes.types.push(types(name, input)?),
                "vjp" => {
                    input.parse::<Token![=]>()?;
                    attributes.vjp = Some(input.parse()?);
                }
                "elementwise" => attributes.elementwise = true,
                "shape" => attributes.shapes.extend(named(input)?),
                "default" => attributes.defaults.extend(named(input)?),
                "require" => {
                    let content;
                    parenthesized!(content in input);
                    let requires = Punctuated::<Expr, Token![,]>::parse_terminated(&content)?;
                    attributes.requires.extend(requires);
                }
                _ => return Err(Error::new(name.span(), UNKNOWN)),
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(attributes)
    }
}

const UNKNOWN: &str = "unknown argument; known: `vjp = name`, `elementwise`, `T in [f32, f64]`, \
    `shape(out = [x[0], n])`, `require(x[0] == y[0])`, `default(n = 1)`";

/// The types after `T in`.
fn types(name: Ident, input: ParseStream<'_>) -> Result<(Ident, Vec<Type>)> {
    input.parse::<Token![in]>()?;
    let content;
    bracketed!(content in input);
    let types = Punctuated::<Type, Token![,]>::parse_terminated(&content)?;
    if types.is_empty() {
        return Err(Error::new(name.span(), "name at least one type"));
    }
    Ok((name, types.into_iter().collect()))
}

/// Names and expressions in parentheses: `(a = 1, b = 2)`.
fn named(input: ParseStream<'_>) -> Result<Vec<(Ident, Expr)>> {
    let content;
    parenthesized!(content in input);
    let parse = |input: ParseStream<'_>| {
        let name: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok((name, input.parse()?))
    };
    Ok(content.parse_terminated(parse, Token![,])?.into_iter().collect())
}
