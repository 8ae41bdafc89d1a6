//! Arguments whose elements are times.

use dlbridge::{CopyReason, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::borrowed::BorrowedArgument;
use super::refusal::{Found, Refusal};
use super::spec::ArgumentSpec;
use super::spec::Casting;
use crate::borrow::Guard;
use crate::import;
use crate::imported::Imported;
use crate::protocol::time::Times;
use crate::protocol::type_info;

impl ArgumentSpec {
    /// Takes an argument whose elements are times.
    pub(super) fn import_times<'py>(
        &'static self,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        let casts = self.casting.map(|cast| cast == Casting::SameKind);
        let times = Times::new(self.times, self.allow_copy, casts);
        let imported = import::times::import(object, &times);
        if let Some(found) = times.found() {
            return Err(Refusal::new(self, Found::Other(found)));
        }
        let Some((mut imported, source)) = imported? else {
            return Err(Refusal::Object(self));
        };
        let Some(chosen) = times.chosen() else { return Err(Refusal::Object(self)) };
        let type_info = type_info::of(&source)?;
        if !chosen.scale.is_one() && self.fits_extents(imported.tensor.shape()) {
            let found = TensorRef::from(&imported.tensor);
            let _reading = Guard::acquire(&type_info.borrowed, &source, &found, Mode::Read)?;
            let tensor = match (self.rescale)(&imported.tensor, &chosen)? {
                Ok(tensor) => tensor,
                Err(misfit) => return Err(self.out_of_range(&found, misfit, Some(chosen.found))),
            };
            let reason = Some(imported.reason.unwrap_or(CopyReason::Requested));
            imported = Imported { reason, ..Imported::new(tensor, imported.protocol) };
        }
        let argument = self.fit_imported(imported, &type_info, &source);
        let mut argument = argument.map_err(|refusal| refusal.of_times(&chosen.found))?;
        argument.note_times(chosen.name, object);
        Ok(argument)
    }

    /// The refusal of a NumPy array whose elements the argument cannot accept, as an import makes it.
    #[cold]
    pub(super) fn refusal_of_elements(&'static self, object: &Bound<'_, PyAny>) -> Refusal {
        let refusal = match self.times.is_empty() {
            true => import::imported(object, &self.import_options()).map_err(Refusal::from).err(),
            false => self.import_times(object).err(),
        };
        match refusal {
            // Python code has changed the array's dtype meanwhile.
            None | Some(Refusal::Elements(_)) => Refusal::Object(self),
            Some(refusal) => refusal,
        }
    }
}
