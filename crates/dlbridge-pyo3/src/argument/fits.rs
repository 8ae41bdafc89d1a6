//! Compares a tensor with the demands of an argument, one property at a time.

use dlbridge::{DataType, DeviceType, TensorRef};

use super::spec::ArgumentSpec;

impl ArgumentSpec {
    #[inline(always)]
    pub(super) fn fits_dtype(&self, dtype: DataType) -> bool {
        self.dtypes.is_empty() || self.dtypes.contains(&dtype)
    }

    #[inline(always)]
    pub(super) fn fits_device(&self, device_type: DeviceType) -> bool {
        let devices = self.devices;
        self.place.has(device_type) && (devices.is_empty() || devices.contains(&device_type))
    }

    #[inline(always)]
    pub(super) fn fits_order(&self, tensor: &TensorRef<'_>) -> bool {
        self.order.fits(tensor)
    }

    /// The alignment of an element in bytes, a power of two.
    #[inline(always)]
    pub(super) fn align(&self, dtype: DataType) -> usize {
        self.align.max((self.alignment)(dtype))
    }

    /// The alignment of an address in bytes, if it is too small; else `None`.
    #[inline(always)]
    pub(super) fn misaligned(&self, address: usize, dtype: DataType) -> Option<usize> {
        let align = self.align(dtype);
        (address & (align - 1) != 0).then_some(address & address.wrapping_neg())
    }

    /// Returns true if the number of dimensions and the extents fit.
    #[inline(always)]
    pub(super) fn fits_extents(&self, shape: &[i64]) -> bool {
        let dims = self.dims;
        let fits = |(&extent, dim): (&i64, &Option<usize>)| {
            dim.is_none_or(|dim| usize::try_from(extent) == Ok(dim))
        };
        self.ndim.is_none_or(|ndim| ndim == shape.len())
            && (dims.is_empty() || dims.len() == shape.len())
            && shape.iter().zip(dims).all(fits)
    }

    /// Returns true if the number and the lengths of nested lists fit.
    pub(super) fn fits_lengths(&self, shape: &[usize]) -> bool {
        let dims = self.dims;
        self.ndim.is_none_or(|ndim| ndim == shape.len())
            && (dims.is_empty() || dims.len() == shape.len())
            && shape.iter().zip(dims).all(|(extent, dim)| dim.is_none_or(|dim| dim == *extent))
    }
}
