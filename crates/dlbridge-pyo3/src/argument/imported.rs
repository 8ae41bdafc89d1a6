//! Satisfy and record for a typed argument: an imported tensor is compared, copied where that is allowed, borrowed and checked.

use dlbridge::{Access, CopyReason, Tensor, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::convert::Source;
use super::expected::Expected;
use super::refusal::{Found, Refusal};
use super::taken::{Taken, outliving};
use crate::borrow::Guard;
use crate::error::to_py_err;
use crate::imported::Imported;
use crate::protocol::TypeInfo;
use crate::protocol::memory_owner::MemoryOwner;

impl Expected {
    /// Takes what was imported, or a copy of it, or says why not.
    pub(super) fn take_imported<'py>(
        &'static self,
        mut imported: Imported,
        storage: Option<Bound<'py, PyAny>>,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<Taken<'py>>, Refusal> {
        let mut unmet = self.compare(&imported);
        if !unmet.is_empty()
            && self.requirement.allow_copy
            && self.fits_extents(imported.tensor.shape())
        {
            // The copy is read under a borrow, as everything is.
            let tensor = TensorRef::from(&imported.tensor);
            let _reading = Guard::acquire(&type_info.borrowed, object, &tensor, Mode::Read)?;
            let lent = Source { tensor, byte_swapped: false };
            let mut misfit = None;
            let copy = self.convert(&lent, &mut misfit)?;
            if let Some(misfit) = misfit {
                return Err(self.out_of_range(&lent.tensor, misfit, None));
            }
            if let Some(copy) = copy {
                let reason = Some(imported.reason.unwrap_or(CopyReason::Requested));
                imported = Imported { reason, ..Imported::new(copy, imported.protocol) };
                unmet = self.compare(&imported);
            }
        }
        if !unmet.is_empty() {
            return Err(Refusal::new(
                self,
                Found::tensor(&TensorRef::from(&imported.tensor), unmet),
            ));
        }
        self.taken_from(imported.tensor, storage, type_info, object)
    }

    /// Borrows an imported tensor that fits.
    pub(super) fn taken_from<'py>(
        &self,
        owner: Tensor,
        storage: Option<Bound<'py, PyAny>>,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<Taken<'py>>, Refusal> {
        let own = owner.access() == Access::Exclusive && self.requirement.allow_copy;
        // SAFETY: the owner keeps the memory and the dims.
        let tensor = unsafe { outliving(TensorRef::from(&owner)) };
        let memory_owner = match storage {
            _ if own => MemoryOwner::Copy(owner),
            None => MemoryOwner::Tensor(owner),
            Some(storage) => MemoryOwner::Stored(Box::new((owner, storage))),
        };
        self.taken(tensor, Some(memory_owner), type_info, object)
    }

    /// Borrows what fits, unless it is a copy of our own, and checks what is in it.
    #[inline]
    pub(super) fn taken<'py>(
        &self,
        tensor: TensorRef<'static>,
        memory_owner: Option<MemoryOwner<'py>>,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<Taken<'py>>, Refusal> {
        let guard = match memory_owner {
            Some(MemoryOwner::Copy(_)) => Guard::NONE,
            _ => Guard::acquire(&type_info.borrowed, object, &tensor, self.mode)?,
        };
        if (self.checks)(tensor.dtype()) {
            (self.check)(&tensor).map_err(to_py_err)?;
        }
        if self.mode == Mode::Write {
            // SAFETY: only to find out whether it can be done; see `Taken::tensor_mut`.
            unsafe { tensor.clone().assume_exclusive() }.map_err(to_py_err)?;
        }
        Ok(Taken::put(Box::new_uninit(), tensor, guard, memory_owner, object))
    }
}
