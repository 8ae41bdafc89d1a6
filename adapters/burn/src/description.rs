//! The description of a tensor, kept while its owner is taken out.

use std::ops::Range;

use burn_flex::{FlexTensor, Layout};
use burn_std::{DType, Reader, Shape};
use dlbridge::{Access, RawParts, Tensor, TensorRef};

use crate::kind;

/// The dtype, layout and address of a tensor whose owner is taken out.
pub(crate) struct Description {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    strides: Vec<isize>,
    parts: RawParts,
    bounds: Range<isize>,
}

impl Description {
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

    /// Returns whether each byte from the lowest to the highest belongs to an element: taken by rising stride, each
    /// dimension must begin at or before the end of those before it. Layouts that interleave in other ways count as
    /// having gaps.
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

    /// Returns the layout of the elements in some bytes, if the bytes have all of them, at whole elements.
    pub(crate) fn layout_in(&self, bytes: &[u8]) -> Option<Layout> {
        let itemsize = self.parts.dtype.itemsize();
        let first = self.first_in(bytes)?;
        let start = usize::try_from(first).ok().filter(|first| first % itemsize == 0)? / itemsize;
        Some(Layout::new(Shape::from(self.shape.clone()), self.strides.clone(), start))
    }

    /// Returns the offset of the first element in some bytes, if the bytes have all elements.
    fn first_in(&self, bytes: &[u8]) -> Option<isize> {
        let first = self.parts.data.addr().checked_signed_diff(bytes.as_ptr().addr())?;
        let (lowest, end) =
            (first.checked_add(self.bounds.start)?, first.checked_add(self.bounds.end)?);
        (lowest >= 0 && end as usize <= bytes.len()).then_some(first)
    }

    /// Returns whether the elements are in some bytes.
    pub(crate) fn is_within(&self, bytes: &[u8]) -> bool {
        self.first_in(bytes).is_some()
    }

    /// Returns whether the elements are in a tensor of burn, of any dtype.
    pub(crate) fn is_within_tensor(&self, whole: &FlexTensor) -> bool {
        whole.data_arc().read(Reader::new()).is_ok_and(|bytes| self.is_within(bytes))
    }

    /// Returns the layout within a tensor of burn, if it has the same dtype and all elements.
    pub(crate) fn layout_of(&self, whole: &FlexTensor) -> Option<Layout> {
        let found = kind::to_dlpack(whole.dtype()).ok()?;
        let bytes = whole.data_arc();
        if found == self.parts.dtype {
            self.layout_in(bytes.read(Reader::new()).ok()?)
        } else {
            None
        }
    }

    /// Makes the tensor again from the owner that was taken out of it. If the elements are `within` the owner, nothing
    /// writes them; elsewhere the access of the tensor says whether other code does.
    ///
    /// # Safety
    /// `owner` was taken out of that tensor, and keeps the elements. If they are `within` it, nothing writes them until
    /// it is dropped.
    pub(crate) unsafe fn again<O: Send + 'static>(
        &self,
        owner: O,
        within: bool,
    ) -> dlbridge::Result<Tensor> {
        let strides = Some(&*self.strides);
        let access = match self.parts.access {
            Access::Shared | Access::ReadOnly if within => Access::Immutable,
            access => access,
        };
        let parts = RawParts { access, ..self.parts };
        // SAFETY: the parts and the layout are those of the tensor that the caller took the owner out of. The caller
        // guarantees that the owner keeps the elements, and that nothing writes those within it meanwhile; for
        // others `access` is that of the tensor.
        unsafe { Tensor::from_raw_parts(owner, parts, &self.shape, strides) }
    }
}

pub(crate) fn extents(shape: &[i64]) -> Vec<usize> {
    shape.iter().map(|&extent| extent as usize).collect()
}
