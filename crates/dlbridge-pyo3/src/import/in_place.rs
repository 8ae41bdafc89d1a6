//! The shortcut of a request: arrays of NumPy, read in place.

use dlbridge::Device;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::copies;
use crate::import_options::ImportOptions;
use crate::imported::Imported;
use crate::numpy::array::NumpyArray;
use crate::protocol::{buffer, numpy_import};

/// Returns true if an array of NumPy may be read in place, as far as the device matters.
#[inline(always)]
pub(super) fn may_be_in_place(options: &ImportOptions) -> bool {
    options.device.is_none_or(|device| device == Device::CPU)
}

/// Reads an array of NumPy's own class, as `__dlpack__` would export it, but without a call; `None` if a protocol must be asked.
pub(super) fn array_in_place(
    array: &Bound<'_, PyAny>,
    head: NumpyArray,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    if let Some(imported) = numpy_import::import(head, array)? {
        return Ok(Some(imported));
    }
    // The buffer would be left in the end, and says the same as the array interface, sooner.
    if !cfg!(feature = "buffer") || options.copy == Some(false) || !head.is_byte_swapped(array) {
        return Ok(None);
    }
    copies::forget_interrupt();
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
