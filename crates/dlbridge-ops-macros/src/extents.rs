//! Shapes and extents, as the attribute writes them.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{BinOp, Error, Expr, ExprLit, Ident, Lit, RangeLimits, Result, UnOp};

/// The parameters that are not outputs.
pub(crate) struct Inputs<'f> {
    /// Their names, in order.
    pub(crate) names: Vec<&'f Ident>,
    /// Inputs may have further leading dimensions, which outputs have too.
    pub(crate) elementwise: bool,
}

const COUNTED_FROM_THE_FRONT: &str = "with `elementwise`, inputs may have further leading dimensions, so count axes from the \
    end: `x[-1]`, `x[..-1]`, `x[..]`";

const WITHOUT_LEADING: &str = "with `elementwise`, an output has all leading dimensions of an input: write `like(x)`, or begin \
    with `x[..-1]`, such as `[x[..-1], 3]`";

impl Inputs<'_> {
    /// The position of a parameter.
    fn position(&self, name: &Ident) -> Result<usize> {
        let position = self.names.iter().position(|input| *input == name);
        position.ok_or_else(|| Error::new(name.span(), format!("no input is named `{name}`")))
    }

    /// A shape: `like(x)`, a list of extents, or a function.
    pub(crate) fn shape(&self, expression: &Expr) -> Result<TokenStream> {
        match ungrouped(expression) {
            Expr::Call(call) => match (&*call.func, call.args.first()) {
                (Expr::Path(function), Some(Expr::Path(input)))
                    if function.path.is_ident("like") && call.args.len() == 1 =>
                {
                    let position = self.position(input.path.require_ident()?)?;
                    Ok(quote!(::dlbridge_ops::private::Shape::Like(#position)))
                }
                _ => Err(Error::new_spanned(
                    call,
                    "write `like(x)`, `[x[0], n]` or a function's name",
                )),
            },
            Expr::Array(array) => {
                if self.elementwise && !array.elems.first().is_some_and(is_leading) {
                    return Err(Error::new_spanned(array, WITHOUT_LEADING));
                }
                let parts = self.parts(expression)?;
                Ok(quote!(::dlbridge_ops::private::Shape::Parts(#parts)))
            }
            Expr::Path(function) => Ok(quote!(::dlbridge_ops::private::Shape::Function(#function))),
            other => {
                Err(Error::new_spanned(other, "write `like(x)`, `[x[0], n]` or a function's name"))
            }
        }
    }

    /// An equality of extents.
    pub(crate) fn require(&self, expression: &Expr) -> Result<TokenStream> {
        let Expr::Binary(binary) = ungrouped(expression) else {
            return Err(Error::new_spanned(expression, "write an equality: `x[0] == y[0]`"));
        };
        if !matches!(binary.op, BinOp::Eq(_)) {
            return Err(Error::new_spanned(binary.op, "only `==` can be required"));
        }
        let (left, right) = (self.parts(&binary.left)?, self.parts(&binary.right)?);
        let text = quote!(#expression).to_string();
        let text =
            text.replace(" [", "[").replace("[ ", "[").replace(" ]", "]").replace(" ..", "..");
        let text = text.replace(" ,", ",").replace(".. ", "..");
        let text = text.replace("..==", ".. ==");
        Ok(quote!(::dlbridge_ops::private::Require { left: #left, right: #right, text: #text }))
    }

    /// One extent, the extents of an input, or a list of these.
    fn parts(&self, expression: &Expr) -> Result<TokenStream> {
        let parts = match ungrouped(expression) {
            Expr::Array(array) => {
                array.elems.iter().map(|part| self.part(part)).collect::<Result<_>>()?
            }
            one => vec![self.part(one)?],
        };
        Ok(quote!(&[#(#parts),*]))
    }

    fn part(&self, expression: &Expr) -> Result<TokenStream> {
        if let Expr::Index(index) = ungrouped(expression)
            && let Expr::Range(range) = &*index.index
        {
            if matches!(range.limits, RangeLimits::Closed(_)) {
                return Err(Error::new_spanned(range, "write `x[1..3]`"));
            }
            let input = self.position(name(&index.expr)?)?;
            let from = range.start.as_deref().map_or(Ok(0), |from| self.axis(from))?;
            let to = match range.end.as_deref().map(|to| self.axis(to)).transpose()? {
                Some(to) => quote!(::core::option::Option::Some(#to)),
                None => quote!(::core::option::Option::None),
            };
            return Ok(
                quote!(::dlbridge_ops::private::Part::Axes { input: #input, from: #from, to: #to }),
            );
        }
        let extent = self.extent(expression)?;
        Ok(quote!(::dlbridge_ops::private::Part::One(#extent)))
    }

    /// The number of an axis.
    fn axis(&self, expression: &Expr) -> Result<i64> {
        match number(expression)? {
            axis if self.elementwise && axis >= 0 => {
                Err(Error::new_spanned(expression, COUNTED_FROM_THE_FRONT))
            }
            axis => Ok(axis),
        }
    }

    fn extent(&self, expression: &Expr) -> Result<TokenStream> {
        match ungrouped(expression) {
            Expr::Paren(inner) => self.extent(&inner.expr),
            Expr::Index(index) => {
                let (input, axis) = (self.position(name(&index.expr)?)?, self.axis(&index.index)?);
                Ok(quote!(::dlbridge_ops::private::Extent::Axis { input: #input, axis: #axis }))
            }
            Expr::Path(path) => {
                let input = self.position(path.path.require_ident()?)?;
                Ok(quote!(::dlbridge_ops::private::Extent::Attribute(#input)))
            }
            Expr::Binary(binary) => {
                let (left, right) = (self.extent(&binary.left)?, self.extent(&binary.right)?);
                let operation = match binary.op {
                    BinOp::Add(_) => quote!(Add),
                    BinOp::Sub(_) => quote!(Subtract),
                    BinOp::Mul(_) => quote!(Multiply),
                    BinOp::Div(_) => quote!(Divide),
                    other => return Err(Error::new_spanned(other, "extents have +, -, * and /")),
                };
                Ok(quote!(::dlbridge_ops::private::Extent::#operation(&#left, &#right)))
            }
            other => {
                let number = number(other)?;
                Ok(quote!(::dlbridge_ops::private::Extent::Number(#number)))
            }
        }
    }
}

/// Returns true for all extents of an input from the first on, such as `x[..-1]`.
fn is_leading(part: &Expr) -> bool {
    match ungrouped(part) {
        Expr::Index(index) => {
            matches!(&*index.index, Expr::Range(range) if range.start.is_none())
        }
        _ => false,
    }
}

/// The expression without the group that `macro_rules!` puts around it.
pub(crate) fn ungrouped(expression: &Expr) -> &Expr {
    match expression {
        Expr::Group(group) => ungrouped(&group.expr),
        other => other,
    }
}

fn name(expression: &Expr) -> Result<&Ident> {
    match ungrouped(expression) {
        Expr::Path(path) => path.path.require_ident(),
        other => Err(Error::new_spanned(other, "write an input's name")),
    }
}

/// An integer, with or without a sign.
fn number(expression: &Expr) -> Result<i64> {
    match ungrouped(expression) {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse(),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => Ok(-number(&unary.expr)?),
        other => Err(Error::new_spanned(
            other,
            "write an extent: `x[0]`, `n`, a number, or a calculation",
        )),
    }
}
