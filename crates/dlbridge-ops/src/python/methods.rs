//! The methods of an operator's Python function.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::glue::Function;
use super::route::Route;
use super::{describe, generic, glue, route};
use crate::parameter::Kind;

#[pymethods]
impl Function {
    /// Calls the operator. The result is of the library of the arguments.
    #[pyo3(signature = (*arguments, **keywords))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match route::of(arguments, keywords)? {
            Route::Torch => glue::call_torch(slf, arguments, keywords),
            Route::Jax => glue::jax(slf)?.call(arguments, keywords),
            Route::Tvm | Route::Generic | Route::Pandas => {
                generic::call(slf.get().operator(), arguments, keywords)
            }
        }
    }

    fn __repr__(&self) -> String {
        format!("<operator {}::{}>", self.library.namespace, self.operator().schema())
    }

    /// A copy, and a pickle that is loaded, is the operator itself: its module has it by its name.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let resolve = py.import("pkgutil")?.getattr("resolve_name")?;
        let module = glue::module(self.library)?;
        Ok((resolve, (format!("{module}:{}", self.operator().name),)))
    }

    /// The name of the operator.
    #[getter]
    #[pyo3(name = "name")]
    fn name(&self) -> &'static str {
        self.operator().name
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        self.operator().name
    }

    #[getter]
    fn __doc__(&self) -> &'static str {
        self.operator().doc
    }

    /// The signature, as `inspect.signature` reads it.
    #[getter]
    fn __signature__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        describe::signature(py, self.operator())
    }

    /// The namespace in PyTorch.
    #[getter]
    fn namespace(&self) -> &'static str {
        self.library.namespace
    }

    /// The schema in PyTorch.
    #[getter]
    fn schema(&self) -> String {
        self.operator().schema()
    }

    /// The number of inputs that the operator copied so far, because they were not contiguous.
    #[getter]
    fn copies(&self) -> u64 {
        self.operator().copies()
    }

    /// True if all inputs have one shape, whose leading dimensions are those of all outputs, however many there are.
    #[getter]
    fn elementwise(&self) -> bool {
        self.operator().elementwise
    }

    /// True if the operator takes tensors on a CUDA device, and false for the CPU.
    #[getter]
    fn on_cuda(&self) -> bool {
        self.operator().on_cuda
    }

    /// The operator that computes gradients.
    #[getter]
    fn vjp<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Self>>> {
        let vjp = self.library.vjp_of(self.operator());
        vjp.map(|vjp| glue::function_of(py, self.library, vjp)).transpose()
    }

    /// The parameters that the caller passes: name, kind and default value, `...` without one.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        describe::parameters(py, self.operator())
    }

    /// The names of the outputs.
    #[getter]
    fn outputs(&self) -> Vec<&'static str> {
        self.operator().outputs().map(|output| output.name).collect()
    }

    /// For each output, true if the function decides its shape.
    #[getter]
    fn dynamic(&self) -> Vec<bool> {
        self.operator().outputs().map(|output| matches!(output.kind, Kind::Dynamic(_))).collect()
    }

    /// For each output, the number of dimensions if the type of the parameter has it.
    #[getter]
    fn ndims(&self) -> Vec<Option<usize>> {
        self.operator()
            .outputs()
            .map(|output| output.kind.form().and_then(|form| form.ndim))
            .collect()
    }

    /// The shapes of the outputs and the required equalities, as expressions.
    #[getter]
    fn expressions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        describe::expressions(py, self.operator())
    }

    /// The dtypes of the outputs for the dtypes and the numbers of dimensions of the parameters.
    fn resolve(
        &self,
        dtypes: Vec<Option<String>>,
        ndims: Vec<Option<usize>>,
    ) -> PyResult<Vec<String>> {
        describe::resolve(self.operator(), &dtypes, &ndims)
    }

    /// The shapes of the outputs for the shapes of the parameters and the values of the attributes.
    fn shapes(
        &self,
        shapes: Vec<Option<Vec<i64>>>,
        attributes: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Option<Vec<i64>>>> {
        describe::shapes(self.operator(), &shapes, &attributes)
    }

    /// The handler for XLA, for `jax.ffi.register_ffi_target`.
    fn xla_handler<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        glue::xla_handler(py, self.exported)
    }

    /// The file of the extension.
    #[getter]
    fn path(&self) -> PyResult<String> {
        glue::path(self.library)
    }
}
