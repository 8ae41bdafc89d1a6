//! Copies for arguments that allow them: of tensors that do not fit, and of lists.

use dlbridge::{Tensor, TensorRef};
use pyo3::prelude::*;

use super::accepts::Accepts;
use super::axis_order::AxisOrder;
use super::borrowed::{BorrowedArgument, borrow_copy};
use super::convert::{OutOfRange, Source};
use super::refusal::{Found, Refusal};
use super::sequence;
use super::spec::ArgumentSpec;
use super::unmet::Unmet;
use crate::copies;
use crate::order::Order;

impl ArgumentSpec {
    /// Copies a list or tuple of numbers into a new tensor; `None` for other objects.
    #[inline(never)]
    pub(super) fn copy_sequence<'py, A: Accepts>(
        &'static self,
        object: &Bound<'py, PyAny>,
    ) -> Result<Option<Box<BorrowedArgument<'py>>>, Refusal> {
        let Some(made) = sequence::tensor_of::<A>(self, object)? else { return Ok(None) };
        let tensor = TensorRef::from(&made);
        // The extents, the dtype and the device already fit.
        let aligned = self.misaligned(tensor.data().addr(), tensor.dtype()).is_none();
        let owner = match self.fits_order(&tensor) && (tensor.is_empty() || aligned) {
            true => made,
            false => self.rearranged(&Source { tensor, byte_swapped: false })?,
        };
        Ok(Some(borrow_copy(owner, object)))
    }

    /// A copy that fits, of a tensor that does not; `None` if no copy can fit.
    pub(super) fn convert(
        &self,
        source: &Source<'_>,
        misfit: &mut Option<OutOfRange>,
    ) -> PyResult<Option<Tensor>> {
        let tensor = &source.tensor;
        if !tensor.device().device_type().is_host_accessible() {
            return Ok(None);
        }
        if self.fits_dtype(source.dtype()) {
            return self.rearranged(source).map(Some);
        }
        let mut cast = |source: &Source<'_>| (self.cast)(source, self.dtypes, misfit);
        let copy = match AxisOrder::of_copy(self.order, tensor) {
            None => cast(source)?,
            Some(order) => {
                let copy = cast(&order.source(source)?)?;
                match misfit {
                    None => copy.map(|copy| order.tensor(copy)).transpose()?,
                    Some(first) if self.order == Order::Fortran => {
                        first.index.reverse();
                        None
                    }
                    // The first element in C order that does not fit may be another one, and the message must name
                    // that.
                    Some(_) => {
                        *misfit = None;
                        (self.cast)(source, self.dtypes, misfit)?
                    }
                }
            }
        };
        let Some(copy) = copy else { return Ok(None) };
        match self.misaligned(copy.data().addr(), copy.dtype()) {
            Some(_) if !copy.is_empty() => {
                let tensor = TensorRef::from(&copy);
                self.rearranged(&Source { tensor, byte_swapped: false }).map(Some)
            }
            _ => Ok(Some(copy)),
        }
    }

    /// A copy of elements whose dtype fits, in an order that fits and in this machine's byte order.
    pub(super) fn rearranged(&self, source: &Source<'_>) -> PyResult<Tensor> {
        let align = self.align(source.dtype());
        let copied = |source: &Source<'_>| {
            if !source.byte_swapped {
                return copies::copied(&source.tensor, align);
            }
            let swapped = copies::byte_swapped(&source.tensor)?;
            match self.misaligned(swapped.data().addr(), swapped.dtype()) {
                Some(_) if !swapped.is_empty() => copies::copied(&(&swapped).into(), align),
                _ => Ok(swapped),
            }
        };
        match AxisOrder::of_copy(self.order, &source.tensor) {
            None => copied(source),
            Some(order) => order.tensor(copied(&order.source(source)?)?),
        }
    }

    /// Refuses a tensor with an element that the dtype cannot hold.
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
