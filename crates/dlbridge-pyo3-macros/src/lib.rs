//! The attribute macro of `dlbridge-pyo3`, which documents it.
//!
//! It adds methods to an `impl` block as text, and reads only the names of the block's functions.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Adds all export protocols to a class. See `dlbridge_pyo3::producer`.
#[proc_macro_attribute]
pub fn producer(function: TokenStream, block: TokenStream) -> TokenStream {
    if function.is_empty() {
        return error("name the function that returns the tensor: #[producer(Self::tensor)]");
    }
    let mut tokens: Vec<TokenTree> = block.into_iter().collect();
    let body = match tokens.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
        _ => return error("#[producer(..)] goes above the #[pymethods] of an impl block"),
    };
    if !tokens.iter().any(|token| token.to_string() == "impl") {
        return error("#[producer(..)] goes above the #[pymethods] of an impl block");
    }
    let own = functions(body.stream());
    let function = function.to_string();
    if function.split("::").any(|name| name.trim().is_empty()) {
        return error("#[producer(..)] must name a function, like Self::tensor");
    }
    let methods = METHODS.iter().filter(|(name, _)| !own.iter().any(|own| own == name));
    let text: String = methods.map(|(_, text)| *text).collect();
    let methods = text.parse::<TokenStream>().unwrap_or_default();
    let class = tokens.iter().rev().take_while(|token| token.to_string() != "impl");
    let class: TokenStream = class.cloned().collect::<Vec<_>>().into_iter().rev().collect();
    let producer = implementation(&class.to_string(), &function);
    let mut inside = body.stream();
    inside.extend(methods);
    tokens.push(TokenTree::Group(Group::new(Delimiter::Brace, inside)));
    tokens.extend(producer.parse::<TokenStream>().unwrap_or_default());
    tokens.into_iter().collect()
}

/// The names of the functions of a block.
fn functions(block: TokenStream) -> Vec<String> {
    let tokens: Vec<String> = block.into_iter().map(|token| token.to_string()).collect();
    let pairs = tokens.windows(2).filter(|pair| pair[0] == "fn");
    pairs.map(|pair| pair[1].clone()).collect()
}

fn error(text: &str) -> TokenStream {
    format!("::core::compile_error!({text:?});").parse().unwrap_or_default()
}

/// The trait of a class, with the path of the function that returns the tensor.
fn implementation(class: &str, function: &str) -> String {
    format!(
        "// SAFETY: the constant is computed from the type of the function's result.
        unsafe impl ::dlbridge_pyo3::producer::Producer for {class} {{
            const GIVES_ADDRESS: bool =
                ::dlbridge_pyo3::producer::gives_address::<Self, _>(|object| {function}(object));

            fn with_tensor<R>(
                object: &::pyo3::Bound<'_, Self>,
                f: impl ::core::ops::FnOnce(&::dlbridge_pyo3::PyTensor) -> ::pyo3::PyResult<R>,
            ) -> ::pyo3::PyResult<R> {{
                let object = object.try_borrow()?;
                ::dlbridge_pyo3::producer::Source::with_tensor({function}(&*object), f)
            }}
        }}"
    )
}

/// The methods, by name.
const METHODS: [(&str, &str); 12] = [
    (
        "__dlpack__",
        "/// A capsule over the tensor, as the array API standard describes it.
        #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
        fn __dlpack__<'py>(
            this: &::pyo3::Bound<'py, Self>,
            stream: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
            max_version: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
            dl_device: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
            copy: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
        ) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer::dlpack(this, stream, max_version, dl_device, copy)
        }",
    ),
    (
        "__dlpack_device__",
        "/// The device as a tuple of DLPack device type and device id.
        fn __dlpack_device__(this: &::pyo3::Bound<'_, Self>) -> ::pyo3::PyResult<(i32, i32)> {
            ::dlbridge_pyo3::producer::device(this)
        }",
    ),
    (
        "__dlpack_c_exchange_api__",
        "/// The C exchange API of DLPack.
        #[classattr]
        fn __dlpack_c_exchange_api__(py: ::pyo3::Python<'_>)
            -> ::pyo3::PyResult<::pyo3::Py<::pyo3::PyAny>> {
            ::dlbridge_pyo3::exchange_table::capsule::<Self>(py).map(::pyo3::Bound::unbind)
        }",
    ),
    (
        "__array_interface__",
        "/// The array interface of NumPy, for data on the CPU.
        #[getter]
        fn __array_interface__<'py>(this: &::pyo3::Bound<'py, Self>) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer::address(this, \"__array_interface__\")
        }",
    ),
    (
        "__array_struct__",
        "/// The array interface of NumPy as a C struct, for data on the CPU.
        #[getter]
        fn __array_struct__<'py>(this: &::pyo3::Bound<'py, Self>) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer::attribute(this, \"__array_struct__\")
        }",
    ),
    (
        "__cuda_array_interface__",
        "/// The array interface of CUDA, for data on such a device.
        #[getter]
        fn __cuda_array_interface__<'py>(this: &::pyo3::Bound<'py, Self>) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer::address(this, \"__cuda_array_interface__\")
        }",
    ),
    (
        "__getbuffer__",
        "unsafe fn __getbuffer__(
            this: ::pyo3::Bound<'_, Self>,
            view: *mut ::pyo3::ffi::Py_buffer,
            flags: ::core::ffi::c_int,
        ) -> ::pyo3::PyResult<()> {
            // SAFETY: Python passes NULL, or a `Py_buffer` to write to.
            unsafe { ::dlbridge_pyo3::producer::buffer(&this, view, flags) }
        }",
    ),
    (
        "__releasebuffer__",
        "// The tensor's object releases the buffer. NumPy keeps a buffer only of a class that has this method.
        unsafe fn __releasebuffer__(_this: &::pyo3::Bound<'_, Self>, _view: *mut ::pyo3::ffi::Py_buffer) {}",
    ),
    (
        "__arrow_c_array__",
        "/// The Arrow PyCapsule interface, for contiguous numbers.
        #[pyo3(signature = (*arguments, **keywords))]
        fn __arrow_c_array__<'py>(
            this: &::pyo3::Bound<'py, Self>,
            arguments: &::pyo3::Bound<'py, ::pyo3::types::PyTuple>,
            keywords: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::types::PyDict>>,
        ) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer::call(this, \"__arrow_c_array__\", arguments, keywords)
        }",
    ),
    (
        "__arrow_c_schema__",
        "/// The type of the Arrow array.
        #[pyo3(signature = (*arguments, **keywords))]
        fn __arrow_c_schema__<'py>(
            this: &::pyo3::Bound<'py, Self>,
            arguments: &::pyo3::Bound<'py, ::pyo3::types::PyTuple>,
            keywords: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::types::PyDict>>,
        ) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer::call(this, \"__arrow_c_schema__\", arguments, keywords)
        }",
    ),
    (
        "__array__",
        "/// For `numpy.asarray` and its callers: dtypes that NumPy's other protocols do not support.
        #[pyo3(signature = (*arguments, **keywords))]
        fn __array__<'py>(
            this: &::pyo3::Bound<'py, Self>,
            arguments: &::pyo3::Bound<'py, ::pyo3::types::PyTuple>,
            keywords: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::types::PyDict>>,
        ) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer::call(this, \"__array__\", arguments, keywords)
        }",
    ),
    (
        "__bytes__",
        "/// The bytes of the elements in C order, for `bytes(x)`.
        fn __bytes__<'py>(
            this: &::pyo3::Bound<'py, Self>,
        ) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer::bytes(this)
        }",
    ),
];
