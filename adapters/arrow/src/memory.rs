//! Buffers into tensors and tensors into buffers: the only place where ownership of memory changes.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::{Buffer, MutableBuffer};
use dlbridge::{Access, DataType, Error as TensorError, RawParts, Tensor, TensorRef};

use crate::Result;

/// The owner of a tensor that was made of a buffer. It is private, so code that finds one in a tensor knows that the
/// buffer has all elements of the tensor.
enum Memory {
    /// The only handle on its memory.
    Unique(MutableBuffer),
    /// Other handles may read the memory.
    Shared(Buffer),
}

/// A tensor in C order over the first elements of a buffer; exclusive if no other handle has the buffer.
pub(crate) fn to_tensor(buffer: Buffer, dtype: DataType, shape: &[usize]) -> Result<Tensor> {
    let elements =
        shape.iter().try_fold(1_u128, |product, &extent| product.checked_mul(extent as u128));
    let needed = elements.and_then(|elements| elements.checked_mul(dtype.itemsize() as u128));
    match needed {
        Some(needed) if needed <= buffer.len() as u128 => {}
        Some(needed) => {
            return Err(TensorError::ByteCount { needed, available: buffer.len() }.into());
        }
        None => return Err(TensorError::TooLarge.into()),
    }
    let (memory, data, access) = match buffer.into_mutable() {
        Ok(mut unique) => {
            let data = unique.as_mut_ptr();
            (Memory::Unique(unique), data, Access::Exclusive)
        }
        Err(shared) => {
            let data = shared.as_ptr().cast_mut();
            (Memory::Shared(shared), data, Access::Immutable)
        }
    };
    let parts = RawParts { access, ..RawParts::new(data.cast(), dtype) };
    // SAFETY: the elements are within the buffer, whose bytes are all initialised, and which stays where it is when
    // its handle moves. No code writes a shared buffer while a handle on it lives (Immutable). A unique buffer is
    // reached through this handle alone, and any bytes are valid elements (Exclusive).
    Ok(unsafe { Tensor::from_raw_parts(memory, parts, shape, None::<&[i64]>) }?)
}

/// A tensor that an Arrow buffer keeps alive.
pub(crate) struct Kept {
    _tensor: Tensor,
}

/// Buffers over memory that one tensor owns.
pub(crate) enum Source {
    /// The buffer that the tensor was made of, and the address of the tensor's first element.
    Whole(Buffer, usize),
    /// The tensor, and the address of its first element.
    Kept(Arc<Kept>, NonNull<u8>),
}

impl Source {
    /// Takes the memory of a tensor whose elements the CPU can read.
    pub(crate) fn of(tensor: Tensor) -> Result<Self> {
        let first = tensor.data().cast::<u8>();
        let tensor = match tensor.try_into_owner::<Memory>() {
            Ok(Memory::Unique(unique)) => return Ok(Self::Whole(unique.into(), first.addr())),
            Ok(Memory::Shared(shared)) => return Ok(Self::Whole(shared, first.addr())),
            Err(tensor) => tensor,
        };
        tensor.check_stable()?;
        let first = NonNull::new(first).ok_or(TensorError::NullPointer { field: "the data" })?;
        Ok(Self::Kept(Arc::new(Kept { _tensor: tensor }), first))
    }

    /// Returns `len` bytes, from `offset` bytes after the first element.
    ///
    /// # Safety
    /// The bytes belong to elements of the tensor, and the CPU can read them.
    pub(crate) unsafe fn buffer(&self, offset: isize, len: usize) -> Buffer {
        match self {
            Self::Whole(whole, first) => {
                let start = first.wrapping_add_signed(offset) - whole.as_ptr().addr();
                whole.slice_with_length(start, len)
            }
            Self::Kept(kept, first) => {
                // SAFETY: the caller guarantees that the bytes belong to the tensor's elements, in the allocation of
                // `first`. These bytes are initialised and valid until the tensor is dropped, which the buffer does
                // with its last handle. Nothing writes them until then: `check_stable` found the tensor exclusive, so
                // that `Kept` is the only holder and does not write (Exclusive), or immutable (Immutable).
                unsafe { Buffer::from_custom_allocation(first.offset(offset), len, kept.clone()) }
            }
        }
    }
}

/// The bytes of a tensor's elements, which must be contiguous in C order.
pub(crate) fn to_buffer(tensor: Tensor) -> Result<Buffer> {
    let len = TensorRef::from(&tensor).as_bytes()?.len();
    if len == 0 {
        return Ok(empty());
    }
    // SAFETY: `as_bytes` checked that these are the bytes of the elements, and that the CPU can read them.
    Ok(unsafe { Source::of(tensor)?.buffer(0, len) })
}

/// An empty buffer, aligned for every type of Arrow.
pub(crate) fn empty() -> Buffer {
    Buffer::from_vec(Vec::<u128>::new())
}
