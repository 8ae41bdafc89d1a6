//! bytes 1: `Bytes` and `BytesMut` as owners; a tensor as `Bytes`, without a copy.

use bytes::{Bytes, BytesMut};
use core::ptr;

use crate::{Access, ArcTensor, Error, Owner, Result, Tensor, TensorRef};

// SAFETY: a handle on memory that does not move while any handle lives, and that no code writes.
unsafe impl Owner for Bytes {
    type Item = u8;
    const ACCESS: Access = Access::Immutable;

    fn items(&mut self) -> *mut [u8] {
        ptr::slice_from_raw_parts_mut(self.as_ptr().cast_mut(), self.len())
    }
}

// SAFETY: the only handle on these bytes, which keep their address when the handle moves.
unsafe impl Owner for BytesMut {
    type Item = u8;
    const ACCESS: Access = Access::Exclusive;

    fn items(&mut self) -> *mut [u8] {
        ptr::slice_from_raw_parts_mut(self.as_mut_ptr(), self.len())
    }
}

/// The shape is the number of bytes. Immutable.
impl From<Bytes> for Tensor {
    fn from(bytes: Bytes) -> Self {
        Self::from_whole(bytes)
    }
}

/// The shape is the number of bytes. Exclusive.
impl From<BytesMut> for Tensor {
    fn from(bytes: BytesMut) -> Self {
        Self::from_whole(bytes)
    }
}

/// A tensor as the bytes of its elements.
struct TensorBytes(Tensor);

impl AsRef<[u8]> for TensorBytes {
    fn as_ref(&self) -> &[u8] {
        TensorRef::from(&self.0).as_bytes().expect("checked before, and the tensor did not change")
    }
}

/// A second handle on the `Bytes` that the tensor was made from. A handle on the tensor instead would lengthen the
/// chain of owners on each round trip.
fn shared_handle(tensor: &Tensor) -> Option<Bytes> {
    let source = tensor.managed().owner::<ArcTensor>()?;
    let is_read_only = tensor.is_read_only() && source.is_read_only();
    source.managed().owner::<Bytes>().filter(|_| is_read_only).cloned()
}

/// The bytes of all elements, of any dtype, contiguous in C order. The tensor lives as long as the last handle. A
/// tensor made of `Bytes` returns those `Bytes`, or a slice of them.
///
/// Errors are those of [`TensorRef::as_bytes`], and of [`Tensor::check_stable`] unless the tensor was made of
/// `Bytes`: a clone of `Bytes` gives its slice to any thread at any time. The tensor is dropped then.
impl TryFrom<Tensor> for Bytes {
    type Error = Error;

    fn try_from(tensor: Tensor) -> Result<Self> {
        let part = TensorRef::from(&tensor).as_bytes()?;
        let (address, len) = (part.as_ptr().addr(), part.len());
        // The tensor may be a slice of the original bytes, or be elsewhere in memory that these keep.
        let place = |whole: &Self| {
            if len == 0 {
                return Some(0..0);
            }
            let start = address.checked_sub(whole.as_ptr().addr())?;
            Some(start..start.checked_add(len).filter(|&end| end <= whole.len())?)
        };
        let own = tensor.managed().owner::<Self>().and_then(place);
        let tensor = match own {
            None => tensor,
            Some(place) => match tensor.try_into_owner::<Self>() {
                Ok(whole) => return Ok(whole.slice(place)),
                Err(tensor) => tensor,
            },
        };
        if len != 0 {
            tensor.check_stable()?;
        }
        let known = shared_handle(&tensor).filter(|_| len != 0);
        let known = known.and_then(|whole| place(&whole).map(|place| whole.slice(place)));
        Ok(known.unwrap_or_else(|| Self::from_owner(TensorBytes(tensor))))
    }
}
