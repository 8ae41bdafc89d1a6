//! The shortcuts of an import, for the frequent types: without a search for a protocol, and with all checks.

use dlbridge::{CopyReason, Device};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::copies;
use dlbridge_pyo3::import::{Depth, same_buffer};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::numpy::array::NumpyArray;
use dlbridge_pyo3::protocol::exchange_api::Table;
use dlbridge_pyo3::protocol::{TypeInfo, framework_checks, numpy_import, storage, torch_view};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::satisfy::{Received, Valid};
use super::{buffer, protocols};
use crate::frameworks::explain::explained;
use crate::stream::Streams;

/// Imports an object whose type has a shortcut, for a caller on the default stream; `None` if a protocol is needed.
#[inline(always)]
pub(super) fn import(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Valid>> {
    let on_cpu = options.device.is_none_or(|device| device == Device::CPU);
    match (type_info.head, type_info.table) {
        (Some(head), _) if on_cpu => Ok(array_in_place(object, head, options)?.map(Valid::of)),
        (None, Some(table)) if protocols::may_use_table(options) => {
            by_table(object, type_info, table, options)
        }
        // The producer of a requested copy is the object's library.
        (None, None) if on_cpu && type_info.same_buffer && options.copy != Some(true) => {
            Ok(same_buffer::import(object, type_info)?.map(Valid::of))
        }
        _ => Ok(None),
    }
}

/// Reads an array of exactly NumPy's class, with the result of `__dlpack__` but without a call.
fn array_in_place(
    array: &Bound<'_, PyAny>,
    head: NumpyArray,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    if let Some(imported) = numpy_import::import(head, array)? {
        return Ok(Some(imported));
    }
    // The import would reach the buffer protocol in the end, which gives the same result as the array interface and
    // is faster.
    if options.copy == Some(false) || !head.is_byte_swapped(array) {
        return Ok(None);
    }
    copies::forget_interrupt();
    // A short copy needs no buffer: with the GIL no other code resizes the array meanwhile, and without the GIL the
    // program promises it (`docs/free-threaded.md`).
    if let Some(source) = head.describe_swapped(array)
        && let Some(_reading) = Guard::for_short_copy(&source.tensor)
    {
        let (tensor, reason) = (copies::byte_swapped(&source.tensor)?, Some(CopyReason::ByteOrder));
        return Ok(Some(Imported { reason, ..Imported::new(tensor, Protocol::Buffer) }));
    }
    match buffer::import(array, options) {
        Err(error)
            if copies::is_interrupt(array.py(), &error)
                || !error.is_instance_of::<PyException>(array.py()) =>
        {
            Err(error)
        }
        imported => Ok(imported.unwrap_or(None)),
    }
}

/// Imports an object by the exchange table of its type.
#[inline(always)]
fn by_table(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    table: Table,
    options: &ImportOptions,
) -> PyResult<Option<Valid>> {
    let checks = &type_info.checks;
    let _depth = Depth::enter()?;
    framework_checks::check_before(object, checks)?;
    // Before the table, because other code may give the object other memory meanwhile.
    let storage = storage::storage(object, type_info)?;
    let imported = protocols::import_by_table(table, object, options, Streams::default())
        .map_err(|error| explained(object, checks, error))?;
    let Some(imported) = imported else { return Ok(None) };
    if imported.tensor.device().device_type().is_host_accessible() {
        torch_view::measure(object, type_info, &imported.tensor)?;
    }
    Received { imported, storage }.validate(object, type_info, options).map(Some)
}
