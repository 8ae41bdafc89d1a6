//! Fits an imported tensor to a typed argument: compares it, copies it if that is allowed, borrows its memory and
//! checks its elements.

use dlbridge::{Access, CopyReason, Error, Tensor, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::borrowed::{BorrowedArgument, outliving};
use super::convert::Source;
use super::refusal::{Found, Refusal};
use super::spec::ArgumentSpec;
use crate::borrow::Guard;
use crate::error::ErrorClass;
use crate::imported::Imported;
use crate::protocol::TypeInfo;
use crate::protocol::memory_owner::MemoryOwner;

impl ArgumentSpec {
    /// Takes an imported tensor, or a copy of it, or returns the refusal.
    pub(super) fn fit_imported<'py>(
        &'static self,
        mut imported: Imported,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        let mut unmet = self.compare(&imported);
        if !unmet.is_empty() && self.allow_copy && self.fits_extents(imported.tensor.shape()) {
            // The copy needs a borrow too, because it reads the memory.
            let tensor = TensorRef::from(&imported.tensor);
            let _reading = Guard::acquire(&type_info.borrowed, object, &tensor, Mode::Read)?;
            let source = Source { tensor, byte_swapped: false };
            let mut misfit = None;
            let copy = self.convert(&source, &mut misfit)?;
            if let Some(misfit) = misfit {
                return Err(self.out_of_range(&source.tensor, misfit, None));
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
        self.borrow_imported(imported.tensor, type_info, object)
    }

    /// Borrows an imported tensor that fits.
    pub(super) fn borrow_imported<'py>(
        &self,
        owner: Tensor,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        let own = owner.access() == Access::Exclusive && self.allow_copy;
        // SAFETY: `owner` keeps the memory and the dims alive, and is stored beside the tensor.
        let tensor = unsafe { outliving(TensorRef::from(&owner)) };
        let memory_owner = if own { MemoryOwner::Copy(owner) } else { MemoryOwner::Tensor(owner) };
        self.borrow(tensor, Some(memory_owner), type_info, object)
    }

    /// Borrows a tensor that fits, except a copy of our own, and checks its elements.
    #[inline]
    pub(super) fn borrow<'py>(
        &self,
        tensor: TensorRef<'static>,
        memory_owner: Option<MemoryOwner<'py>>,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        let guard = match memory_owner {
            Some(MemoryOwner::Copy(_)) => Guard::NONE,
            _ => Guard::acquire(&type_info.borrowed, object, &tensor, self.mode)?,
        };
        if (self.checks)(tensor.dtype()) {
            (self.check)(&tensor).map_err(|error| not_borrowed(object, error))?;
        }
        if self.mode == Mode::Write {
            // SAFETY: the tensor is dropped at once; this only checks that exclusive access is possible. See
            // `BorrowedArgument::tensor_mut`.
            unsafe { tensor.clone().assume_exclusive() }
                .map_err(|error| not_borrowed(object, error))?;
        }
        Ok(BorrowedArgument::put(Box::new_uninit(), tensor, guard, memory_owner, object))
    }
}

/// The error of a tensor that meets the demands and cannot be borrowed; its class adds the name of the argument.
#[cold]
pub(super) fn not_borrowed(object: &Bound<'_, PyAny>, error: Error) -> PyErr {
    ErrorClass::Borrowed.new_err(object.py(), &error.to_string())
}
