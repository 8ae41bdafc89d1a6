//! The place and layout of an array's elements.

use std::ffi::c_int;

use pyo3::prelude::*;

use super::api::C_CONTIGUOUS;
use super::array::{FEW, NumpyArray};

/// Everything that the entries of an array in rust-numpy's registry depend on.
#[derive(Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) data: usize,
    pub(crate) itemsize: usize,
    /// The address of the object that keeps the memory, behind all arrays that are views of it.
    pub(crate) root: usize,
    /// The address of NumPy's description of the dtype, which lives as long as the process.
    pub(crate) descr: usize,
    flags: c_int,
    ndim: usize,
    /// The extents, then the byte strides.
    axes: [[isize; FEW]; 2],
}

impl Geometry {
    pub(crate) const EMPTY: Self =
        Self { data: 0, itemsize: 0, root: 0, descr: 0, flags: 0, ndim: 0, axes: [[0; FEW]; 2] };

    /// The geometry of an array; `None` unless the array is of exactly NumPy's class, has one of NumPy's own dtypes
    /// that DLPack has, and has few dimensions.
    pub(crate) fn of(array: &Bound<'_, PyAny>) -> Option<Self> {
        let mut geometry = Self::EMPTY;
        geometry.read(array).then_some(geometry)
    }

    /// Reads the geometry of an array; false where [`of`](Self::of) returns `None`.
    #[inline]
    pub(crate) fn read(&mut self, array: &Bound<'_, PyAny>) -> bool {
        let Some((numpy, head)) = NumpyArray::known(array) else { return false };
        let (data, ndim, descr, flags) = (head.data(), head.ndim(), head.descr(), head.flags());
        let Some(dtype) = numpy.dtype(head) else { return false };
        if ndim > FEW {
            return false;
        }
        let Some(root) = numpy.root(head) else { return false };
        let [extents, strides] = &mut self.axes;
        for ((to_extent, to_stride), axis) in extents.iter_mut().zip(strides).zip(head.axes()) {
            (*to_extent, *to_stride) = axis;
        }
        self.data = data.addr();
        self.itemsize = dtype.itemsize();
        (self.root, self.descr, self.flags, self.ndim) = (root, descr, flags, ndim);
        true
    }

    pub(crate) fn extents(&self) -> &[isize] {
        &self.axes[0][..self.ndim]
    }

    pub(crate) fn byte_strides(&self) -> &[isize] {
        &self.axes[1][..self.ndim]
    }

    /// Returns true for non-empty elements that are contiguous in C order.
    pub(crate) fn is_run(&self) -> bool {
        self.flags & C_CONTIGUOUS != 0 && !self.extents().contains(&0)
    }

    /// Returns true if the array still has this geometry, so that rust-numpy's registry finds it under the same key.
    #[inline]
    pub(crate) fn is_of(&self, array: &Bound<'_, PyAny>) -> bool {
        let Some((numpy, head)) = NumpyArray::known(array) else { return false };
        let [extents, strides] = &self.axes;
        (head.data().addr(), head.descr()) == (self.data, self.descr)
            && head.ndim() == self.ndim
            && extents
                .iter()
                .zip(strides)
                .zip(head.axes())
                .all(|((&extent, &stride), now)| now == (extent, stride))
            && numpy.root(head) == Some(self.root)
    }
}
