//! The facts about a tensor and the frameworks, for programs.

use dlbridge::sys;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::framework::{Framework, Request};
use super::probe::Installed;
use super::profiles::FRAMEWORKS;
use crate::tensor::TensorObject;
use dlbridge_pyo3::error::is_absent;
use dlbridge_pyo3::error::str_in_message;

/// The origin of a tensor: the DLPack version of its managed tensor, and the names of its flags.
#[pyfunction]
#[pyo3(name = "_origin")]
pub(crate) fn origin(tensor: &Bound<'_, TensorObject>) -> (Option<String>, Vec<&'static str>) {
    let this = tensor.get();
    let version =
        this.record().version.map(|version| format!("{}.{}", version.major, version.minor));
    let flags = this.tensor().flags();
    let names = [
        (sys::DLPACK_FLAG_BITMASK_READ_ONLY, "read-only"),
        (sys::DLPACK_FLAG_BITMASK_IS_COPIED, "copied"),
        (sys::DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, "sub-byte padded"),
    ];
    let set = names.into_iter().filter(|(bit, _)| flags & bit != 0);
    (version, set.map(|(_, name)| name).collect())
}

/// The canonical name of the library in an argument `to`: a name, or a module.
#[pyfunction]
#[pyo3(name = "_canonical")]
pub(crate) fn canonical(to: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    Ok(Framework::of_argument("to", to)?.name)
}

/// The consumer profiles, as a list of dictionaries. Measured fields are `None` before the first use of a framework.
#[pyfunction]
#[pyo3(name = "_consumers")]
pub(crate) fn consumers(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    FRAMEWORKS.into_iter().map(|framework| profile(py, framework)).collect()
}

fn profile<'py>(py: Python<'py>, framework: &'static Framework) -> PyResult<Bound<'py, PyDict>> {
    let installed = Installed::known(py, framework);
    let behaviour = installed.map(|installed| installed.behaviour).or(framework.stated);
    let max_version = match behaviour.map(|behaviour| behaviour.request) {
        Some(Request::Versioned(major, minor)) => Some((major, minor)),
        _ => None,
    };
    let fields = PyDict::new(py);
    fields.set_item("name", framework.name)?;
    fields.set_item("module", framework.module)?;
    fields.set_item("function", framework.function)?;
    fields.set_item("measured", installed.and_then(|installed| installed.measured.as_deref()))?;
    fields.set_item("takes", behaviour.map(|behaviour| framework.describe(&behaviour)))?;
    fields.set_item("max_version", max_version)?;
    fields.set_item("exchange_api", framework.table_of.is_some())?;
    fields.set_item("copies", behaviour.map(|behaviour| behaviour.copies))?;
    fields.set_item("read_only", behaviour.map(|behaviour| behaviour.read_only.describe()))?;
    fields.set_item("layout", behaviour.map(|behaviour| behaviour.layout.describe()))?;
    fields.set_item("max_ndim", *framework.ndim.end())?;
    fields.set_item("align", behaviour.map(|behaviour| behaviour.align))?;
    Ok(fields)
}

/// Why a library refuses a tensor, why it needs a copy, how to avoid that, and the release that was measured.
type Fit = (Option<String>, Option<String>, Option<String>, Option<&'static str>);

/// How a library imports a tensor: why it refuses, why it copies, how to avoid that, and the release that was
/// measured.
///
/// It loads the library, as an export does. Without the library, the result is the careful assumption.
#[pyfunction]
#[pyo3(name = "_fit")]
pub(crate) fn fit(tensor: &Bound<'_, TensorObject>, library: &str) -> PyResult<Fit> {
    let (py, framework, this) = (tensor.py(), Framework::of_name(library)?, tensor.get());
    let mut refused = framework.refusal(py, this.tensor())?;
    let mut installed = Installed::known(py, framework);
    if refused.is_none() && installed.is_none() {
        match Installed::of(py, framework) {
            Ok(found) => installed = Some(found),
            Err(error) if is_absent(&error, py, framework.package())? => {}
            Err(error) if error.is_instance_of::<PyException>(py) => {
                let name = framework.name;
                refused =
                    Some(format!("{name} cannot be used: {}", str_in_message(error.value(py))));
            }
            Err(error) => return Err(error),
        }
    }
    let device = this.tensor().device();
    let behaviour = match installed {
        Some(installed) => installed.behaviour_on(device),
        None => framework.assumed(device),
    };
    let need = framework.needs_copy(&behaviour, this.tensor(), this.exports_read_only());
    let (reason, remedy) = need.map(|need| (need.reason, need.remedy)).unzip();
    Ok((refused, reason, remedy, installed.and_then(|installed| installed.measured.as_deref())))
}
