//! The messages for functions that are not operators. Documentation tests compare only error codes.

use syn::{Attribute, ItemFn, Meta, parse_str};

use crate::attributes::Attributes;
use crate::expand::operator;

/// The message for a function with the attribute `#[op]`, or nothing if it is an operator.
fn refusal(function: &str) -> Option<String> {
    let mut function: ItemFn = parse_str(function).unwrap();
    let attribute: Attribute = function.attrs.remove(0);
    let attributes: Attributes = match &attribute.meta {
        Meta::List(list) => list.parse_args().unwrap(),
        _ => Attributes::default(),
    };
    operator(&attributes, &function).err().map(|error| error.to_string())
}

#[test]
fn name_that_is_a_keyword_is_refused() {
    for (function, name) in [
        ("#[op] fn f(from: &[f32], out: &mut [f32]) {}", "from"),
        ("#[op] fn f(x: &[f32], lambda: f64, out: &mut [f32]) {}", "lambda"),
        ("#[op] fn f(x: &[f32], None: &mut [f32]) {}", "None"),
        ("#[op] fn f(NoneType: &[f32], out: &mut [f32]) {}", "NoneType"),
        ("#[op] fn f(r#in: &[f32], out: &mut [f32]) {}", "r#in"),
        ("#[op] fn f(r#type: &[f32], out: &mut [f32]) {}", "r#type"),
        ("#[op] fn def(x: &[f32], out: &mut [f32]) {}", "def"),
        ("#[op] fn r#yield(x: &[f32], out: &mut [f32]) {}", "r#yield"),
    ] {
        let expected = format!(
            "`{name}` is a keyword, which Python or PyTorch cannot have as a name; rename it, for example `{}_`",
            name.trim_start_matches("r#")
        );
        assert_eq!(refusal(function), Some(expected));
    }
    assert_eq!(refusal("#[op] fn f(from_: &[f32], type_: &mut [f32]) {}"), None);
}

#[test]
fn name_that_is_not_ascii_is_refused() {
    let found = refusal("#[op] fn f(\u{3bb}: &[f32], out: &mut [f32]) {}");
    let expected = "`\u{3bb}` must be ASCII, because PyTorch refuses other names; rename it";
    assert_eq!(found.as_deref(), Some(expected));
}

#[test]
fn elementwise_operator_counts_axes_from_the_end() {
    let expected = "with `elementwise`, inputs may have further leading dimensions, so count axes from the end: `x[-1]`, \
        `x[..-1]`, `x[..]`";
    for arguments in [
        "require(x[0] == y[0])",
        "require(x[-1] == y[1] * 2)",
        "require(x[..2] == y[..2])",
        "require(x[..] == y[1..])",
        "shape(out = [x[..-1], x[0]])",
        "shape(out = [x[..1]])",
    ] {
        let function = format!(
            "#[op(elementwise, {arguments})] fn f(x: &[f32], y: &[f32], out: &mut [f32]) {{}}"
        );
        assert_eq!(refusal(&function).as_deref(), Some(expected), "{arguments}");
        assert_eq!(refusal(&function.replace("elementwise, ", "")), None, "{arguments}");
    }
}

#[test]
fn elementwise_output_has_the_leading_dimensions() {
    let expected = "with `elementwise`, an output has all leading dimensions of an input: write `like(x)`, or begin with \
        `x[..-1]`, such as `[x[..-1], 3]`";
    for shape in ["[]", "[3]", "[x[-1]]", "[x[-2..]]", "[3, x[..]]"] {
        let function = format!(
            "#[op(elementwise, shape(out = {shape}))] fn f(x: &[f32], out: &mut [f32]) {{}}"
        );
        assert_eq!(refusal(&function).as_deref(), Some(expected), "{shape}");
    }
    for shape in ["like(x)", "[x[..]]", "[x[..-1], x[-1] * 2]", "[x[..], 3]", "computed"] {
        let function = format!(
            "#[op(elementwise, shape(out = {shape}))] fn f(x: &[f32], out: &mut [f32]) {{}}"
        );
        assert_eq!(refusal(&function), None, "{shape}");
    }
}

#[test]
fn function_that_is_not_plain_is_refused() {
    for (qualifiers, found) in [
        ("extern \"C\"", "extern \"C\""),
        ("pub unsafe extern \"C-unwind\"", "extern \"C-unwind\""),
        ("unsafe", "unsafe"),
        ("async", "async"),
    ] {
        let function = format!("#[op] {qualifiers} fn f(x: &[f32], out: &mut [f32]) {{}}");
        let expected = format!("an operator is a plain function of safe Rust; remove `{found}`");
        assert_eq!(refusal(&function), Some(expected));
    }
    assert_eq!(refusal("#[op] pub(crate) const fn f(x: &[f32], out: &mut [f32]) {}"), None);
}

#[test]
fn vjp_that_the_library_lacks_has_a_message() {
    let function = syn::parse_str("fn silu(x: &[f32], out: &mut [f32]) {}").unwrap();
    let code = operator(&parse_str("vjp = silu_grad").unwrap(), &function).unwrap().to_string();
    let expected = "silu_grad is the vjp of silu, but the library has no operator silu_grad; add it to `library!`";
    assert!(code.contains(expected), "{code}");
}
