//! Which elements a tensor is, kept while its owner is taken out.

use std::ops::Range;

use burn_flex::Layout;
use burn_std::{DType, Shape};
use dlbridge::{Error, Result, Tensor, TensorRef};

pub(crate) struct Part {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    strides: Vec<isize>,
    itemsize: usize,
    first: usize,
    bounds: Range<isize>,
}

impl Part {
    pub(crate) fn of(tensor: &Tensor, dtype: DType) -> Self {
        Self {
            dtype,
            shape: extents(tensor.shape()),
            strides: tensor.strides().iter().map(|&stride| stride as isize).collect(),
            itemsize: tensor.dtype().itemsize(),
            first: tensor.data().addr(),
            bounds: TensorRef::from(tensor).byte_bounds(),
        }
    }

    /// Whether each byte from the lowest to the highest is an element's: axes with short strides first, each begins
    /// at the latest where those before it end. Layouts that interleave in other ways count as having gaps.
    pub(crate) fn is_dense(&self) -> bool {
        let mut axes: Vec<(usize, usize)> = self
            .strides
            .iter()
            .zip(&self.shape)
            .filter(|&(_, &extent)| extent > 1)
            .map(|(stride, &extent)| (stride.unsigned_abs(), extent))
            .collect();
        axes.sort_unstable();
        let mut span = 1;
        axes.into_iter().all(|(stride, extent)| {
            let joins = stride <= span;
            span += stride * (extent - 1);
            joins
        })
    }

    /// The part as a layout of elements in some bytes.
    pub(crate) fn layout_in(&self, bytes: &[u8]) -> Result<Layout> {
        let at = |end: isize| {
            let from_base = self.first as i128 - bytes.as_ptr().addr() as i128 + end as i128;
            from_base / self.itemsize as i128
        };
        let (lowest, end, owner) =
            (at(self.bounds.start), at(self.bounds.end), bytes.len() / self.itemsize);
        if lowest < 0 || end > owner as i128 {
            let (lowest, highest) = (lowest as i64, end as i64 - 1);
            return Err(Error::OutOfBounds { lowest, highest, owner });
        }
        let shape = Shape::from(self.shape.clone());
        Ok(Layout::new(shape, self.strides.clone(), at(0) as usize))
    }
}

pub(crate) fn extents(shape: &[i64]) -> Vec<usize> {
    shape.iter().map(|&extent| extent as usize).collect()
}
