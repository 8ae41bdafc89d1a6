//! Layouts within a layout: slices, transposes, other shapes.
//!
//! - **Slice.** Each index of a slice leads to an element of the layout it was made of. Unless the slice was broadcast, or
//!   given any strides, two indices lead to two elements if they do so in that layout.

use core::ops::{Bound, RangeBounds};

use super::dims::{Dims, Numbers};
use super::{ElementExtent, c_strides, element_count, is_c_contiguous};
use crate::{Error, MAX_NDIM, Result};

/// A layout within another one (Slice).
pub(crate) struct Slice {
    pub(crate) dims: Dims<'static>,
    /// The distance between the elements at index zero, in elements; 0 if the slice has none.
    pub(crate) offset: isize,
}

/// The methods require layouts of tensors in memory. The strides of an empty layout may be any numbers, so arithmetic
/// with them wraps; the offset is 0 then.
impl Dims<'_> {
    fn check_axis(&self, axis: usize) -> Result<(i64, i64)> {
        self.axes().nth(axis).ok_or(Error::InvalidAxis { axis, ndim: self.ndim() })
    }

    /// Changes the extent and stride of one axis; `offset` leads to the new index zero.
    fn with_axis(&self, axis: usize, changed: (i64, i64), offset: i64) -> Slice {
        let axes = self.axes().enumerate();
        let dims = Dims::new(axes.map(|(i, old)| if i == axis { changed } else { old }));
        Slice::new(dims, offset)
    }

    /// The indices of a range along an axis.
    pub(crate) fn slice(&self, axis: usize, range: impl RangeBounds<usize>) -> Result<Slice> {
        let (extent, stride) = self.check_axis(axis)?;
        let extent = extent as usize;
        let start = match range.start_bound() {
            Bound::Included(&start) => Some(start),
            Bound::Excluded(&before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.checked_add(1),
            Bound::Excluded(&end) => Some(end),
            Bound::Unbounded => Some(extent),
        };
        let range = (start.unwrap_or(usize::MAX), end.unwrap_or(usize::MAX));
        match range {
            (start, end) if start <= end && end <= extent => {
                let offset = (start as i64).wrapping_mul(stride);
                Ok(self.with_axis(axis, ((end - start) as i64, stride), offset))
            }
            (start, end) => Err(Error::InvalidRange { axis, start, end, extent }),
        }
    }

    /// Every `step`th index of an axis, from the first.
    pub(crate) fn step_by(&self, axis: usize, step: usize) -> Result<Slice> {
        assert!(step != 0, "a step of 0 goes nowhere");
        let (extent, stride) = self.check_axis(axis)?;
        let steps = (extent as usize).div_ceil(step) as i64;
        // With at most one index the step is never used, and the product might be out of range.
        let stride = if steps > 1 { stride.wrapping_mul(step as i64) } else { stride };
        Ok(self.with_axis(axis, (steps, stride), 0))
    }

    /// Reverses an axis.
    pub(crate) fn flip(&self, axis: usize) -> Result<Slice> {
        let (extent, stride) = self.check_axis(axis)?;
        let offset = extent.saturating_sub(1).max(0).wrapping_mul(stride);
        Ok(self.with_axis(axis, (extent, stride.wrapping_neg()), offset))
    }

    /// Selects one index of an axis and removes the axis.
    pub(crate) fn index_axis(&self, axis: usize, index: usize) -> Result<Slice> {
        let (extent, stride) = self.check_axis(axis)?;
        if index >= extent as usize {
            let (start, end) = (index, index.saturating_add(1));
            return Err(Error::InvalidRange { axis, start, end, extent: extent as usize });
        }
        let kept = self.axes().enumerate().filter(|&(i, _)| i != axis);
        Ok(Slice::new(Dims::new(kept.map(|(_, axis)| axis)), (index as i64).wrapping_mul(stride)))
    }

    /// A new axis of extent 1.
    pub(crate) fn insert_axis(&self, axis: usize) -> Result<Slice> {
        let ndim = self.ndim();
        if axis > ndim {
            return Err(Error::InvalidAxis { axis, ndim });
        }
        if ndim == MAX_NDIM {
            return Err(Error::InvalidNdim { ndim: ndim as i64 + 1 });
        }
        let new = core::iter::once((1, 1));
        let axes = self.axes().take(axis).chain(new).chain(self.axes().skip(axis));
        Ok(Slice::new(Dims::new(axes), 0))
    }

    /// Reverses the order of the axes.
    pub(crate) fn transpose(&self) -> Slice {
        Slice::new(Dims::new(self.axes().rev()), 0)
    }

    /// The axes in another order, each of them once.
    pub(crate) fn permute(&self, order: &[usize]) -> Result<Slice> {
        let ndim = self.ndim();
        if order.len() != ndim {
            return Err(Error::AxisCount { given: order.len(), ndim });
        }
        for (nth, &axis) in order.iter().enumerate() {
            self.check_axis(axis)?;
            if order[..nth].contains(&axis) {
                return Err(Error::RepeatedAxis { axis });
            }
        }
        let (shape, strides) = (self.shape(), self.strides());
        Ok(Slice::new(Dims::new(order.iter().map(|&axis| (shape[axis], strides[axis]))), 0))
    }

    /// Another shape over the same elements in the same order, if strides can express it.
    pub(crate) fn reshape(&self, shape: &[usize]) -> Result<Slice> {
        let new = extents(shape)?;
        let (count, found) = (element_count(&new)?, element_count(self.shape())?);
        if count != found {
            return Err(Error::ElementCount { shape: count, owner: found });
        }
        let mut strides: Numbers = new.iter().map(|_| 0).collect();
        c_strides(&new, |axis, stride| strides[axis] = stride);
        if count == 0 {
            return Ok(Slice::new(Dims::own(new, strides), 0));
        }
        // Starts at the last axis and divides each even run of old axes among new ones. The rest of the run shrinks
        // with each new axis, and must end at 1.
        let old = self.coalesced();
        let mut runs = old.axes().rev();
        let (mut left, mut step) = (1, 1);
        for axis in (0..new.len()).rev().filter(|&axis| new[axis] != 1) {
            if left == 1 {
                (left, step) = runs.next().expect("both shapes have the same number of elements");
            }
            if left % new[axis] != 0 {
                return Err(Error::NotReshapable);
            }
            strides[axis] = step;
            left /= new[axis];
            // At the end of a run the next step is not used, and might be out of range.
            step = step.wrapping_mul(new[axis]);
        }
        Ok(Slice::new(Dims::own(new, strides), 0))
    }

    /// Any layout of elements in C order, from the first on.
    pub(crate) fn as_strided(&self, shape: &[usize], strides: &[isize]) -> Result<Slice> {
        if !is_c_contiguous(self.shape(), self.strides()) {
            return Err(Error::NotContiguous);
        }
        let (dims, measure) = Dims::checked(shape, strides)?;
        let owner = element_count(self.shape())?;
        if measure.count != 0 {
            let ElementExtent { lowest, highest } = measure.extent.ok_or(Error::TooLarge)?;
            if lowest < 0 || highest >= owner as i64 {
                return Err(Error::OutOfBounds { lowest, highest, owner });
            }
        }
        Ok(Slice::new(dims, 0))
    }

    /// A larger shape that repeats axes of extent 1 and adds repeated axes in front.
    pub(crate) fn broadcast_to(&self, shape: &[usize]) -> Result<Slice> {
        let new = extents(shape)?;
        element_count(&new)?;
        let ndim = self.ndim();
        let Some(in_front) = new.len().checked_sub(ndim) else {
            return Err(Error::AxisCount { given: new.len(), ndim });
        };
        let mut strides: Numbers = new.iter().map(|_| 0).collect();
        for (axis, (extent, stride)) in self.axes().enumerate() {
            let to = new[in_front + axis];
            match extent {
                _ if extent == to => strides[in_front + axis] = stride,
                1 => {}
                _ => {
                    let (expected, found) = (to as usize, extent as usize);
                    return Err(Error::Extent { axis, expected, found });
                }
            }
        }
        Ok(Slice::new(Dims::own(new, strides), 0))
    }
}

impl Slice {
    fn new(dims: Dims<'static>, offset: i64) -> Self {
        let empty = dims.shape().contains(&0);
        Self { offset: if empty { 0 } else { offset as isize }, dims }
    }
}

fn extents(shape: &[usize]) -> Result<Numbers> {
    if shape.len() > MAX_NDIM {
        return Err(Error::InvalidNdim { ndim: shape.len() as i64 });
    }
    Numbers::checked(shape)
}
