//! What the package adds to the imports of `dlbridge-pyo3`: the protocols that extensions ask it for.

use dlbridge_pyo3::import::hub::{self, Linked};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::protocol::TypeInfo;
use dlbridge_pyo3::protocol::dlpack_export::ExportOptions;
use dlbridge_pyo3::stream::Streams;
use pyo3::prelude::*;

use crate::interfaces::{array_interface, array_struct, cuda_array_interface};
use crate::tensor::TensorObject;
use crate::{arrow, frameworks};

/// Makes this module's imports those of the package.
pub(crate) fn link() {
    static PACKAGE: Linked = Linked {
        import,
        remedy: frameworks::remedy,
        tensor: |object| TensorObject::of(object).map(|tensor| &**tensor.get()),
        export: ExportOptions::satisfy,
        rules: &frameworks::IMPORT_RULES,
    };
    hub::link(&PACKAGE);
}

/// Imports through one of the protocols that extensions ask the package for; `None` if the object does not have it.
fn import<'py>(
    protocol: Protocol,
    object: &Bound<'py, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
    streams: &Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    match protocol {
        Protocol::CudaArrayInterface => cuda_array_interface::import(object, options, streams),
        Protocol::ArrayInterface => array_interface::import(object, options),
        Protocol::ArrayStruct => array_struct::import(object, options),
        Protocol::Arrow => arrow::import(object, type_info, options),
        // `dlbridge-pyo3` reads the others itself.
        _ => Ok(None),
    }
}
