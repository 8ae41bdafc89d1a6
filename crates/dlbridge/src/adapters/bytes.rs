//! bytes 1: `Bytes` and `BytesMut` out as owners; `Bytes` over the tensor itself.

use alloc::sync::Arc;
use bytes::{Bytes, BytesMut};
use core::ptr;

use crate::{Access, Error, Owner, Result, Tensor, TensorRef};

// SAFETY: a handle on memory that stays where it is while any handle lives, and that nobody writes.
unsafe impl Owner for Bytes {
    type Item = u8;
    const ACCESS: Access = Access::Immutable;

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

/// A second handle on the `Bytes` that a tensor was shared from. A handle on the tensor would make a chain in a loop.
fn shared_handle(tensor: &Tensor) -> Option<Bytes> {
    let source = tensor.managed().owner::<Arc<Tensor>>()?;
    let is_read_only = tensor.is_read_only() && source.is_read_only();
    source.managed().owner::<Bytes>().filter(|_| is_read_only).cloned()
}

/// The bytes of all elements, of any dtype, adjacent in C order. The tensor lives as long as the
/// last handle; if it was made of `Bytes`, those come back.
///
/// Errors are those of [`TensorRef::as_bytes`], and of [`Tensor::check_stable`] unless the tensor was made of
/// `Bytes`: a clone of `Bytes` gives its slice to any thread at any time. The tensor is dropped then.
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
            Err(tensor) => {
                if len != 0 {
                    tensor.check_stable()?;
                }
                let part = |whole: Self| {
                    let start = address.checked_sub(whole.as_ptr().addr())?;
                    (start.checked_add(len)? <= whole.len())
                        .then(|| whole.slice(start..start + len))
                };
                let known = shared_handle(&tensor).filter(|_| len != 0).and_then(part);
                Ok(known.unwrap_or_else(|| Self::from_owner(TensorBytes(tensor))))
            }
        }
    }
}
