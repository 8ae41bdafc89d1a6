//! Maps of shared memory, for `dlbridge.shared`.

use std::ffi::c_int;
use std::io;
use std::os::fd::RawFd;

use memmap2::{MmapOptions, MmapRaw};
use pyo3::exceptions::{PyBufferError, PyOSError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::files::without_number;

/// All bytes of a segment, writable. Unlike `mmap.mmap` it keeps no descriptor, of which a process has few.
///
/// `None` while it is dropped.
#[pyclass(name = "_SharedMap", module = "dlbridge._core", frozen, weakref)]
pub(crate) struct SharedMap(Option<MmapRaw>);

#[pymethods]
impl SharedMap {
    #[new]
    fn new(descriptor: u32) -> PyResult<Self> {
        let map = MmapOptions::new().map_raw(RawFd::try_from(descriptor)?);
        map.map(|map| Self(Some(map))).map_err(|error: io::Error| {
            PyOSError::new_err((error.raw_os_error(), without_number(&error)))
        })
    }

    fn __len__(&self) -> usize {
        self.0.as_ref().map_or(0, MmapRaw::len)
    }

    unsafe fn __getbuffer__(
        this: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let map = this.get().0.as_ref().ok_or_else(|| PyBufferError::new_err("the map is gone"))?;
        // A map is not longer than `isize::MAX`.
        let (first, len) = (map.as_mut_ptr().cast(), map.len().cast_signed());
        // SAFETY: Python passes NULL, or a `Py_buffer` to write to. The bytes stay mapped while `this` lives, of which
        // the buffer gets a reference.
        match unsafe { ffi::PyBuffer_FillInfo(view, this.as_ptr(), first, len, 0, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(this.py())),
        }
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        let map = self.0.take();
        // The system may have gigabytes to free.
        Python::attach(|py| py.detach(|| drop(map)));
    }
}
