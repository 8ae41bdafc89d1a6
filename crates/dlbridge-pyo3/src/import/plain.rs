//! The import of an extension: NumPy's arrays, DLPack and buffers in the memory of the CPU, as they are. The package
//! imports everything else: other protocols and options, and what a producer refuses or a tensor cannot share.

use pyo3::exceptions::{PyException, PyMemoryError, PyRecursionError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::satisfy::{Received, with_claim};
use super::{Depth, has, hub, shortcut};
use crate::capsule;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::protocol::storage::storage;
use crate::protocol::{TypeInfo, buffer, dlpack, framework_checks, numpy_import, torch_view};

/// Imports an object; `None` for one without a protocol. The options name at most a device and DLPack. Without a device,
/// the tensor may be on any, with pending work.
pub(crate) fn import(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    let of_package = || hub::import(object, options, None).map(Some);
    let fits = |imported: &Imported| options.device.is_none_or(|to| to == imported.tensor.device());
    if options.protocol.is_none() {
        if let Some(head) = type_info.head {
            let imported = numpy_import::import(head, object)?.filter(fits);
            return imported.map_or_else(of_package, |imported| Ok(Some(imported)));
        }
        if type_info.same_buffer
            && let Some(imported) = shortcut::buffer_in_place(object, type_info)?
            && fits(&imported)
        {
            return Ok(Some(imported));
        }
    }
    let _depth = Depth::enter()?;
    if let Ok(capsule) = object.cast::<PyCapsule>()
        && options.device.is_none()
    {
        return with_claim(capsule::take(capsule)?, options)
            .map(|valid| Some(valid.unrestricted()));
    }
    framework_checks::check_before(object, &type_info.checks)?;
    // Before the request, because other code may give the producer other memory meanwhile; `validate` compares.
    let storage = storage(object, type_info)?;
    for &protocol in type_info.checks.order {
        if options.protocol.is_some_and(|only| only != protocol) {
            continue;
        }
        let received = match protocol {
            Protocol::ExchangeApi => {
                type_info.table.map(|table| table.import_unsynchronized(object)).transpose()
            }
            Protocol::Dlpack => dlpack::import_versioned(object),
            Protocol::Buffer => buffer::import_as_it_is(object),
            _ if type_info.checks.is_column() || has(object, protocol)? => {
                return hub::import(object, options, Some(protocol)).map(Some);
            }
            _ => Ok(None),
        };
        let imported = match received {
            Ok(Some(imported)) if fits(&imported) => imported,
            Ok(Some(_)) => return of_package(),
            Ok(None) => continue,
            Err(refusal) => return instead(object, options, refusal).map(Some),
        };
        let valid = Received { imported, storage }.validate(object, type_info, options)?;
        let imported = valid.unrestricted();
        if protocol == Protocol::ExchangeApi {
            torch_view::measure(object, type_info, &imported.tensor)?;
        }
        shortcut::learn(object, type_info, &imported)?;
        return Ok(Some(imported));
    }
    Ok(None)
}

/// Imports an object by the package, which may know another protocol, or a better explanation than the producer's refusal.
#[cold]
fn instead(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
    refusal: PyErr,
) -> PyResult<Imported> {
    let py = object.py();
    let is_final = !refusal.is_instance_of::<PyException>(py)
        || refusal.is_instance_of::<PyRecursionError>(py)
        || refusal.is_instance_of::<PyMemoryError>(py)
        || hub::is_missing(&refusal);
    if is_final {
        return Err(refusal);
    }
    hub::import(object, options, None).inspect_err(|error| {
        if hub::is_missing(error) {
            error.set_cause(py, Some(refusal));
        }
    })
}
