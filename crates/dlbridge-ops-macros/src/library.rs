//! The functions that frameworks call, exported from an extension.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, LitStr, Path, Result, Token};

/// The arguments of the macro `library`.
pub(crate) struct Library {
    namespace: LitStr,
    operators: Vec<Path>,
}

impl Parse for Library {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let namespace: LitStr = input.parse()?;
        let text = namespace.value();
        let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && text.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_name {
            let message =
                "a namespace has letters, digits and underscores, and begins with a letter";
            return Err(Error::new(namespace.span(), message));
        }
        input.parse::<Token![:]>()?;
        let operators = Punctuated::<Path, Token![,]>::parse_terminated(input)?;
        Ok(Self { namespace, operators: operators.into_iter().collect() })
    }
}

impl Library {
    pub(crate) fn expand(&self) -> TokenStream {
        let Self { namespace, operators } = self;
        let exports = operators.iter().enumerate().map(|(i, operator)| {
            let name = operator.segments.last().map(|last| last.ident.unraw().to_string()).unwrap_or_default();
            let tvm = format!("__tvm_ffi_{name}");
            let xla = format!("{}_{name}_xla", namespace.value());
            let (tvm_function, xla_function) = (format_ident!("tvm_{i}"), format_ident!("xla_{i}"));
            quote! {
                #[unsafe(export_name = #tvm)]
                unsafe extern "C" fn #tvm_function(
                    handle: *mut ::core::ffi::c_void,
                    arguments: *const ::dlbridge_ops::tvm::Any,
                    count: i32,
                    result: *mut ::dlbridge_ops::tvm::Any,
                ) -> i32 {
                    // SAFETY: tvm-ffi calls the function by its convention, which the callee documents.
                    unsafe {
                        ::dlbridge_ops::tvm::call::<#operator::Operator>(handle, arguments, count, result)
                    }
                }

                #[unsafe(export_name = #xla)]
                unsafe extern "C" fn #xla_function(
                    frame: *mut ::dlbridge_ops::xla::CallFrame,
                ) -> *mut ::dlbridge_ops::xla::XlaError {
                    // SAFETY: XLA calls the handler by its convention, which the callee documents.
                    unsafe { ::dlbridge_ops::xla::call::<#operator::Operator>(frame) }
                }
            }
        });
        quote! {
            /// The operators of this extension.
            pub static LIBRARY: ::dlbridge_ops::Library = ::dlbridge_ops::Library::new(
                #namespace,
                &[#(::dlbridge_ops::private::exported::<#operators::Operator>()),*],
            );

            const _: () = {
                #(#exports)*

                /// The loader calls the functions in this section once the library is loaded.
                #[used]
                #[cfg_attr(
                    any(target_os = "linux", target_os = "android", target_os = "freebsd"),
                    unsafe(link_section = ".init_array")
                )]
                #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
                static LOADED: extern "C" fn() = {
                    extern "C" fn loaded() {
                        ::dlbridge_ops::private::loaded(&LIBRARY);
                    }
                    loaded
                };
            };
        }
    }
}
