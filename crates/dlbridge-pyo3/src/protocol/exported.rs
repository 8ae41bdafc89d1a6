//! How `__dlpack__` exports the objects of a type whose buffer has the same data, found with the first object.

use std::sync::OnceLock;

use dlbridge::sys::DLPackVersion;
use dlbridge::{Access, Tensor, TensorRef};

use super::is_copied;
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

/// The place for these facts: empty before the first object; `None` if its buffer had other data.
#[derive(Default)]
pub(crate) struct FirstExport(OnceLock<Option<Exported>>);

impl FirstExport {
    /// Returns true before the first object.
    #[inline]
    pub(crate) fn is_unknown(&self) -> bool {
        self.0.get().is_none()
    }

    /// The facts, if buffers have the same data.
    #[inline]
    pub(crate) fn get(&self) -> Option<Exported> {
        *self.0.get()?
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
        let _ = self.0.set((is_same && !is_copied(tensor)).then_some(exported));
    }
}
