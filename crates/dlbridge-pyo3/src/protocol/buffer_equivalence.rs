//! How `__dlpack__` exports the objects of a type whose buffer has the same data, found with the first object.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use dlbridge::sys::DLPackVersion;
use dlbridge::{Access, Tensor, TensorRef};
use pyo3::prelude::*;

use super::is_copied;
use crate::classes::attr;
use crate::imported::{Imported, Protocol};

/// The facts that a buffer lacks, and that are the same for all objects of a type.
#[derive(Clone, Copy)]
pub(crate) struct Exported {
    protocol: Protocol,
    version: Option<DLPackVersion>,
    access: Access,
}

impl Exported {
    /// The access to the memory.
    pub(super) fn access(&self) -> Access {
        self.access
    }

    /// The import of a tensor over the buffer.
    pub(super) fn import(&self, tensor: Tensor) -> Imported {
        Imported { version: self.version, ..Imported::new(tensor, self.protocol) }
    }
}

/// The known facts about the exports of a type's objects.
#[derive(Default)]
pub(crate) struct FirstExport {
    /// Empty before the first object; `None` if its buffer had other data.
    exported: OnceLock<Option<Exported>>,
    /// Dtypes of NumPy without a format in buffers. A request for such a buffer takes a tenth of an import.
    without_format: [OnceLock<Py<PyAny>>; 4],
}

impl FirstExport {
    /// Returns true before the first object.
    #[inline]
    pub(crate) fn is_unknown(&self) -> bool {
        self.exported.get().is_none()
    }

    /// The facts, if buffers have the same data.
    #[inline]
    pub(crate) fn get(&self) -> Option<Exported> {
        *self.exported.get()?
    }

    /// Returns true if an object may have a buffer, as far as is known.
    #[inline]
    pub(crate) fn may_have_format(&self, object: &Bound<'_, PyAny>) -> bool {
        self.without_format[0].get().is_none() || self.has_other_dtype(object)
    }

    #[cold]
    fn has_other_dtype(&self, object: &Bound<'_, PyAny>) -> bool {
        let Ok(dtype) = object.getattr(intern!(object.py(), "dtype")) else { return true };
        !self.without_format.iter().map_while(OnceLock::get).any(|known| dtype.is(known))
    }

    /// Remembers the dtype of an object without a buffer, unless the reason is another one.
    #[cold]
    pub(crate) fn learn_refusal(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let dtype = attr(object, "dtype")?;
        let kind: String = attr(&dtype, "kind")?.extract()?;
        if let Some(free) = self.without_format.iter().find(|known| known.get().is_none())
            && !"iufc".contains(&kind)
        {
            let _ = free.set(dtype.unbind());
        }
        Ok(())
    }

    /// Stores the facts of an import by `__dlpack__` if the buffer of the same object has the same description.
    pub(super) fn learn(&self, imported: &Imported, buffer: Option<&TensorRef<'_>>) {
        let Imported { tensor, protocol, version, .. } = imported;
        let is_same = buffer.is_some_and(|buffer| {
            buffer.data() == tensor.data()
                && buffer.dtype() == tensor.dtype()
                && buffer.device() == tensor.device()
                && buffer.shape() == tensor.shape()
                && buffer.strides() == tensor.strides()
        });
        let exported = Exported { protocol: *protocol, version: *version, access: tensor.access() };
        let _ = self.exported.set((is_same && !is_copied(tensor)).then_some(exported));
    }
}

/// Whether the table of a type describes the elements of its objects in their storages: unknown until the first of them
/// was imported.
pub(crate) struct TriState(AtomicU8);

impl TriState {
    pub(super) const UNKNOWN: u8 = 0;
    pub(super) const YES: u8 = 1;
    pub(super) const NO: u8 = 2;

    pub(super) const fn unknown() -> Self {
        Self(AtomicU8::new(Self::UNKNOWN))
    }

    #[inline]
    pub(super) fn is(&self, state: u8) -> bool {
        self.0.load(Ordering::Relaxed) == state
    }

    pub(super) fn set(&self, state: u8) {
        self.0.store(state, Ordering::Relaxed);
    }
}
