//! Satisfy and record for a typed argument: an imported tensor is compared, copied where that is allowed, borrowed and checked.

use dlbridge::{Access, CopyReason, Tensor, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::expected::Expected;
use super::refusal::{Found, Refusal};
use super::taken::{Taken, outliving};
use crate::borrow::Guard;
use crate::error::to_py_err;
use crate::imported::Imported;
use crate::protocol::Kind;
use crate::protocol::lender::Lender;

impl Expected {
    /// Takes what was imported, or a copy of it, or says why not.
    pub(super) fn take_imported<'py>(
        &'static self,
        mut imported: Imported,
        storage: Option<Bound<'py, PyAny>>,
        kind: &Kind,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<Taken<'py>>, Refusal> {
        let mut unmet = self.compare(&imported);
        if !unmet.is_empty()
            && self.requirement.allow_copy
            && self.fits_extents(imported.tensor.shape())
        {
            // The copy is read under a borrow, as everything is.
            let lent = TensorRef::from(&imported.tensor);
            let _reading = Guard::acquire(&kind.borrowed, object, &lent, Mode::Read)?;
            let mut misfit = None;
            let copy = self.convert(&lent, &mut misfit)?;
            if let Some(misfit) = misfit {
                return Err(self.out_of_range(&lent, misfit, None));
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
        self.taken_from(imported.tensor, storage, kind, object)
    }

    /// Borrows an imported tensor that fits.
    pub(super) fn taken_from<'py>(
        &self,
        owner: Tensor,
        storage: Option<Bound<'py, PyAny>>,
        kind: &Kind,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<Taken<'py>>, Refusal> {
        let own = owner.access() == Access::Exclusive && self.requirement.allow_copy;
        // SAFETY: the owner keeps the memory and the dims.
        let tensor = unsafe { outliving(TensorRef::from(&owner)) };
        let lender = match storage {
            _ if own => Lender::Copy(owner),
            None => Lender::Tensor(owner),
            Some(storage) => Lender::Stored(Box::new((owner, storage))),
        };
        self.taken(tensor, Some(lender), kind, object)
    }

    /// Borrows what fits, unless it is a copy of our own, and checks what is in it.
    #[inline]
    pub(super) fn taken<'py>(
        &self,
        tensor: TensorRef<'static>,
        lender: Option<Lender<'py>>,
        kind: &Kind,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<Taken<'py>>, Refusal> {
        let guard = match lender {
            Some(Lender::Copy(_)) => Guard::NONE,
            _ => Guard::acquire(&kind.borrowed, object, &tensor, self.mode)?,
        };
        if (self.checks)(tensor.dtype()) {
            (self.check)(&tensor).map_err(to_py_err)?;
        }
        if self.mode == Mode::Write {
            // SAFETY: only to find out whether it can be done; see `Taken::tensor_mut`.
            unsafe { tensor.clone().assume_exclusive() }.map_err(to_py_err)?;
        }
        Ok(Taken::put(Box::new_uninit(), tensor, guard, lender, object))
    }
}
