//! JAX's arrays: their buffer is exported faster than by `__dlpack__`, and has the same data. The first object of a type
//! shows it.

use std::sync::OnceLock;

use dlbridge::sys::DLPackVersion;
use dlbridge::{Access, DataTypeCode as Code};
use pyo3::prelude::*;

use super::buffer::Buffer;
use crate::imported::{Imported, Protocol};
use crate::python::classes::attr;

/// The known facts about a type whose objects export the same data by their buffer.
#[derive(Default)]
pub struct SameBuffer {
    /// Empty before the first object; `None` if its buffer had other data.
    exported: OnceLock<Option<Exported>>,
    /// Dtypes of NumPy without a format in buffers. A request for such a buffer takes a tenth of an import.
    without_format: [OnceLock<Py<PyAny>>; 4],
}

/// The facts about an export by `__dlpack__` that a buffer lacks, and that are the same for all objects of a type.
#[derive(Clone, Copy)]
struct Exported {
    protocol: Protocol,
    version: Option<DLPackVersion>,
    access: Access,
}

impl SameBuffer {
    /// Returns true if the buffer of an object of the type is known to have the same data.
    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.exported.get(), Some(Some(_)))
    }

    /// Reads an object through its buffer, without the checks of an import; `None` if that is not possible.
    #[inline]
    pub(crate) fn import(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<Imported>> {
        let Some(&Some(exported)) = self.exported.get() else { return Ok(None) };
        if self.without_format[0].get().is_some() && self.lacks_format(object) {
            return Ok(None);
        }
        let Exported { protocol, version, access } = exported;
        let buffer = Buffer::if_exported(object)?;
        let Some(tensor) = buffer.and_then(|buffer| buffer.into_described(access)) else {
            // An object that cannot tell its dtype is imported by the protocols, which report the reason.
            let _ = self.learn_refusal(object);
            return Ok(None);
        };
        Ok(Some(Imported { version, ..Imported::new(tensor, protocol) }))
    }

    #[cold]
    fn lacks_format(&self, object: &Bound<'_, PyAny>) -> bool {
        let known = self.without_format.iter().map_while(OnceLock::get);
        let dtype = object.getattr(intern!(object.py(), "dtype"));
        dtype.is_ok_and(|dtype| known.into_iter().any(|known| dtype.is(known)))
    }

    /// Remembers the dtype of an object without a buffer, unless the reason is another one.
    #[cold]
    fn learn_refusal(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let dtype = attr(object, "dtype")?;
        let kind: String = attr(&dtype, "kind")?.extract()?;
        if let Some(free) = self.without_format.iter().find(|known| known.get().is_none())
            && !"iufc".contains(&kind)
        {
            let _ = free.set(dtype.unbind());
        }
        Ok(())
    }

    /// Compares the buffer of the first object of a type with its import by `__dlpack__`, and keeps the facts.
    pub(crate) fn learn(&self, object: &Bound<'_, PyAny>, imported: &Imported) -> PyResult<()> {
        if self.exported.get().is_some() {
            return Ok(());
        }
        let Imported { tensor, protocol, version, reason } = imported;
        // A buffer lacks the address of an empty array, and a format for most other dtypes.
        let dtype = tensor.dtype();
        let has_format = dtype.itemsize() * 8 == usize::from(dtype.bits())
            && matches!(dtype.code(), Code::INT | Code::UINT | Code::FLOAT | Code::COMPLEX);
        let by_dlpack = matches!(protocol, Protocol::Dlpack | Protocol::LegacyDlpack);
        if !by_dlpack || !has_format || tensor.is_empty() || reason.is_some() {
            return Ok(());
        }
        let buffer = Buffer::if_exported(object)?;
        let is_same = buffer.as_ref().and_then(Buffer::describe).is_some_and(|buffer| {
            buffer.data() == tensor.data()
                && buffer.dtype() == dtype
                && buffer.device() == tensor.device()
                && buffer.shape() == tensor.shape()
                && buffer.strides() == tensor.strides()
        });
        let exported = Exported { protocol: *protocol, version: *version, access: tensor.access() };
        let _ = self.exported.set(is_same.then_some(exported));
        Ok(())
    }
}
