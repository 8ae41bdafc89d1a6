//! An object that exports a buffer with every field settable.

use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::arguments::Items;
use crate::record::Record;

/// An object that exports a buffer, right or wrong in every field. The buffer begins at byte `origin` of `payload`, or is
/// NULL if `origin` is negative. A release calls `on_release`, and drops its exception.
///
/// Unsafe: a consumer of a wrong buffer may crash.
#[pyclass(frozen, module = "dlbridge._core._crafter")]
pub(crate) struct Exporter {
    view: ffi::Py_buffer,
    exports: AtomicU32,
    released: Record,
    on_release: Option<Py<PyAny>>,
}

// SAFETY: the pointers in `view` are to memory that does not change and is never freed (Kept).
unsafe impl Send for Exporter {}
// SAFETY: as above; the other fields are atomic or `Sync`.
unsafe impl Sync for Exporter {}

#[pymethods]
impl Exporter {
    #[new]
    #[pyo3(signature = (
        payload, *, format, itemsize, shape, ndim, strides, suboffsets, readonly, length, origin, on_release
    ))]
    #[allow(clippy::too_many_arguments, reason = "one for each field of the struct")]
    fn new(
        payload: &[u8],
        format: Option<String>,
        itemsize: isize,
        shape: Option<Items<isize>>,
        ndim: c_int,
        strides: Option<Items<isize>>,
        suboffsets: Option<Items<isize>>,
        readonly: bool,
        length: isize,
        origin: isize,
        on_release: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let kept = |dims: Option<Items<isize>>| {
            dims.map_or(ptr::null_mut(), |dims| dims.0.leak().as_mut_ptr())
        };
        let format = format.map(CString::new).transpose()?;
        let payload = payload.to_vec().leak().as_mut_ptr();
        let mut view = ffi::Py_buffer::new();
        view.buf = match origin < 0 {
            true => ptr::null_mut(),
            false => payload.wrapping_offset(origin).cast(),
        };
        view.len = length;
        view.itemsize = itemsize;
        view.readonly = readonly.into();
        view.ndim = ndim;
        view.format = format.map_or(ptr::null_mut(), CString::into_raw);
        (view.shape, view.strides, view.suboffsets) =
            (kept(shape), kept(strides), kept(suboffsets));
        Ok(Self { view, exports: AtomicU32::new(0), released: Record::default(), on_release })
    }

    /// The number of requests for the buffer.
    #[getter]
    fn exports(&self) -> u32 {
        self.exports.load(SeqCst)
    }

    /// How the buffer was released: (calls, thread, gil, initialized, pending).
    fn record(&self) -> (u32, u64, bool, bool, bool) {
        self.released.values()
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, _flags: c_int) {
        slf.get().exports.fetch_add(1, SeqCst);
        // SAFETY: the buffer protocol requires a place to write to.
        unsafe {
            ptr::copy_nonoverlapping(&slf.get().view, view, 1);
            (*view).obj = slf.into_ptr();
        }
    }

    unsafe fn __releasebuffer__(&self, py: Python<'_>, _view: *mut ffi::Py_buffer) {
        self.released.note();
        if let Some(function) = &self.on_release {
            let _ = function.call0(py);
        }
    }
}
