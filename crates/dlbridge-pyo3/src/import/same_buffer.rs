//! JAX's arrays: their buffer is exported faster than by `__dlpack__`, and has the same data. The first object of a type
//! shows it.

use dlbridge::DataTypeCode;
use pyo3::prelude::*;

use crate::imported::{Imported, Protocol};
use crate::protocol::{TypeInfo, buffer, framework_checks};

/// Reads an object through its buffer; `None` if that is not known to have the same data.
pub fn import(object: &Bound<'_, PyAny>, type_info: &TypeInfo) -> PyResult<Option<Imported>> {
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
pub fn learn(object: &Bound<'_, PyAny>, type_info: &TypeInfo, imported: &Imported) -> PyResult<()> {
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
