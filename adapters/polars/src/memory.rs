//! Buffers into tensors and tensors into buffers: the only place where ownership of memory changes.

use std::slice;

use dlbridge::{Access, Error as TensorError, RawParts, Tensor, TensorSlice};
use polars_buffer::Buffer;

use crate::Result;
use crate::number::Number;

/// The owner of a tensor that was made of a buffer. It is private, so code that finds one in a tensor knows that it
/// has all elements of the tensor.
enum Memory<T> {
    /// The only handle on its memory.
    Unique(Vec<T>),
    /// Other handles may read the memory.
    Shared(Buffer<T>),
}

/// A tensor of one dimension; exclusive if no other handle has the buffer.
pub(crate) fn to_tensor<T: Number>(buffer: Buffer<T>) -> Tensor {
    if buffer.is_empty() {
        // polars-buffer 0.55.2 shares one empty buffer, and its `into_mut` would make a mutable reference to a
        // static.
        return from_vec(Vec::<T>::new());
    }
    to_tensor_of(buffer.into_mut().either(Memory::Shared, Memory::Unique))
}

/// The elements of a vector as a tensor of one dimension, which can become a buffer again.
pub(crate) fn from_vec<T: Number>(elements: Vec<T>) -> Tensor {
    to_tensor_of(Memory::Unique(elements))
}

fn to_tensor_of<T: Number>(mut memory: Memory<T>) -> Tensor {
    let (data, len, access) = match &mut memory {
        Memory::Unique(unique) => (unique.as_mut_ptr(), unique.len(), Access::Exclusive),
        Memory::Shared(shared) => (shared.as_ptr().cast_mut(), shared.len(), Access::Immutable),
    };
    let parts = RawParts::of_elements::<T::Element>(data.cast(), access);
    // SAFETY: `len` is the length of the vector or buffer, whose elements stay where they are when its handle moves.
    // No code writes a shared buffer while a handle on it lives (Immutable). No other handle has a unique one, and
    // any bytes are valid elements (Exclusive).
    let tensor = unsafe { Tensor::from_raw_parts(memory, parts, &[len], None::<&[i64]>) };
    tensor.expect("memory that exists has a size that fits")
}

/// Elements of a tensor that `check_stable` accepted, as Polars' type.
struct Kept<T: Number>(TensorSlice<T::Element>);

impl<T: Number> AsRef<[T]> for Kept<T> {
    fn as_ref(&self) -> &[T] {
        // SAFETY: `Number`: the same elements, except for a transparent wrapper. No code writes them until the tensor
        // is dropped: it is exclusive, and this is its only holder, which does not write (Exclusive); or it is
        // immutable (Immutable).
        unsafe { slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len()) }
    }
}

/// The elements of a tensor, which must be contiguous in C order.
pub(crate) fn to_buffer<T: Number>(tensor: Tensor) -> Result<Buffer<T>> {
    // Checks dtype, device, alignment and order.
    let view = tensor.view::<T::Element>()?;
    let len = view.as_slice().ok_or(TensorError::NotContiguous)?.len();
    let first = tensor.data().addr();
    if len == 0 {
        return Ok(Buffer::new());
    }
    let tensor = match whole::<T>(tensor) {
        Ok(whole) => {
            let start = index_of(first, &whole)?;
            return Ok(whole.sliced(start..start + len));
        }
        Err(tensor) => tensor,
    };
    tensor.check_stable()?;
    Ok(Buffer::from_owner(Kept::<T>(TensorSlice::try_from(tensor)?)))
}

/// Returns the buffer that a tensor was made of, with all its elements.
pub(crate) fn whole<T: Number>(tensor: Tensor) -> std::result::Result<Buffer<T>, Tensor> {
    Ok(match tensor.try_into_owner::<Memory<T>>()? {
        Memory::Unique(unique) => Buffer::from_vec(unique),
        Memory::Shared(shared) => shared,
    })
}

/// The index of the element at an address within a buffer.
pub(crate) fn index_of<T>(address: usize, buffer: &Buffer<T>) -> Result<usize> {
    let (bytes, size) = (address - buffer.as_ptr().addr(), size_of::<T>());
    match bytes % size {
        0 => Ok(bytes / size),
        // Numbers that need less alignment than their size may begin between two elements.
        _ => Err(TensorError::Misaligned { address, required: size }.into()),
    }
}
