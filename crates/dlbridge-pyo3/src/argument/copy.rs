//! Copies for arguments that allow them: of tensors that do not fit, and of lists.

use dlbridge::{Tensor, TensorRef};
use pyo3::prelude::*;

use super::axis_order::AxisOrder;
use super::cast::{OutOfRange, Source};
use super::spec::ArgumentSpec;
use crate::copies;
use crate::order::Order;

impl ArgumentSpec {
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
        if self.fits_dtype(source.tensor.dtype()) {
            return self.rearranged(source).map(Some);
        }
        let mut cast = |source: &Source<'_>| (self.cast)(source, self, self.dtypes, misfit);
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
                        (self.cast)(source, self, self.dtypes, misfit)?
                    }
                }
            }
        };
        let Some(copy) = copy else { return Ok(None) };
        if self.is_aligned(&copy) {
            return Ok(Some(copy));
        }
        let tensor = TensorRef::from(&copy);
        self.rearranged(&Source { tensor, byte_swapped: false }).map(Some)
    }

    /// A copy of elements whose dtype fits, in an order that fits and in this machine's byte order.
    pub(super) fn rearranged(&self, source: &Source<'_>) -> PyResult<Tensor> {
        let align = self.align(source.tensor.dtype());
        let copied = |source: &Source<'_>| {
            if !source.byte_swapped {
                return copies::copied(&source.tensor, align);
            }
            let swapped = copies::byte_swapped(&source.tensor)?;
            match self.is_aligned(&swapped) {
                true => Ok(swapped),
                false => copies::copied(&(&swapped).into(), align),
            }
        };
        match AxisOrder::of_copy(self.order, &source.tensor) {
            None => copied(source),
            Some(order) => order.tensor(copied(&order.source(source)?)?),
        }
    }

    fn is_aligned(&self, copy: &Tensor) -> bool {
        copy.is_empty() || self.fits_address(copy.data().addr(), copy.dtype())
    }
}
