//! The attribute macro of `dlbridge-pyo3`, which has its documentation.
//!
//! It adds methods to a block, as text: nothing of the block is looked at but the names of its functions.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Adds all export protocols to a class. See `dlbridge_pyo3::producer`.
#[proc_macro_attribute]
pub fn producer(lend: TokenStream, block: TokenStream) -> TokenStream {
    if lend.is_empty() {
        return error("name the function that lends the tensor: #[producer(Self::tensor)]");
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
    let lend = lend.to_string();
    // The block with the methods whose names pass.
    let with = |passes: &dyn Fn(&str) -> bool| {
        let methods =
            METHODS.iter().filter(|(name, _)| passes(name) && !own.iter().any(|own| own == name));
        let text: String = methods.map(|(_, text)| text.replace("LEND", &lend)).collect();
        let mut inside = body.stream();
        inside.extend(text.parse::<TokenStream>().ok()?);
        let mut tokens = tokens.clone();
        tokens.push(TokenTree::Group(Group::new(Delimiter::Brace, inside)));
        Some(tokens.into_iter().collect::<TokenStream>())
    };
    let (Some(all), Some(without_buffer)) = (with(&|_| true), with(&|name| name != BUFFER)) else {
        return error("what #[producer(..)] names must be a function, like Self::tensor");
    };
    if own.iter().any(|own| own == BUFFER) {
        return all;
    }
    // This crate is built for the host, and does not know the target ABI. The other crate does.
    let Ok(select) = "::dlbridge_pyo3::__by_buffer_slots!".parse::<TokenStream>() else {
        return error("#[producer(..)] cannot select the methods");
    };
    let group = |tokens| TokenTree::Group(Group::new(Delimiter::Brace, tokens));
    let both = TokenStream::from_iter([group(all), group(without_buffer)]);
    select.into_iter().chain([group(both)]).collect()
}

/// The method that a class has only if the target ABI includes the buffer protocol.
const BUFFER: &str = "__getbuffer__";

/// The names of the functions of a block.
fn functions(block: TokenStream) -> Vec<String> {
    let tokens: Vec<String> = block.into_iter().map(|token| token.to_string()).collect();
    let pairs = tokens.windows(2).filter(|pair| pair[0] == "fn");
    pairs.map(|pair| pair[1].clone()).collect()
}

fn error(text: &str) -> TokenStream {
    format!("::core::compile_error!({text:?});").parse().unwrap_or_default()
}

/// The methods, by name; `LEND` stands for the function that lends the tensor.
const METHODS: [(&str, &str); 12] = [
    (
        "__dlbridge_tensor__",
        "/// The tensor itself.
        fn __dlbridge_tensor__<'py>(&self, py: ::pyo3::Python<'py>)
            -> ::pyo3::PyResult<::pyo3::Bound<'py, ::dlbridge_pyo3::PyTensor>> {
            ::dlbridge_pyo3::exports::lent(py, LEND(self))
        }",
    ),
    (
        "__dlpack__",
        "/// A capsule over the tensor, as the array API standard describes it.
        #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
        fn __dlpack__<'py>(
            &self,
            py: ::pyo3::Python<'py>,
            stream: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
            max_version: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
            dl_device: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
            copy: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
        ) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            let tensor = ::dlbridge_pyo3::exports::lent(py, LEND(self))?;
            ::dlbridge_pyo3::exports::dlpack(&tensor, stream, max_version, dl_device, copy)
        }",
    ),
    (
        "__dlpack_device__",
        "/// The device as a tuple of DLPack device type and device id.
        fn __dlpack_device__(&self, py: ::pyo3::Python<'_>) -> ::pyo3::PyResult<(i32, i32)> {
            ::core::result::Result::Ok(
                ::dlbridge_pyo3::exports::device(&::dlbridge_pyo3::exports::lent(py, LEND(self))?))
        }",
    ),
    (
        "__dlpack_c_exchange_api__",
        "/// The C exchange API of DLPack.
        #[classattr]
        fn __dlpack_c_exchange_api__(py: ::pyo3::Python<'_>)
            -> ::pyo3::PyResult<::pyo3::Py<::pyo3::PyAny>> {
            ::dlbridge_pyo3::exports::exchange_api(py)
        }",
    ),
    (
        "__array_interface__",
        "/// The array interface of NumPy, for data on the CPU.
        #[getter]
        fn __array_interface__<'py>(&self, py: ::pyo3::Python<'py>)
            -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::exports::attribute(
                py, LEND(self), \"__array_interface__\")
        }",
    ),
    (
        "__array_struct__",
        "/// The array interface of NumPy as a C struct, for data on the CPU.
        #[getter]
        fn __array_struct__<'py>(&self, py: ::pyo3::Python<'py>)
            -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::exports::attribute(py, LEND(self), \"__array_struct__\")
        }",
    ),
    (
        "__cuda_array_interface__",
        "/// The array interface of CUDA, for data on such a device.
        #[getter]
        fn __cuda_array_interface__<'py>(&self, py: ::pyo3::Python<'py>)
            -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::exports::attribute(
                py, LEND(self), \"__cuda_array_interface__\")
        }",
    ),
    (
        "__arrow_c_array__",
        "/// The Arrow PyCapsule interface, for numbers that are adjacent.
        #[pyo3(signature = (requested_schema=None))]
        fn __arrow_c_array__<'py>(
            &self,
            py: ::pyo3::Python<'py>,
            requested_schema: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
        ) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            let _ = requested_schema;
            ::dlbridge_pyo3::exports::call(py, LEND(self), \"__arrow_c_array__\")
        }",
    ),
    (
        "__arrow_c_schema__",
        "/// The type of the Arrow array.
        fn __arrow_c_schema__<'py>(&self, py: ::pyo3::Python<'py>)
            -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::exports::call(py, LEND(self), \"__arrow_c_schema__\")
        }",
    ),
    (
        "__getbuffer__",
        "unsafe fn __getbuffer__(
            this: ::pyo3::Bound<'_, Self>,
            view: *mut ::pyo3::ffi::Py_buffer,
            flags: ::core::ffi::c_int,
        ) -> ::pyo3::PyResult<()> {
            let tensor = this
                .try_borrow()
                .map_err(::pyo3::PyErr::from)
                .and_then(|object| ::dlbridge_pyo3::exports::lent(this.py(), LEND(&*object)));
            // SAFETY: Python gives a place to write to.
            unsafe { ::dlbridge_pyo3::exports::buffer(tensor, view, flags) }
        }",
    ),
    (
        "__array__",
        "/// For `numpy.asarray` and what calls it, where no other door of NumPy's knows the dtype.
        #[pyo3(signature = (dtype=None, copy=None))]
        fn __array__<'py>(
            &self,
            py: ::pyo3::Python<'py>,
            dtype: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
            copy: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
        ) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            let tensor = ::dlbridge_pyo3::exports::lent(py, LEND(self))?;
            ::dlbridge_pyo3::exports::to_array(&tensor, dtype, copy)
        }",
    ),
    (
        "__reduce_ex__",
        "fn __reduce_ex__<'py>(&self, py: ::pyo3::Python<'py>, protocol: i32)
            -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            let tensor = ::dlbridge_pyo3::exports::lent(py, LEND(self))?;
            ::dlbridge_pyo3::exports::reduce(&tensor, protocol)
        }",
    ),
];
