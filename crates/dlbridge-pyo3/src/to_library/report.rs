//! What is known of a tensor and of the frameworks, for programs to read.

use dlbridge::sys;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::names::framework;
use super::to::refusal;
use crate::PyTensor;
use crate::frameworks::{FRAMEWORKS, Framework};

/// Where a tensor came from: the version of DLPack of its managed tensor, and the names of its flags.
#[pyfunction]
#[pyo3(name = "_origin")]
pub fn origin(tensor: &Bound<'_, PyTensor>) -> (Option<String>, Vec<&'static str>) {
    let this = tensor.get();
    let version = this.version().map(|version| format!("{}.{}", version.major, version.minor));
    let flags = this.tensor().flags();
    let names = [
        (sys::DLPACK_FLAG_BITMASK_READ_ONLY, "read-only"),
        (sys::DLPACK_FLAG_BITMASK_IS_COPIED, "copied"),
        (sys::DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, "sub-byte padded"),
    ];
    let set = names.into_iter().filter(|(bit, _)| flags & bit != 0);
    (version, set.map(|(_, name)| name).collect())
}

/// The name of a library, of those that it is known by.
#[pyfunction]
#[pyo3(name = "_canonical")]
pub fn canonical(library: &str) -> PyResult<&'static str> {
    Ok(framework(library)?.name)
}

/// What is known of the libraries that tensors go to, as a list of dictionaries.
#[pyfunction]
pub fn consumers(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let fields = |framework: &Framework| {
        let fields = PyDict::new(py);
        fields.set_item("name", framework.name)?;
        fields.set_item("module", framework.module)?;
        fields.set_item("function", framework.function)?;
        fields.set_item("takes", framework.argument.describe())?;
        fields.set_item("exchange_api", framework.table_of.is_some())?;
        fields.set_item("read_only", framework.read_only.describe())?;
        fields.set_item("layout", framework.layout.describe())?;
        fields.set_item("max_ndim", framework.max_ndim)?;
        fields.set_item("align", framework.align)?;
        let misreads = framework.misread.map(|(dtype, other)| (dtype.to_string(), other));
        fields.set_item("misreads", misreads)?;
        Ok(fields)
    };
    FRAMEWORKS.into_iter().map(fields).collect()
}

/// How a library takes a tensor: why not at all, why with a copy, and what to do about that.
#[pyfunction]
pub fn fit(
    tensor: &Bound<'_, PyTensor>,
    library: &str,
) -> PyResult<(Option<String>, Option<String>, Option<String>)> {
    let (framework, this) = (framework(library)?, tensor.get());
    let refused = refusal(tensor.py(), framework, this.tensor())?;
    let need = framework.needs_copy(this.tensor(), this.is_read_only());
    let (reason, remedy) = need.map(|need| (need.reason, need.remedy)).unzip();
    Ok((refused, reason, remedy))
}
