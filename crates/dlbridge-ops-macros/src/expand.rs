//! The operator that the attribute makes of a function.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::visit_mut::{VisitMut, visit_type_reference_mut};
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericParam, Ident, ItemFn, Lifetime, Lit, Meta, Pat,
    Result, Signature, Type, TypeReference,
};

use crate::attributes::Attributes;
use crate::extents::{Inputs, ungrouped};

/// A parameter of the function.
struct Parameter<'f> {
    name: &'f Ident,
    declared: &'f Type,
    role: Role,
}

/// What a parameter is for.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// The caller passes it.
    Input,
    /// The function fills it.
    Output,
    /// The device and the stream of a call on CUDA.
    Cuda,
}

/// The function, and the type that describes it as an operator.
pub(crate) fn operator(attributes: &Attributes, function: &ItemFn) -> Result<TokenStream> {
    check_signature(&function.sig)?;
    let parameters = parameters(function)?;
    check_name(&function.sig.ident)?;
    parameters.iter().try_for_each(|one| check_name(one.name))?;
    let types = types(attributes, function)?;
    check_generics(attributes, &parameters)?;
    let (function_name, visibility) = (&function.sig.ident, &function.vis);
    let name = function_name.unraw().to_string();
    let doc = documentation(&function.attrs);

    let taken = parameters.iter().filter(|one| one.role == Role::Input);
    let inputs =
        Inputs { names: taken.map(|one| one.name).collect(), elementwise: attributes.elementwise };
    let shapes = shapes(attributes, &parameters, &inputs)?;
    let requires = attributes.requires.iter().map(|require| inputs.require(require));
    let requires = requires.collect::<Result<Vec<_>>>()?;
    let descriptions = descriptions(attributes, &parameters)?;

    let described = |role: Role| {
        let pairs = parameters.iter().zip(&descriptions);
        pairs.filter(move |(one, _)| one.role == role).map(|(_, description)| description)
    };
    let (taken, filled) = (described(Role::Input), described(Role::Output));
    let kernels = types.iter().map(|aliases| kernel(function, &parameters, aliases));
    let kernels = kernels.collect::<Vec<_>>();
    let kinds = types.first().map(|aliases| kinds(&parameters, aliases));
    let vjp = match &attributes.vjp {
        Some(vjp) => {
            let vjp = vjp.to_string();
            let missing = format!(
                "{vjp} is the vjp of {name}, but the library has no operator {vjp}; add it to `library!`"
            );
            quote! {
                ::core::option::Option::Some(::dlbridge_ops::private::Vjp { name: #vjp, missing: #missing })
            }
        }
        None => quote!(::core::option::Option::None),
    };
    let check_elementwise = attributes
        .elementwise
        .then(|| quote!(const { ::dlbridge_ops::private::check_elementwise(KINDS) }));
    let on_cuda = parameters.iter().any(|one| one.role == Role::Cuda);
    let (elementwise, summary) = (attributes.elementwise, format!("The operator `{name}`."));
    Ok(quote! {
        // Outputs are parameters too.
        #[allow(clippy::too_many_arguments)]
        #function

        #[doc(hidden)]
        #visibility mod #function_name {
            #[doc = #summary]
            #[derive(Debug)]
            pub struct Operator;
        }

        // SAFETY: the names are identifiers, which `check_name` found, and the kinds are those of the function's
        // parameters, which are of one kind in all kernels, which `check_kernels` finds.
        unsafe impl ::dlbridge_ops::Define for #function_name::Operator {
            const OPERATOR: &'static ::dlbridge_ops::Operator = {
                const KERNELS: &[::dlbridge_ops::private::Kernel] = &[#(#kernels),*];
                const KINDS: &[::dlbridge_ops::private::Kind] = #kinds;
                const { ::dlbridge_ops::private::check_kernels(KERNELS) };
                const { ::dlbridge_ops::private::check_places(KINDS) };
                #check_elementwise
                const SHAPES: &[::dlbridge_ops::private::Shape] = &[#(#shapes),*];
                const REQUIRES: &[::dlbridge_ops::private::Require] = &[#(#requires),*];
                const { ::dlbridge_ops::private::check_shapes(&KERNELS[0], SHAPES, REQUIRES, #elementwise) };
                fn __copies() -> &'static ::core::sync::atomic::AtomicU64 {
                    static COPIES: ::core::sync::atomic::AtomicU64 = ::core::sync::atomic::AtomicU64::new(0);
                    &COPIES
                }
                static OPERATOR: ::dlbridge_ops::Operator = ::dlbridge_ops::Operator {
                    name: #name,
                    doc: #doc,
                    inputs: &[#(#taken),*],
                    outputs: &[#(#filled),*],
                    kernels: KERNELS,
                    shapes: SHAPES,
                    requires: REQUIRES,
                    vjp: #vjp,
                    elementwise: #elementwise,
                    on_cuda: #on_cuda,
                    copies: __copies,
                };
                &OPERATOR
            };
        }
    })
}

/// Refuses functions that no framework may call as a safe function of Rust, which may panic.
fn check_signature(signature: &Signature) -> Result<()> {
    let Signature { abi, safety, asyncness, .. } = signature;
    let found = [abi.to_token_stream(), safety.to_token_stream(), asyncness.to_token_stream()];
    match found.iter().find(|tokens| !tokens.is_empty()) {
        Some(tokens) => {
            let message =
                format!("an operator is a plain function of safe Rust; remove `{tokens}`");
            Err(Error::new_spanned(tokens, message))
        }
        None => Ok(()),
    }
}

/// A parameter. An output is recognised by its type.
fn parameter(input: &FnArg) -> Result<Parameter<'_>> {
    match input {
        FnArg::Typed(typed) => match &*typed.pat {
            Pat::Ident(pattern) => {
                Ok(Parameter { name: &pattern.ident, declared: &typed.ty, role: role(&typed.ty) })
            }
            other => Err(Error::new_spanned(other, "a parameter needs a name")),
        },
        FnArg::Receiver(receiver) => {
            Err(Error::new_spanned(receiver, "an operator is a free function"))
        }
    }
}

/// The parameters of the function.
fn parameters(function: &ItemFn) -> Result<Vec<Parameter<'_>>> {
    let parameters = function.sig.inputs.iter().map(parameter).collect::<Result<Vec<_>>>()?;
    let writes = |one: &Parameter<'_>| {
        one.role == Role::Output
            || last_segment(one.declared)
                .is_some_and(|last| last == "InPlace" || last == "CudaInPlace")
    };
    if !parameters.iter().any(writes) {
        let message = "an operator has an output, such as `out: &mut [f32]`, or changes an argument, \
            such as `x: InPlace<'_, f32>`";
        return Err(Error::new_spanned(&function.sig, message));
    }
    Ok(parameters)
}

fn role(declared: &Type) -> Role {
    match declared {
        Type::Reference(reference) if reference.mutability.is_some() => Role::Output,
        other => match last_segment(other) {
            Some(last) if last == "Out" || last == "Dynamic" || last == "CudaOut" => Role::Output,
            Some(last) if last == "OnCuda" => Role::Cuda,
            _ => Role::Input,
        },
    }
}

/// The name of a type without its path and generics.
fn last_segment(declared: &Type) -> Option<&Ident> {
    match declared {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        _ => None,
    }
}

/// A generic parameter's name, and the type that it stands for.
type Alias = (Ident, Type);

/// Every combination of the types that the generic parameters stand for; one empty list for a function without generics.
fn types(attributes: &Attributes, function: &ItemFn) -> Result<Vec<Vec<Alias>>> {
    let generics = function.sig.generics.params.iter().filter_map(|generic| match generic {
        GenericParam::Lifetime(_) => None,
        GenericParam::Type(generic) => Some(&generic.ident),
        GenericParam::Const(generic) => Some(&generic.ident),
    });
    let generics: Vec<_> = generics.collect();
    for (i, (name, _)) in attributes.types.iter().enumerate() {
        if !generics.contains(&name) {
            let message = "the function has no generic type of this name";
            return Err(Error::new_spanned(name, message));
        }
        if attributes.types[..i].iter().any(|(other, _)| other == name) {
            return Err(Error::new_spanned(name, "the types of this name are listed two times"));
        }
    }
    let mut combinations: Vec<Vec<Alias>> = vec![Vec::new()];
    for generic in generics {
        let Some((name, types)) = attributes.types.iter().find(|(name, _)| name == generic) else {
            let message =
                format!("name the types in the attribute: `#[op({generic} in [f32, f64])]`");
            return Err(Error::new_spanned(generic, message));
        };
        let extended = combinations.iter().flat_map(|combination| {
            types.iter().map(|one| [&combination[..], &[(name.clone(), one.clone())]].concat())
        });
        combinations = extended.collect();
    }
    Ok(combinations)
}

/// Checks that the inputs decide what each generic parameter stands for.
fn check_generics(attributes: &Attributes, parameters: &[Parameter<'_>]) -> Result<()> {
    for (name, _) in &attributes.types {
        let decides = |one: &Parameter<'_>| {
            one.role == Role::Input && mentions(one.declared.to_token_stream(), name)
        };
        if !parameters.iter().any(decides) {
            let message = format!(
                "no input has the type {name}, so the dtypes of the inputs cannot choose it"
            );
            return Err(Error::new_spanned(name, message));
        }
    }
    Ok(())
}

/// Returns true if a type contains a name.
fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        _ => false,
    })
}

