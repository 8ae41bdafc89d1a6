//! The doors: one file per protocol, import and export together; and the ladder that tries them.

mod buffer;
mod buffer_format;
mod dlpack;

use dlbridge::{Device, Tensor};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

pub(crate) use dlpack::{Request, expect_bool, expect_named_device, export};

use crate::PyTensor;

/// The door through which a tensor came.
///
/// ```
/// use dlbridge_pyo3::Protocol;
///
/// assert_eq!(Protocol::LegacyDlpack.name(), "dlpack-legacy");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// `__dlpack__`, answered with a versioned capsule.
    Dlpack,
    /// `__dlpack__`, answered with a legacy capsule, which cannot say whether data is read-only.
    LegacyDlpack,
    /// The buffer protocol.
    Buffer,
}

impl Protocol {
    /// The name that Python sees.
    ///
    /// ```
    /// assert_eq!(dlbridge_pyo3::Protocol::Buffer.name(), "buffer");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dlpack => "dlpack",
            Self::LegacyDlpack => "dlpack-legacy",
            Self::Buffer => "buffer",
        }
    }
}

impl Protocol {
    /// Whether a producer can say that its data is read-only. A legacy one cannot, and some of them
    /// lend what must not change: unless it is a copy it is taken for read-only, as NumPy does.
    pub(crate) const fn tells_read_only(self) -> bool {
        !matches!(self, Self::LegacyDlpack)
    }
}

/// A tensor out of a Python object, with what is known of how it came.
pub(crate) struct Imported {
    pub(crate) tensor: Tensor,
    pub(crate) protocol: Protocol,
    /// Whether the producer made a copy, as far as is known.
    pub(crate) copied: bool,
}

/// Imports any Python object that speaks DLPack or the buffer protocol. dlbridge makes no copy;
/// whether a producer of DLPack makes one is up to it. What a legacy producer lends comes as
/// read-only, since that one cannot say whether it is.
///
/// # Errors
/// `TypeError` for an object that speaks neither; `BufferError` for data that breaks the
/// specification or that a tensor cannot express; `ValueError` for a capsule that was consumed
/// before or holds something else; whatever the producer raises.
///
/// ```no_run
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn ndim(x: &Bound<'_, PyAny>) -> PyResult<usize> {
///     Ok(dlbridge_pyo3::import(x)?.ndim())
/// }
/// ```
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    if let Ok(tensor) = object.cast::<PyTensor>() {
        return tensor.get().alias();
    }
    let imported = by_ladder(object, &Wanted::default())?;
    match imported.copied || imported.protocol.tells_read_only() {
        true => Ok(imported.tensor),
        // The tensor forgets how it came, so it must not claim that it can be written.
        false => Ok(imported.tensor.into_read_only()),
    }
}

/// What the caller asks of a producer.
#[derive(Default)]
pub(crate) struct Wanted {
    /// A copy, or that there be none.
    pub(crate) copy: Option<bool>,
    /// That the data is on this device.
    pub(crate) device: Option<Device>,
}

/// Tries one door after the other.
pub(crate) fn by_ladder(object: &Bound<'_, PyAny>, wanted: &Wanted) -> PyResult<Imported> {
    if let Some(imported) = dlpack::import(object, wanted)? {
        return Ok(imported);
    }
    if let Some(imported) = buffer::import(object, wanted)? {
        return Ok(imported);
    }
    Err(no_door(object, "__dlpack__ or the buffer protocol"))
}

/// Imports through `__dlpack__` alone.
pub(crate) fn by_dlpack(object: &Bound<'_, PyAny>, wanted: &Wanted) -> PyResult<Imported> {
    dlpack::import(object, wanted)?.ok_or_else(|| no_door(object, "__dlpack__"))
}

fn no_door(object: &Bound<'_, PyAny>, looked_for: &str) -> PyErr {
    match object.get_type().fully_qualified_name() {
        Ok(name) => PyTypeError::new_err(format!(
            "'{name}' object speaks no exchange protocol: looked for {looked_for}; convert it with \
             numpy.asarray first"
        )),
        Err(error) => error,
    }
}
