//! The bytes that a borrow covers.

use dlbridge::{DataType, TensorRef};
use dlbridge_borrow::Region;

/// The bytes of a tensor: an address, and extents and byte strides.
pub(crate) struct Bytes<'a> {
    pub(super) address: usize,
    pub(super) item: usize,
    pub(super) shape: &'a [i64],
    pub(super) strides: Numbers,
}

/// The address of the element at index zero.
#[inline]
fn address(tensor: &TensorRef<'_>) -> usize {
    tensor.data().addr().saturating_add(tensor.byte_offset() as usize)
}

/// Byte strides: none, a few inline, or a vector.
pub(super) enum Numbers {
    None,
    Few([i64; 8]),
    Many(Vec<i64>),
}

impl<'a> Bytes<'a> {
    /// The bytes of contiguous elements of whole bytes.
    #[inline(always)]
    pub(crate) fn run(tensor: &TensorRef<'_>, dtype: DataType) -> Self {
        let (address, item) = (address(tensor), tensor.len() * dtype.itemsize());
        Self { address, item, shape: &[], strides: Numbers::None }
    }

    /// All bytes from the lowest to the highest of a tensor with elements.
    #[inline]
    pub(super) fn hull(tensor: &TensorRef<'_>) -> Self {
        if tensor.is_c_contiguous() && !tensor.dtype().is_subbyte() {
            return Self::run(tensor, tensor.dtype());
        }
        let bounds = tensor.byte_bounds();
        let address = address(tensor).saturating_add_signed(bounds.start);
        let item = bounds.end.abs_diff(bounds.start);
        Self { address, item, shape: &[], strides: Numbers::None }
    }

    pub(crate) fn of(tensor: &'a TensorRef<'_>) -> Self {
        let address = address(tensor);
        let dtype = tensor.dtype();
        let run = |address, item| Self { address, item, shape: &[], strides: Numbers::None };
        if dtype.is_subbyte() && !tensor.is_subbyte_padded() {
            // Elements share bytes: covers all bytes from the first to the last.
            let bits = i128::from(dtype.element_bits());
            let (mut lowest, mut highest) = (0_i128, bits - 1);
            for (&extent, &stride) in tensor.shape().iter().zip(tensor.strides()) {
                let reach = i128::from(extent - 1) * i128::from(stride) * bits;
                if reach < 0 { lowest += reach } else { highest += reach }
            }
            let (first, last) = (lowest.div_euclid(8), highest.div_euclid(8));
            let address = address.saturating_add_signed(first as isize);
            return run(address, (last - first + 1) as usize);
        }
        let item = dtype.itemsize();
        // The core checked that no extent overflows.
        if tensor.is_c_contiguous() {
            return run(address, tensor.len() * item);
        }
        let (shape, strides) = (tensor.shape(), tensor.strides());
        let in_bytes = |stride: &i64| stride.saturating_mul(item as i64);
        let mut few = [0; 8];
        let strides = match few.get_mut(..strides.len()) {
            Some(place) => {
                place.iter_mut().zip(strides).for_each(|(to, stride)| *to = in_bytes(stride));
                Numbers::Few(few)
            }
            None => Numbers::Many(strides.iter().map(in_bytes).collect()),
        };
        Self { address, item, shape, strides }
    }

    /// One byte stride for each extent.
    pub(super) fn strides(&self) -> &[i64] {
        match &self.strides {
            Numbers::None => &[],
            Numbers::Few(few) => &few[..self.shape.len()],
            Numbers::Many(many) => many,
        }
    }

    pub(super) fn region(&self) -> Region {
        Region::new(self.address, self.item, self.shape, self.strides())
    }
}

impl Numbers {
    pub(super) fn of(numbers: &[i64]) -> Self {
        let mut few = [0; 8];
        match few.get_mut(..numbers.len()) {
            Some(place) => {
                place.copy_from_slice(numbers);
                Self::Few(few)
            }
            None => Self::Many(numbers.to_vec()),
        }
    }
}