/// The kinds of all parameters, in order, for one combination of types.
fn kinds(parameters: &[Parameter<'_>], aliases: &[Alias]) -> TokenStream {
    let (generics, types): (Vec<_>, Vec<_>) = aliases.iter().map(|(name, one)| (name, one)).unzip();
    let declared = parameters.iter().map(|one| {
        let mut declared = one.declared.clone();
        Static.visit_type_mut(&mut declared);
        declared
    });
    let outputs = parameters.iter().map(|one| one.role == Role::Output);
    let cudas = parameters.iter().map(|one| one.role == Role::Cuda);
    quote!({
        #(type #generics = #types;)*
        &[#(::dlbridge_ops::private::kind_of(<#declared as ::dlbridge_ops::Argument<'static>>::KIND, #outputs, #cudas)),*]
    })
}

/// The function for one combination of types. The names in it begin with underscores, because they hide a function of the
/// same name.
fn kernel(function: &ItemFn, parameters: &[Parameter<'_>], aliases: &[Alias]) -> TokenStream {
    let name = &function.sig.ident;
    let types: Vec<_> = aliases.iter().map(|(_, one)| one).collect();
    let generics = if types.is_empty() { quote!() } else { quote!(::<#(#types),*>) };
    let kinds = kinds(parameters, aliases);
    let positions = |role| {
        let all = parameters.iter().enumerate().filter(move |(_, one)| one.role == role);
        all.map(|(position, _)| position)
    };
    let (taken, made) = (positions(Role::Input), positions(Role::Output));
    let names: Vec<_> = parameters.iter().map(|one| one.name.unraw().to_string()).collect();
    let values: Vec<_> = (0..parameters.len()).map(|i| format_ident!("__value_{i}")).collect();
    let filled = |role| {
        let pairs = parameters.iter().zip(&values).filter(move |(one, _)| one.role == role);
        pairs.map(|(_, value)| value)
    };
    let (inputs, outputs) = (filled(Role::Input), filled(Role::Output).chain(filled(Role::Cuda)));
    quote!({
        const KINDS: &[::dlbridge_ops::private::Kind] = #kinds;
        fn __run(
            __inputs: &mut [::dlbridge_ops::private::Value<'_>],
            __outputs: &mut [::dlbridge_ops::private::Value<'_>],
        ) -> ::dlbridge_ops::Result<()> {
            let ([#(#inputs),*], [#(#outputs),*]) = (__inputs, __outputs) else {
                return ::dlbridge_ops::private::wrong_count();
            };
            ::dlbridge_ops::Outcome::into_result(#name #generics(
                #(::dlbridge_ops::private::argument(#names, #values)?),*
            ))
        }
        ::dlbridge_ops::private::Kernel {
            inputs: &[#(KINDS[#taken]),*],
            outputs: &[#(KINDS[#made]),*],
            run: __run,
        }
    })
}

/// Replaces the lifetimes of a type.
struct Static;

impl VisitMut for Static {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        *lifetime = Lifetime::new("'static", lifetime.span());
    }

    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        reference.lifetime = Some(Lifetime::new("'static", reference.and_token.span));
        visit_type_reference_mut(self, reference);
    }
}

/// The shapes of the outputs, in order.
fn shapes(
    attributes: &Attributes,
    parameters: &[Parameter<'_>],
    inputs: &Inputs<'_>,
) -> Result<Vec<TokenStream>> {
    let outputs = || parameters.iter().enumerate().filter(|(_, one)| one.role == Role::Output);
    for (name, _) in &attributes.shapes {
        if !outputs().any(|(_, one)| one.name == name) {
            return Err(Error::new_spanned(name, format!("no output is named `{name}`")));
        }
    }
    let shape = |(position, output): (usize, &Parameter<'_>)| match attributes
        .shapes
        .iter()
        .find(|(name, _)| name == output.name)
    {
        Some((_, expression)) => inputs.shape(expression),
        None => Ok(quote!(::dlbridge_ops::private::default_shape(KINDS, #position))),
    };
    outputs().map(shape).collect()
}

/// The parameters in the description of the operator.
fn descriptions(attributes: &Attributes, parameters: &[Parameter<'_>]) -> Result<Vec<TokenStream>> {
    for (name, _) in &attributes.defaults {
        if !parameters.iter().any(|one| one.name == name && one.role == Role::Input) {
            return Err(Error::new_spanned(name, format!("no attribute is named `{name}`")));
        }
    }
    let describe = |(position, parameter): (usize, &Parameter<'_>)| {
        let name = parameter.name.unraw().to_string();
        let default = attributes.defaults.iter().find(|(name, _)| name == parameter.name);
        let default = match default {
            Some((_, value)) => {
                let value = default_value(value)?;
                quote!(::core::option::Option::Some(::dlbridge_ops::private::default_of(KINDS[#position], #value)))
            }
            None => quote!(::core::option::Option::None),
        };
        Ok(quote! {
            ::dlbridge_ops::private::Parameter { name: #name, kind: KINDS[#position], default: #default }
        })
    };
    parameters.iter().enumerate().map(describe).collect()
}

/// The value of an attribute that the caller omits.
fn default_value(value: &Expr) -> Result<TokenStream> {
    let value = ungrouped(value);
    let kind = match value {
        number if is_float(number) => quote!(Float(#value)),
        Expr::Lit(ExprLit { lit: Lit::Int(_), .. }) => quote!(Int(#value)),
        Expr::Lit(ExprLit { lit: Lit::Bool(_), .. }) => quote!(Bool(#value)),
        Expr::Lit(ExprLit { lit: Lit::Str(_), .. }) => quote!(Str(#value)),
        Expr::Unary(_) => quote!(Int(#value)),
        Expr::Array(array) => match array.elems.first() {
            Some(first) if is_float(first) => quote!(Floats(&#array)),
            _ => quote!(Ints(&#array)),
        },
        other => {
            return Err(Error::new_spanned(other, "write a number, a boolean, a string or a list"));
        }
    };
    Ok(quote!(::dlbridge_ops::private::DefaultValue::#kind))
}

/// Returns true for a literal with a decimal point or an exponent, with or without a sign.
fn is_float(value: &Expr) -> bool {
    match ungrouped(value) {
        Expr::Lit(ExprLit { lit: Lit::Float(_), .. }) => true,
        Expr::Unary(unary) => is_float(&unary.expr),
        _ => false,
    }
}

/// The lines of the documentation, without the space in front.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => {
                let line = line.value();
                Some(line.strip_prefix(' ').unwrap_or(&line).to_owned())
            }
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Words that Python or PyTorch's schemas do not accept as names.
const RESERVED: [&str; 37] = [
    "Ellipsis", "False", "None", "NoneType", "True", "and", "as", "assert", "async", "await",
    "break", "class", "continue", "def", "del", "elif", "else", "except", "finally", "for", "from",
    "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise",
    "return", "try", "while", "with", "yield",
];

/// Checks the name of an operator or of a parameter.
fn check_name(name: &Ident) -> Result<()> {
    let text = name.to_string();
    if text.starts_with("r#") || RESERVED.contains(&&*text) {
        let message = format!(
            "`{text}` is a keyword, which Python or PyTorch cannot have as a name; rename it, for example `{}_`",
            text.trim_start_matches("r#")
        );
        return Err(Error::new(name.span(), message));
    }
    if !text.is_ascii() {
        let message =
            format!("`{text}` must be ASCII, because PyTorch refuses other names; rename it");
        return Err(Error::new(name.span(), message));
    }
    Ok(())
}
