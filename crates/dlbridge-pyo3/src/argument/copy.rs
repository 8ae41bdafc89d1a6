//! Copies for arguments that allow them: of tensors that do not fit, and of lists.

use dlbridge::{Tensor, TensorRef};
use pyo3::prelude::*;

use super::accepts::Accepts;
use super::convert::OutOfRange;
use super::expected::Expected;
use super::refusal::{Found, Refusal};
use super::sequence;
use super::taken::{Taken, taken_copy};
use super::unmet::Unmet;
use crate::copies;
use crate::order::Order;

impl Expected {
    /// Takes a list or tuple of numbers, as a tensor of its own; `None` for other objects.
    #[inline(never)]
    pub(super) fn take_sequence<'py, A: Accepts>(
        &'static self,
        object: &Bound<'py, PyAny>,
    ) -> Result<Option<Box<Taken<'py>>>, Refusal> {
        let Some(made) = sequence::tensor_of::<A>(self, object)? else { return Ok(None) };
        let tensor = TensorRef::from(&made);
        // Extents, dtype and device fit.
        let aligned = self.misaligned(tensor.data().addr(), tensor.dtype()).is_none();
        let owner = match self.fits_order(&tensor) && (tensor.is_empty() || aligned) {
            true => made,
            false => self.rearranged(&tensor)?,
        };
        Ok(Some(taken_copy(owner, object)))
    }

    /// A copy that fits where this does not; `None` if no copy would.
    pub(super) fn convert(
        &self,
        source: &TensorRef<'_>,
        misfit: &mut Option<OutOfRange>,
    ) -> PyResult<Option<Tensor>> {
        if !source.device().device_type().is_host_accessible() {
            return Ok(None);
        }
        if self.dtypes.is_empty() || self.dtypes.contains(&source.dtype()) {
            return self.rearranged(source).map(Some);
        }
        let copy = match self.requirement.order {
            Order::Fortran => {
                let copy = (self.cast)(&source.transpose(), self.dtypes, misfit)?;
                if let Some(misfit) = misfit {
                    misfit.index.reverse();
                }
                copy.map(Tensor::transpose)
            }
            _ => (self.cast)(source, self.dtypes, misfit)?,
        };
        let Some(copy) = copy else { return Ok(None) };
        match self.misaligned(copy.data().addr(), copy.dtype()) {
            Some(_) if !copy.is_empty() => self.rearranged(&TensorRef::from(&copy)).map(Some),
            _ => Ok(Some(copy)),
        }
    }

    /// A copy in the order that is asked for.
    pub(super) fn rearranged(&self, source: &TensorRef<'_>) -> PyResult<Tensor> {
        let align = self.requirement.align.max((self.alignment)(source.dtype()));
        match self.requirement.order {
            Order::Fortran => Ok(copies::copied(&source.transpose(), align)?.transpose()),
            _ => copies::copied(source, align),
        }
    }

    /// The refusal of a tensor with an element that the dtype cannot hold.
    #[cold]
    pub(super) fn out_of_range(
        &'static self,
        tensor: &TensorRef<'_>,
        misfit: OutOfRange,
        time: Option<String>,
    ) -> Refusal {
        let mut found = Found::tensor(tensor, Unmet::default());
        if let Found::Tensor { out_of_range, time: unit, .. } = &mut found {
            (*out_of_range, *unit) = (Some(misfit), time);
        }
        Refusal::new(self, found)
    }
}
