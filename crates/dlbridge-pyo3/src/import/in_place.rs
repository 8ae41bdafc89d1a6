//! The shortcut of a request: objects that are read in place, without a call of their `__dlpack__`.

use dlbridge::{CopyReason, DataTypeCode, Device};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::borrow::Guard;
use crate::copies;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::numpy::array::NumpyArray;
use crate::protocol::{TypeInfo, buffer, framework_checks, numpy_import, type_info};

/// Returns true if the device option allows reading an object in place.
#[inline(always)]
pub(super) fn may_be_in_place(options: &ImportOptions) -> bool {
    options.device.is_none_or(|device| device == Device::CPU)
}

/// Reads an object in place, if its type allows it; `None` if a protocol is needed.
#[inline(always)]
pub(super) fn in_place(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    let type_info = type_info::of(object)?;
    match type_info.head {
        Some(head) => array_in_place(object, head, options),
        None if type_info.same_buffer => buffer_in_place(object, &type_info, options),
        None => Ok(None),
    }
}

/// Reads an object through its buffer, which is exported faster than by `__dlpack__` and has the same data: the first
/// object of its type showed it.
fn buffer_in_place(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    // The producer of a requested copy is the object's library.
    if !cfg!(feature = "buffer") || options.copy == Some(true) {
        return Ok(None);
    }
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
pub(super) fn learn(object: &Bound<'_, PyAny>, imported: &Imported) -> PyResult<()> {
    let type_info = type_info::of(object)?;
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
    match cfg!(feature = "buffer") && type_info.same_buffer && type_info.exported.is_unknown() {
        true if is_plain => buffer::learn(object, &type_info.exported, imported),
        _ => Ok(()),
    }
}

/// Reads an array of exactly NumPy's class, with the result of `__dlpack__` but without a call; `None` if a protocol
/// is needed.
pub(super) fn array_in_place(
    array: &Bound<'_, PyAny>,
    head: NumpyArray,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    if let Some(imported) = numpy_import::import(head, array)? {
        return Ok(Some(imported));
    }
    // The import would reach the buffer protocol in the end, which gives the same result as the array interface and
    // is faster.
    if !cfg!(feature = "buffer") || options.copy == Some(false) || !head.is_byte_swapped(array) {
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
