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
    let methods = METHODS.iter().filter(|(name, _)| !own.iter().any(|own| own == name));
    let text: String = methods.map(|(_, text)| text.replace("TENSOR", &function)).collect();
    let Ok(methods) = text.parse::<TokenStream>() else {
        return error("#[producer(..)] must name a function, like Self::tensor");
    };
    let mut inside = body.stream();
    inside.extend(methods);
    tokens.push(TokenTree::Group(Group::new(Delimiter::Brace, inside)));
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

/// The methods, by name; `TENSOR` is replaced by the path of the function that returns the tensor.
const METHODS: [(&str, &str); 12] = [
    (
        "__dlbridge_tensor__",
        "/// The tensor itself.
        fn __dlbridge_tensor__<'py>(&self, py: ::pyo3::Python<'py>)
            -> ::pyo3::PyResult<::pyo3::Bound<'py, ::dlbridge_pyo3::PyTensor>> {
            ::dlbridge_pyo3::producer_macro::tensor_of(py, TENSOR(self))
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
            let tensor = ::dlbridge_pyo3::producer_macro::tensor_of(py, TENSOR(self))?;
            ::dlbridge_pyo3::producer_macro::dlpack(&tensor, stream, max_version, dl_device, copy)
        }",
    ),
    (
        "__dlpack_device__",
        "/// The device as a tuple of DLPack device type and device id.
        fn __dlpack_device__(&self, py: ::pyo3::Python<'_>) -> ::pyo3::PyResult<(i32, i32)> {
            ::core::result::Result::Ok(
                ::dlbridge_pyo3::producer_macro::device(&::dlbridge_pyo3::producer_macro::tensor_of(py, TENSOR(self))?))
        }",
    ),
    (
        "__dlpack_c_exchange_api__",
        "/// The C exchange API of DLPack.
        #[classattr]
        fn __dlpack_c_exchange_api__(py: ::pyo3::Python<'_>)
            -> ::pyo3::PyResult<::pyo3::Py<::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer_macro::exchange_api(py)
        }",
    ),
    (
        "__array_interface__",
        "/// The array interface of NumPy, for data on the CPU.
        #[getter]
        fn __array_interface__<'py>(&self, py: ::pyo3::Python<'py>)
            -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer_macro::attribute(
                py, TENSOR(self), \"__array_interface__\")
        }",
    ),
    (
        "__array_struct__",
        "/// The array interface of NumPy as a C struct, for data on the CPU.
        #[getter]
        fn __array_struct__<'py>(&self, py: ::pyo3::Python<'py>)
            -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer_macro::attribute(py, TENSOR(self), \"__array_struct__\")
        }",
    ),
    (
        "__cuda_array_interface__",
        "/// The array interface of CUDA, for data on such a device.
        #[getter]
        fn __cuda_array_interface__<'py>(&self, py: ::pyo3::Python<'py>)
            -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer_macro::attribute(
                py, TENSOR(self), \"__cuda_array_interface__\")
        }",
    ),
    (
        "__arrow_c_array__",
        "/// The Arrow PyCapsule interface, for contiguous numbers.
        #[pyo3(signature = (requested_schema=None))]
        fn __arrow_c_array__<'py>(
            &self,
            py: ::pyo3::Python<'py>,
            requested_schema: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
        ) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            let _ = requested_schema;
            ::dlbridge_pyo3::producer_macro::call(py, TENSOR(self), \"__arrow_c_array__\")
        }",
    ),
    (
        "__arrow_c_schema__",
        "/// The type of the Arrow array.
        fn __arrow_c_schema__<'py>(&self, py: ::pyo3::Python<'py>)
            -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer_macro::call(py, TENSOR(self), \"__arrow_c_schema__\")
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
                .and_then(|object| ::dlbridge_pyo3::producer_macro::tensor_of(this.py(), TENSOR(&*object)));
            // SAFETY: Python passes NULL, or a `Py_buffer` to write to.
            unsafe { ::dlbridge_pyo3::producer_macro::buffer(tensor, view, flags) }
        }",
    ),
    (
        "__array__",
        "/// For `numpy.asarray` and its callers: dtypes that NumPy's other protocols do not support.
        #[pyo3(signature = (dtype=None, copy=None))]
        fn __array__<'py>(
            &self,
            py: ::pyo3::Python<'py>,
            dtype: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
            copy: ::core::option::Option<&::pyo3::Bound<'py, ::pyo3::PyAny>>,
        ) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            let tensor = ::dlbridge_pyo3::producer_macro::tensor_of(py, TENSOR(self))?;
            ::dlbridge_pyo3::producer_macro::to_array(&tensor, dtype, copy)
        }",
    ),
    (
        "__bytes__",
        "/// The bytes of the elements in C order, for `bytes(x)`.
        fn __bytes__<'py>(&self, py: ::pyo3::Python<'py>)
            -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
            ::dlbridge_pyo3::producer_macro::call(py, TENSOR(self), \"__bytes__\")
        }",
    ),
];
