//! Copies of several tensors into one, one after the other.

use alloc::vec::Vec;

use super::blocks::Blocks;
use super::strided::{self, Layouts};
use crate::block::{RawParts, Undescribed};
use crate::memory::AlignedBytes;
use crate::{Access, Error, Result, Tensor, TensorRef, layout};

impl TensorRef<'_> {
    /// Copies tensors to new memory, one after the other along the first axis, in C order, with the first element at a
    /// multiple of `alignment` bytes. The copy is exclusive.
    ///
    /// It calls `go_on` after each tensor, and within a tensor after about every 64 MiB. It returns
    /// `None` as soon as `go_on` returns false.
    ///
    /// # Errors
    /// [`Error::DataType`], [`Error::Ndim`] or [`Error::Extent`] where a tensor differs from the first one in more than
    /// the first extent; [`Error::Ndim`] for tensors without an axis; [`Error::NotHostAccessible`];
    /// [`Error::SubbytePacked`] for packed elements; [`Error::TooLarge`] and [`Error::OutOfMemory`] if the memory
    /// cannot be allocated.
    ///
    /// # Panics
    /// If there is no tensor, or if the alignment is not a power of two.
    ///
    /// ```
    /// use dlbridge::TensorRef;
    ///
    /// let chunks = [TensorRef::from(&[1, 2]), TensorRef::from(&[3])];
    /// let whole = TensorRef::concatenate_while(&chunks, 64, || true)?.unwrap();
    /// assert_eq!(whole.view::<i32>()?.as_slice(), Some(&[1, 2, 3][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn concatenate_while(
        tensors: &[Self],
        alignment: usize,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Option<Tensor>> {
        assert!(alignment.is_power_of_two(), "cannot align to {alignment}");
        let first = tensors.first().expect("there is a tensor to copy");
        let mut rows = 0_i64;
        for tensor in tensors {
            rows = rows.checked_add(check(first, tensor)?).ok_or(Error::TooLarge)?;
        }
        let mut shape: Vec<i64> = first.shape().to_vec();
        shape[0] = rows;
        let (dtype, itemsize) = (first.dtype(), first.dtype().itemsize());
        let elements = tensors.iter().try_fold(0_usize, |sum, next| sum.checked_add(next.len()));
        let bytes = layout::byte_count(elements.ok_or(Error::TooLarge)?, dtype, true);
        let bytes = usize::try_from(bytes).map_err(|_| Error::TooLarge)?;
        let mut memory = AlignedBytes::for_copy(bytes, alignment)?;
        let mut to = memory.as_mut_ptr();
        let parts = RawParts {
            access: Access::Exclusive,
            subbyte_padded: first.is_subbyte_padded(),
            ..RawParts::new(to.cast(), dtype)
        };
        let mut copy = Undescribed::new(memory, shape.len());
        let elements = copy.set_dims(&shape, None::<&[i64]>)?;
        for tensor in tensors.iter().filter(|tensor| !tensor.is_empty()) {
            let from = tensor.data().cast::<u8>().cast_const();
            let (shape, strides) = (tensor.shape(), tensor.strides());
            let layouts = Layouts { shape, from: strides, to: copy.strides(), itemsize };
            // SAFETY: Ref of the source, which has elements. The target is new memory with room for the elements of all
            // tensors. Its strides are those of C order for each tensor too, because they do not depend on the first
            // extent. So the elements of this tensor are contiguous from `to` on, behind those of the tensors before.
            let done = unsafe {
                strided::copy_strided_while(from, to, &layouts, &mut Blocks::stopped_by(&mut go_on))
            };
            if !done || !go_on() {
                return Ok(None);
            }
            to = to.wrapping_add(tensor.len() * itemsize);
        }
        // SAFETY: new memory, written in full above: the tensors together have as many elements as the shape, because
        // all extents except the first are equal. No other code has its address, and the owner frees it.
        unsafe { copy.describe(&parts, elements, None) }
            .map(|copy| Some(Tensor::from_managed(copy)))
    }
}

/// Checks that a tensor can be copied behind the first one; returns its first extent.
fn check(first: &TensorRef<'_>, tensor: &TensorRef<'_>) -> Result<i64> {
    let (expected, found) = (first.dtype(), tensor.dtype());
    if found != expected {
        return Err(Error::DataType { expected, found });
    }
    tensor.check_host_accessible()?;
    if tensor.is_subbyte_packed() {
        return Err(Error::SubbytePacked { dtype: found });
    }
    let Some(&rows) = tensor.shape().first() else {
        return Err(Error::Ndim { expected: 1, found: 0 });
    };
    if first.ndim() != tensor.ndim() {
        return Err(Error::Ndim { expected: first.ndim(), found: tensor.ndim() });
    }
    for axis in 1..tensor.ndim() {
        let (expected, found) = (first.shape()[axis], tensor.shape()[axis]);
        if expected != found {
            let (expected, found) = (expected as usize, found as usize);
            return Err(Error::Extent { axis, expected, found });
        }
    }
    Ok(rows)
}
