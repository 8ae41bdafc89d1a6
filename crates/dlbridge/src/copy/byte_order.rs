//! Numbers of the other byte order, which DLPack cannot express.

use core::slice;

use crate::layout::Offsets;
use crate::tensor_ref::TensorRef;
use crate::tensor_ref::TensorRefMut;
use crate::threads::{self, Place};
use crate::{Error, Result};

/// The size of each number of a tensor in bytes.
pub(crate) fn number(tensor: &TensorRef<'_>) -> Result<usize> {
    let dtype = tensor.dtype();
    dtype.number_size().ok_or(Error::NoByteOrder { dtype })
}

impl TensorRefMut<'_> {
    /// Reverses the bytes of each number in place: of each lane, and of each half of a complex number. For data of the
    /// other byte order, which DLPack cannot express.
    ///
    /// # Errors
    /// [`Error::NotHostAccessible`]; [`Error::NoByteOrder`] if numbers are not whole bytes.
    ///
    /// ```
    /// let mut values = [0x0102_u16, 0x0304];
    /// dlbridge::TensorRefMut::from(&mut values).swap_bytes()?;
    /// assert_eq!(values, [0x0201, 0x0403]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn swap_bytes(self) -> Result<()> {
        let tensor = self.as_tensor_ref();
        tensor.check_host_accessible()?;
        let number = number(&tensor)?;
        if number == 1 || tensor.is_empty() {
            return Ok(());
        }
        let (first, itemsize) = (Place(tensor.data().cast()), tensor.dtype().itemsize());
        if tensor.is_c_contiguous() {
            let (len, bytes) = (tensor.len(), tensor.len() * itemsize);
            threads::split(len, threads::parts(bytes), 4096, &|begin, end| {
                let (first, bytes) = (first.at(begin * itemsize), (end - begin) * itemsize);
                // SAFETY: Ref: elements of a mutable tensor, whose bytes no other code reads or writes; other threads
                // have other elements.
                reverse_each(unsafe { slice::from_raw_parts_mut(first, bytes) }, number);
            });
        } else {
            Offsets::new(tensor.dims()).for_each(|offset| {
                let element = first.0.wrapping_offset(offset * itemsize as isize);
                // SAFETY: Ref: an element of a mutable tensor, whose bytes no other code reads or writes; one slice
                // exists at a time.
                reverse_each(unsafe { slice::from_raw_parts_mut(element, itemsize) }, number);
            });
        }
        Ok(())
    }
}

/// Reverses each `number` bytes; common sizes take one instruction.
pub(crate) fn reverse_each(bytes: &mut [u8], number: usize) {
    match number {
        2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|n| n.reverse()),
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|n| n.reverse()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|n| n.reverse()),
        _ => bytes.chunks_exact_mut(number).for_each(<[u8]>::reverse),
    }
}
