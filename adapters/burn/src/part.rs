//! Which elements a tensor is, kept while its owner is taken out.

use std::ops::Range;

use burn_flex::{FlexTensor, Layout};
use burn_std::{DType, Reader, Shape};
use dlbridge::{Access, RawParts, Tensor, TensorRef};

use crate::dtype;

pub(crate) struct Part {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    strides: Vec<isize>,
    parts: RawParts,
    bounds: Range<isize>,
}

impl Part {
    pub(crate) fn of(tensor: &Tensor, dtype: DType) -> Self {
        Self {
            dtype,
            shape: extents(tensor.shape()),
            strides: tensor.strides().iter().map(|&stride| stride as isize).collect(),
            parts: RawParts {
                device: tensor.device(),
                byte_offset: tensor.byte_offset(),
                access: tensor.access(),
                ..RawParts::new(tensor.data(), tensor.dtype())
            },
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

    /// The part as a layout of elements in some bytes, if all of it is there, at whole elements.
    pub(crate) fn layout_in(&self, bytes: &[u8]) -> Option<Layout> {
        let itemsize = self.parts.dtype.itemsize();
        let first = self.parts.data.addr().checked_signed_diff(bytes.as_ptr().addr())?;
        let (lowest, end) =
            (first.checked_add(self.bounds.start)?, first.checked_add(self.bounds.end)?);
        let is_within = lowest >= 0 && end as usize <= bytes.len();
        let start = usize::try_from(first).ok().filter(|first| first % itemsize == 0)? / itemsize;
        let shape = Shape::from(self.shape.clone());
        is_within.then(|| Layout::new(shape, self.strides.clone(), start))
    }

    /// The part as a layout of a tensor of burn, if all of it is there, of the same dtype.
    pub(crate) fn layout_of(&self, whole: &FlexTensor) -> Option<Layout> {
        let found = dtype::to_dlpack(whole.dtype()).ok()?;
        let bytes = whole.data_arc();
        if found == self.parts.dtype {
            self.layout_in(bytes.read(Reader::new()).ok()?)
        } else {
            None
        }
    }

    /// Makes the tensor again from the owner that was taken out of it.
    ///
    /// # Safety
    /// `owner` was taken out of that tensor, and keeps the elements; nothing writes them until it is dropped.
    pub(crate) unsafe fn again<O: Send + 'static>(&self, owner: O) -> dlbridge::Result<Tensor> {
        let strides = Some(&*self.strides);
        let access = match self.parts.access {
            Access::Exclusive => Access::Exclusive,
            Access::Shared | Access::ReadOnly | Access::Immutable => Access::Immutable,
        };
        let parts = RawParts { access, ..self.parts };
        // SAFETY: the parts and the layout are those of the tensor that the caller took the owner out of. The caller guarantees
        // that the owner keeps the elements, and that nothing writes them meanwhile, which is what `access` declares.
        unsafe { Tensor::from_raw_parts(owner, parts, &self.shape, strides) }
    }
}

pub(crate) fn extents(shape: &[i64]) -> Vec<usize> {
    shape.iter().map(|&extent| extent as usize).collect()
}
