//! An export through `__dlpack__`: **read** the consumer's options, **satisfy** them, and **return** a capsule.

use dlbridge::Device;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyInt, PyTuple};

use super::dlpack::expect_pair;
use crate::capsule;
use crate::import::hub;
use crate::import_options::{expect_bool, wrong_type};
use crate::tensor::PyTensor;

/// The keywords of a call of `__dlpack__`, as passed.
pub struct Keywords<'a, 'py> {
    pub stream: Option<Borrowed<'a, 'py, PyAny>>,
    pub max_version: Option<Borrowed<'a, 'py, PyAny>>,
    pub dl_device: Option<Borrowed<'a, 'py, PyAny>>,
    pub copy: Option<Borrowed<'a, 'py, PyAny>>,
}

/// Exports a tensor for a call of `__dlpack__`.
///
/// The capsule is versioned if the consumer supports version 1 or later. An extension shares memory of the CPU, and leaves
/// all other exports to the package; without it, NumPy makes copies of memory of the CPU. Data of a legacy producer is marked read-only in a versioned capsule, because its
/// producer did not say whether it may be written. A legacy consumer gets it unmarked.
#[inline]
pub fn export<'py>(
    py: Python<'py>,
    exporter: &PyTensor,
    keywords: &Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = ExportOptions::read(keywords, exporter)?;
    let is_here = keywords.stream.is_none() && options.to.device_type().is_host_accessible();
    if !is_here || !options.is_sharable(exporter) {
        return by_package(py, exporter, options, keywords);
    }
    Ok(options.shared(py, exporter)?.into_any())
}

#[cold]
#[inline(never)]
fn by_package<'py>(
    py: Python<'py>,
    exporter: &PyTensor,
    options: ExportOptions,
    keywords: &Keywords<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = PyDict::new(py);
    // Without the package, the only writable export is left to another consumer.
    match keywords.stream.is_none() && options.is_copied_here(exporter) {
        // The object is an array of NumPy then, which can copy too.
        true => given.set_item("copy", true)?,
        false => hub::require(py, &|| "the package dlbridge makes this export".to_owned())?,
    }
    let writable = options.is_sharable(exporter).then(|| exporter.take_writable()).flatten();
    let Keywords { stream, max_version, dl_device, copy } = *keywords;
    let names = ["stream", "max_version", "dl_device", "copy"];
    for (name, value) in names.into_iter().zip([stream, max_version, dl_device, copy]) {
        if let Some(value) = value {
            given.set_item(name, value)?;
        }
    }
    let object = writable.as_ref().unwrap_or(exporter).to_object(py)?;
    object.call_method(intern!(py, "__dlpack__"), (), Some(&given))
}

/// Read: the options of the consumer.
#[derive(Clone, Copy)]
pub struct ExportOptions {
    /// True if the consumer supports versioned capsules.
    pub versioned: bool,
    pub copy: Option<bool>,
    /// The requested device.
    pub to: Device,
}

impl ExportOptions {
    #[inline]
    pub fn read(keywords: &Keywords<'_, '_>, exporter: &PyTensor) -> PyResult<Self> {
        let versioned =
            keywords.max_version.map(|v| major(&v)).transpose()?.is_some_and(|v| v >= 1);
        let copy = keywords.copy.map(|copy| expect_bool("copy", &copy)).transpose()?;
        let to = match keywords.dl_device {
            Some(asked) => {
                expect_pair("dl_device", "None or a tuple of two integers like (1, 0)", &asked)?
            }
            None => exporter.tensor().device(),
        };
        Ok(Self { versioned, copy, to })
    }

    /// Returns true if the consumer gets the exporter's own memory, on its device.
    #[inline]
    pub fn is_sharable(self, exporter: &PyTensor) -> bool {
        self.copy != Some(true)
            && self.to == exporter.tensor().device()
            && !self.is_inexpressible(exporter)
    }

    /// Returns true if an export that is not shared is a copy by the CPU.
    fn is_copied_here(self, exporter: &PyTensor) -> bool {
        let here = [self.to, exporter.tensor().device()] == [Device::CPU; 2];
        here && self.copy != Some(false)
    }

    /// Returns true if the consumer supports only legacy capsules, and they cannot express the data.
    pub fn is_inexpressible(self, exporter: &PyTensor) -> bool {
        let tensor = exporter.tensor();
        !self.versioned && (tensor.is_read_only() || tensor.is_subbyte_padded())
    }

    /// Returns a capsule with the exporter's own memory.
    #[inline]
    pub fn shared<'py>(
        self,
        py: Python<'py>,
        exporter: &PyTensor,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // SAFETY: the managed tensor was just made, and only the capsule gets it.
        unsafe {
            match self.versioned {
                true => capsule::versioned(py, exporter.to_raw()?),
                false => capsule::legacy(py, exporter.to_raw_legacy()?),
            }
        }
    }
}

/// The major version of a `max_version`.
#[inline]
fn major(max_version: &Bound<'_, PyAny>) -> PyResult<i64> {
    // A consumer passes the same tuple in every call. A tuple of exact integers never changes.
    static SEEN: [PyOnceLock<(Py<PyAny>, i64)>; 4] = [const { PyOnceLock::new() }; 4];
    let py = max_version.py();
    for (seen, major) in SEEN.iter().map_while(|seen| seen.get(py)) {
        if max_version.is(seen) {
            return Ok(*major);
        }
    }
    let wrong =
        || wrong_type("max_version", "None or a tuple of two integers like (1, 3)", max_version);
    let tuple = max_version.cast::<PyTuple>().map_err(|_| wrong())?;
    let (major, _minor) = tuple.extract::<(i64, i64)>().map_err(|_| wrong())?;
    if tuple.is_exact_instance_of::<PyTuple>()
        && tuple.iter_borrowed().all(|number| number.is_exact_instance_of::<PyInt>())
        && let Some(free) = SEEN.iter().find(|seen| seen.get(py).is_none())
    {
        let _ = free.set(py, (max_version.clone().unbind(), major));
    }
    Ok(major)
}
