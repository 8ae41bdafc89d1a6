//! The shortcuts of an import, for the frequent types: without a search for a protocol, and with all checks.

use dlbridge::{CopyReason, DataTypeCode, Device};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::Depth;
use super::satisfy::{Valid, with_claim};
use crate::borrow::Guard;
use crate::copies;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::numpy::array::NumpyArray;
use crate::protocol::exchange_api::Table;
use crate::protocol::{TypeInfo, buffer, framework_checks, numpy_import, storage, torch_view};
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
        (None, Some(table)) if may_use_table(options) => {
            by_table(object, type_info, table, options)
        }
        // The producer of a requested copy is the object's library.
        (None, None) if on_cpu && type_info.same_buffer && options.copy != Some(true) => {
            Ok(buffer_in_place(object, type_info)?.map(Valid::of))
        }
        _ => Ok(None),
    }
}

/// Returns true if the exchange table of a type can meet the options. The protocols choose what copies to a device, and
/// the library of the object makes a requested copy.
pub(super) fn may_use_table(options: &ImportOptions) -> bool {
    options.protocol.is_none() && options.device.is_none() && options.copy != Some(true)
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
    let imported = table
        .import(object, options, &Streams::default())
        .map_err(|error| framework_checks::explained(object, checks, error))?;
    let Some(imported) = imported else { return Ok(None) };
    framework_checks::check(object, checks, imported.tensor.dtype())?;
    if imported.tensor.device().device_type().is_host_accessible() {
        torch_view::measure(object, type_info, &imported.tensor)?;
    }
    let tensor = storage::with_storage(object, type_info, storage, imported.tensor)?;
    with_claim(Imported { tensor, ..imported }, options).map(Some)
}

/// Reads an object through its buffer, which is exported faster than by `__dlpack__` and has the same data: the first
/// object of its type showed it.
pub(super) fn buffer_in_place(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
) -> PyResult<Option<Imported>> {
    let first = &type_info.exported;
    let Some(exported) = first.get().filter(|_| first.may_have_format(object)) else {
        return Ok(None);
    };
    framework_checks::check_before(object, &type_info.checks)?;
    let Some(imported) = buffer::import_in_place(object, exported)? else {
        // An object that cannot tell its dtype is imported by the protocols, which report the reason.
        let _ = first.learn_refusal(object);
        return Ok(None);
    };
    framework_checks::check(object, &type_info.checks, imported.tensor.dtype())?;
    Ok(Some(imported))
}

/// Compares the buffer of the first object of a type with its import by `__dlpack__`.
pub(super) fn learn(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    imported: &Imported,
) -> PyResult<()> {
    if !type_info.same_buffer || !type_info.exported.is_unknown() {
        return Ok(());
    }
    let by_dlpack = matches!(imported.protocol, Protocol::Dlpack | Protocol::LegacyDlpack);
    // A buffer lacks the address of an empty array, and a format for most other dtypes.
    let dtype = imported.tensor.dtype();
    let has_format = dtype.itemsize() * 8 == usize::from(dtype.bits())
        && matches!(
            dtype.code(),
            DataTypeCode::INT | DataTypeCode::UINT | DataTypeCode::FLOAT | DataTypeCode::COMPLEX
        );
    let is_plain =
        by_dlpack && has_format && !imported.tensor.is_empty() && imported.reason.is_none();
    if is_plain { buffer::learn(object, &type_info.exported, imported) } else { Ok(()) }
}
