//! The macros of `dlbridge-ops`. Use them through that crate.

#![forbid(unsafe_code)]

mod attributes;
mod expand;
mod extents;
mod library;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Makes an operator of a function. See `dlbridge_ops::op`.
#[proc_macro_attribute]
pub fn op(attributes: TokenStream, function: TokenStream) -> TokenStream {
    let attributes = syn::parse_macro_input!(attributes as attributes::Attributes);
    let function = syn::parse_macro_input!(function as syn::ItemFn);
    let expanded = expand::operator(&attributes, &function);
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Exports operators. See `dlbridge_ops::library`.
#[proc_macro]
pub fn library(input: TokenStream) -> TokenStream {
    let library = syn::parse_macro_input!(input as library::Library);
    library.expand().into()
}
