//! bytes 1: `Bytes` and `BytesMut` out as owners; `Bytes` over the tensor itself.

use bytes::{Bytes, BytesMut};
use core::ptr;

use crate::{Access, Error, Owner, Result, Tensor, TensorRef};

// SAFETY: a handle on memory that stays where it is while any handle lives, and that nobody writes.
unsafe impl Owner for Bytes {
    type Item = u8;
    const ACCESS: Access = Access::ReadOnly;

    fn items(&mut self) -> *mut [u8] {
        ptr::slice_from_raw_parts_mut(self.as_ptr().cast_mut(), self.len())
    }
}

// SAFETY: the one handle on these bytes, which stay where they are when it moves.
unsafe impl Owner for BytesMut {
    type Item = u8;
    const ACCESS: Access = Access::Exclusive;

    fn items(&mut self) -> *mut [u8] {
        ptr::slice_from_raw_parts_mut(self.as_mut_ptr(), self.len())
    }
}

/// The shape is the number of bytes. Read-only.
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

/// The bytes of all elements, of any dtype, adjacent in C order. The tensor lives as long as the
/// last handle; if it was made of `Bytes`, those come back.
///
/// Errors are those of [`TensorRef::as_bytes`]. The tensor is dropped then.
impl TryFrom<Tensor> for Bytes {
    type Error = Error;

    fn try_from(tensor: Tensor) -> Result<Self> {
        let part = TensorRef::from(&tensor).as_bytes()?;
        let (address, len) = (part.as_ptr().addr(), part.len());
        match tensor.try_into_owner::<Self>() {
            // The tensor may be a part of what it was made of.
            Ok(whole) if len == 0 => Ok(whole.slice(..0)),
            Ok(whole) => {
                let start = address - whole.as_ptr().addr();
                Ok(whole.slice(start..start + len))
            }
            Err(tensor) => Ok(Self::from_owner(TensorBytes(tensor))),
        }
    }
}
