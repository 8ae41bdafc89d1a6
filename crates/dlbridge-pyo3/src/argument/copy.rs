//! Copies of tensors that do not fit, for arguments that allow them, and the order of the elements in a copy.

use dlbridge::{Tensor, TensorRef};
use pyo3::prelude::*;

use super::cast::{OutOfRange, Source, by_rule};
use super::spec::ArgumentSpec;
use crate::copies;
use crate::error::to_py_err;
use crate::order::Order;

/// [`ArgumentSpec::convert`].
pub(super) type Convert =
    fn(&ArgumentSpec, &Source<'_>, &mut Option<OutOfRange>) -> PyResult<Option<Tensor>>;

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
        let mut cast = |source: &Source<'_>| by_rule(source, self, self.dtypes, misfit);
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
                        by_rule(source, self, self.dtypes, misfit)?
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

/// A memory order of axes other than C order.
enum AxisOrder {
    /// Fortran order: the first axis is the fastest.
    Fortran,
    /// The axes from the slowest to the fastest.
    Axes(Vec<usize>),
}

impl AxisOrder {
    /// The memory order of a copy of a tensor; `None` for C order.
    ///
    /// Without a demanded order, the copy keeps the order of the tensor, as NumPy's order `K` does: memory is then
    /// read and written in one direction.
    fn of_copy(demanded: Order, tensor: &TensorRef<'_>) -> Option<Self> {
        if tensor.ndim() < 2 {
            return None;
        }
        match demanded {
            Order::C => None,
            Order::Fortran => Some(Self::Fortran),
            Order::Strided => Self::of_memory(tensor),
            // A tensor with another order of axes is not contiguous.
            Order::Either => Self::of_memory(tensor).filter(|order| matches!(order, Self::Fortran)),
        }
    }

    /// The memory order of the tensor; `None` for C order, for repeated elements, and without elements.
    fn of_memory(tensor: &TensorRef<'_>) -> Option<Self> {
        let (shape, strides) = (tensor.shape(), tensor.strides());
        let (mut is_c_order, mut is_fortran_order) = (true, true);
        let mut last = None;
        for (&extent, stride) in shape.iter().zip(strides) {
            let stride = stride.unsigned_abs();
            match extent {
                // A dimension of extent 1 fits any position.
                1 => continue,
                0 => return None,
                _ if stride == 0 => return None,
                _ => {}
            }
            if let Some(last) = last.replace(stride) {
                is_c_order &= stride <= last;
                is_fortran_order &= stride >= last;
            }
        }
        match (is_c_order, is_fortran_order) {
            (true, _) => None,
            (false, true) => Some(Self::Fortran),
            (false, false) => Some(Self::Axes(slowest_first(shape, strides))),
        }
    }

    /// The source with its axes in this order.
    fn source<'a>(&self, source: &Source<'a>) -> PyResult<Source<'a>> {
        let tensor = match self {
            Self::Fortran => source.tensor.transpose(),
            Self::Axes(axes) => source.tensor.permute(axes).map_err(to_py_err)?,
        };
        Ok(Source { tensor, byte_swapped: source.byte_swapped })
    }

    /// Undoes the permutation: returns the tensor with its axes in their original order.
    fn tensor(&self, tensor: Tensor) -> PyResult<Tensor> {
        let Self::Axes(axes) = self else { return Ok(tensor.transpose()) };
        let mut places = vec![0; axes.len()];
        for (place, &axis) in axes.iter().enumerate() {
            places[axis] = place;
        }
        tensor.permute(places).map_err(to_py_err)
    }
}

/// The axes, from the longest stride to the shortest.
fn slowest_first(shape: &[i64], strides: &[i64]) -> Vec<usize> {
    let stride = |axis: usize| match shape[axis] {
        1 => u64::MAX,
        _ => strides[axis].unsigned_abs(),
    };
    let mut axes: Vec<usize> = (0..shape.len()).collect();
    // There are few axes, and the standard library's sort adds 8 kB of code.
    for next in 1..axes.len() {
        let mut place = next;
        while place > 0 && stride(axes[place - 1]) < stride(axes[place]) {
            axes.swap(place - 1, place);
            place -= 1;
        }
    }
    axes
}
