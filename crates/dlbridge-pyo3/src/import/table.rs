//! The shortcut of a request for objects whose type has an exchange table: requested and validated, without a search
//! for a protocol.

use pyo3::prelude::*;

use super::depth::Depth;
use super::select::Choice;
use crate::import_options::ImportOptions;
use crate::imported::Imported;
use crate::protocol::exchange_api::Table;
use crate::protocol::{TypeInfo, framework_checks, storage, torch_view, type_info};
use crate::stream::Streams;

/// The result of the exchange table of an object's type.
pub(super) enum ByTable {
    Imported(Imported),
    /// The data is on a device, and other protocols can synchronise it with a stream.
    OnDevice,
    /// The type lacks a table.
    None,
}

/// The tensor of an object by the table of its type, for a typed argument, which reads it on the host.
#[inline]
pub(super) fn by_table(object: &Bound<'_, PyAny>, type_info: &TypeInfo) -> PyResult<ByTable> {
    by_table_with(object, type_info, |table| table.on_host(object))
}

/// The tensor of an object by the table of its type, on any device, for a caller with the default stream. Otherwise
/// returns the protocols that are left to try.
pub(super) fn if_by_table(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<Result<Imported, Choice>> {
    // The search chooses what copies to a device, and the library of the object makes a requested copy.
    let may = options.protocol.is_none() && options.device.is_none() && options.copy != Some(true);
    let type_info = type_info::of(object)?;
    if !may || type_info.table.is_none() {
        return Ok(Err(Choice::Options));
    }
    let import = |table: Table| table.import(object, options, &Streams::default());
    Ok(match by_table_with(object, &type_info, import)? {
        ByTable::Imported(imported) => Ok(imported),
        ByTable::OnDevice => Err(Choice::PastTable),
        ByTable::None => Err(Choice::Options),
    })
}

#[inline(always)]
fn by_table_with(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    import: impl FnOnce(Table) -> PyResult<Option<Imported>>,
) -> PyResult<ByTable> {
    let Some(table) = type_info.table else { return Ok(ByTable::None) };
    let checks = &type_info.checks;
    let _depth = Depth::enter()?;
    framework_checks::check_before(object, checks)?;
    // Before the table, because other code may give the object other memory meanwhile.
    let storage = storage::storage(object, type_info)?;
    match import(table) {
        Ok(Some(imported)) => {
            framework_checks::check(object, checks, imported.tensor.dtype())?;
            if imported.tensor.device().device_type().is_host_accessible() {
                torch_view::measure(object, type_info, &imported.tensor)?;
            }
            let tensor = storage::with_storage(object, type_info, storage, imported.tensor)?;
            Ok(ByTable::Imported(Imported { tensor, ..imported }))
        }
        Ok(None) => Ok(ByTable::OnDevice),
        Err(error) => Err(framework_checks::explained(object, checks, error)),
    }
}
