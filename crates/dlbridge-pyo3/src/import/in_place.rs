//! The shortcut of a request: NumPy arrays, read in place.

use dlbridge::{CopyReason, Device};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::borrow::Guard;
use crate::copies;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::numpy::array::NumpyArray;
use crate::protocol::{buffer, numpy_import};

/// Returns true if the device option allows reading a NumPy array in place.
#[inline(always)]
pub(super) fn may_be_in_place(options: &ImportOptions) -> bool {
    options.device.is_none_or(|device| device == Device::CPU)
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
    // A short copy needs no buffer: no other code resizes the array meanwhile.
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
