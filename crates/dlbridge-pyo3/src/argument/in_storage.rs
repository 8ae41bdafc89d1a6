//! Tensors of PyTorch as arguments that are only read: described in place, without an import.

use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::borrowed::BorrowedArgument;
use super::imported::not_borrowed;
use super::refusal::Refusal;
use super::spec::ArgumentSpec;
use crate::borrow::Guard;
use crate::import::Depth;
use crate::protocol::in_storage::{self, Described};
use crate::protocol::memory_owner::MemoryOwner;
use crate::protocol::{TypeInfo, framework_checks};

impl ArgumentSpec {
    /// Borrows an object that fits and is described in its storage; `None` for everything else, which an import borrows
    /// or refuses. A description lacks the flag for read-only memory, so an argument that writes needs an import.
    #[inline(never)]
    pub(super) fn borrow_torch<'py>(
        &'static self,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Result<Option<Box<BorrowedArgument<'py>>>, Refusal> {
        if self.mode == Mode::Write || !self.times.is_empty() {
            return Ok(None);
        }
        let _depth = Depth::enter()?;
        framework_checks::check_before(object, &type_info.checks)?;
        // Allocated before the argument exists; the argument would otherwise be built on the stack first.
        let place = Box::new_uninit();
        let Some(found) = Described::of(object, type_info)? else { return Ok(None) };
        let storage = found.storage.clone();
        // SAFETY: no code has run since the description. No element is read before `is_stored` below, and the argument
        // keeps the storage as long as the tensor.
        let mut argument = match unsafe { found.run() } {
            Some(tensor) => {
                BorrowedArgument::put(place, tensor, Guard::NONE, stored(found), object)
            }
            // SAFETY: as above: `run` only reads the description, and calls nothing.
            None => match unsafe { found.tensor() } {
                Some(tensor) => {
                    BorrowedArgument::put(place, tensor, Guard::NONE, stored(found), object)
                }
                None => return Ok(None),
            },
        };
        let dtype = argument.tensor().dtype();
        // The import of an argument that may copy converts elements that are not values.
        let may_convert = self.allow_copy && (self.checks)(dtype);
        if !self.fits(argument.tensor(), false)
            || may_convert
            || !in_storage::is_sound(object, type_info, dtype)?
            || !in_storage::is_stored(&storage, argument.tensor())?
        {
            return Ok(None);
        }
        let guard = Guard::acquire(&type_info.borrowed, object, argument.tensor(), self.mode)?;
        argument.set_guard(guard);
        if (self.checks)(dtype) {
            (self.check)(argument.tensor()).map_err(|error| not_borrowed(object, error))?;
        }
        Ok(Some(argument))
    }
}

#[inline(always)]
fn stored(found: Described<'_>) -> Option<MemoryOwner<'_>> {
    Some(MemoryOwner::Storage(found.storage))
}
