//! Copying elements from any layout to any other.

#[forbid(unsafe_code)]
pub(crate) mod blocks;
mod byte_order;
mod concatenate;
mod strided;
mod vectors;

use core::slice;

use self::blocks::Blocks;
use self::strided::Layouts;

use crate::block::{Managed, RawParts, Undescribed};
use crate::layout::{self, Dims};
use crate::memory::{ALIGNMENT, AlignedBytes};
use crate::subbyte::raw as subbyte;
use crate::tensor_ref::TensorRef;
use crate::tensor_ref::TensorRefMut;
use crate::{Access, Error, Result, Tensor};

impl Tensor {
    /// Copies the tensor to new memory, in C order and aligned to 256 bytes. The copy is exclusive.
    ///
    /// # Errors
    /// [`Error::NotHostAccessible`] for data the CPU cannot read; [`Error::NotSubbyte`] for packed
    /// elements of more than 64 bits in another order than C order; [`Error::TooLarge`] and
    /// [`Error::OutOfMemory`] if the memory cannot be allocated.
    ///
    /// ```
    /// use dlbridge::{Access, Tensor};
    ///
    /// let tensor = Tensor::from(&[1_u8, 2, 3][..]);
    /// let copy = tensor.to_copy()?;
    /// assert_eq!(copy.access(), Access::Exclusive);
    /// assert_eq!(copy.data().addr() % 256, 0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn to_copy(&self) -> Result<Self> {
        TensorRef::from(self).to_copy()
    }
}

impl TensorRef<'_> {
    /// Copies the tensor to new memory, in C order and aligned to 256 bytes. The copy is exclusive.
    ///
    /// # Errors
    /// Those of [`Tensor::to_copy`].
    ///
    /// ```
    /// let columns = dlbridge::TensorRef::from(&[[1, 2], [3, 4]]).transpose();
    /// assert_eq!(columns.to_copy()?.view::<i32>()?.as_slice(), Some(&[1, 3, 2, 4][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn to_copy(&self) -> Result<Tensor> {
        self.to_aligned_copy(1)
    }

    /// Copies as [`to_copy`](TensorRef::to_copy) does, with the first element at a multiple of `alignment` bytes.
    ///
    /// # Errors
    /// Those of [`Tensor::to_copy`].
    ///
    /// # Panics
    /// If the alignment is not a power of two.
    ///
    /// ```
    /// let page = dlbridge::TensorRef::from(&[1_u8, 2]).to_aligned_copy(4096)?;
    /// assert_eq!(page.data().addr() % 4096, 0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn to_aligned_copy(&self, alignment: usize) -> Result<Tensor> {
        assert!(alignment.is_power_of_two(), "cannot align to {alignment}");
        finished(to_copy(self, alignment, &mut Blocks::one(&mut || true)))
    }

    /// Copies as [`to_aligned_copy`](TensorRef::to_aligned_copy) does, and can be stopped. It calls `go_on` after about
    /// every 64 MiB, and returns `None` as soon as `go_on` returns false. Sub-byte elements that are not contiguous are
    /// copied without a pause.
    ///
    /// # Errors
    /// Those of [`Tensor::to_copy`].
    ///
    /// # Panics
    /// If the alignment is not a power of two.
    ///
    /// ```
    /// let tensor = dlbridge::TensorRef::from(&[1, 2, 3]);
    /// // Fewer bytes than a block.
    /// assert!(tensor.to_copy_while(1, || false)?.is_some());
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn to_copy_while(
        &self,
        alignment: usize,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Option<Tensor>> {
        assert!(alignment.is_power_of_two(), "cannot align to {alignment}");
        let copy = to_copy(self, alignment, &mut Blocks::stopped_by(&mut go_on))?;
        Ok(copy.map(Tensor::from_managed))
    }

    /// Copies as [`to_copy`](TensorRef::to_copy) does, with the bytes of each number reversed: of each lane, and of
    /// each half of a complex number. For data of the other byte order, which DLPack cannot express.
    ///
    /// # Errors
    /// Those of [`Tensor::to_copy`], and [`Error::NoByteOrder`] if numbers are not whole bytes.
    ///
    /// ```
    /// let big_endian = [1_u16.to_be(), 2_u16.to_be()];
    /// let native = match cfg!(target_endian = "little") {
    ///     true => dlbridge::TensorRef::from(&big_endian).to_byte_swapped()?,
    ///     false => dlbridge::TensorRef::from(&big_endian).to_copy()?,
    /// };
    /// assert_eq!(native.view::<u16>()?.as_slice(), Some(&[1, 2][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn to_byte_swapped(&self) -> Result<Tensor> {
        finished(to_byte_swapped(self, &mut Blocks::one(&mut || true)))
    }

    /// Copies as [`to_byte_swapped`](TensorRef::to_byte_swapped) does, and can be stopped as
    /// [`to_copy_while`](TensorRef::to_copy_while) can.
    ///
    /// # Errors
    /// Those of [`to_byte_swapped`](TensorRef::to_byte_swapped).
    ///
    /// ```
    /// let big_endian = [1_u16.to_be(), 2_u16.to_be()];
    /// let swapped = dlbridge::TensorRef::from(&big_endian).to_byte_swapped_while(|| true)?.unwrap();
    /// assert_eq!(swapped.view::<u16>()?.as_slice(), Some(&[1_u16.to_le(), 2_u16.to_le()][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn to_byte_swapped_while(&self, mut go_on: impl FnMut() -> bool) -> Result<Option<Tensor>> {
        let copy = to_byte_swapped(self, &mut Blocks::stopped_by(&mut go_on))?;
        Ok(copy.map(Tensor::from_managed))
    }
}

impl TensorRefMut<'_> {
    /// Writes all elements of another tensor, index by index.
    ///
    /// # Errors
    /// [`Error::DataType`], [`Error::Ndim`] or [`Error::Extent`] where the other tensor differs;
    /// [`Error::NotHostAccessible`]; [`Error::SubbytePacked`]. Nothing has been written then.
    ///
    /// ```
    /// use dlbridge::{TensorRef, TensorRefMut};
    ///
    /// let mut values = [0_u8; 2];
    /// TensorRefMut::from(&mut values).copy_from(&TensorRef::from(&[3_u8, 4]))?;
    /// assert_eq!(values, [3, 4]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn copy_from(self, source: &TensorRef<'_>) -> Result<()> {
        copy_into(source, &self)
    }
}

/// The result of a copy that cannot be stopped.
fn finished(copy: Result<Option<Managed>>) -> Result<Tensor> {
    Ok(Tensor::from_managed(copy?.expect("a copy in one block cannot be stopped")))
}

/// Copies to new memory, in C order, at a multiple of `alignment`, a power of two. `None` if the copy was stopped.
fn to_copy(
    source: &TensorRef<'_>,
    alignment: usize,
    blocks: &mut Blocks<'_>,
) -> Result<Option<Managed>> {
    source.check_host_accessible()?;
    match source.is_subbyte_packed() && !source.is_c_contiguous() {
        true => subbyte::to_copy(source, false, alignment).map(Some),
        false => copied(source, None, alignment, blocks),
    }
}

/// The same, with the bytes of each number reversed.
fn to_byte_swapped(source: &TensorRef<'_>, blocks: &mut Blocks<'_>) -> Result<Option<Managed>> {
    source.check_host_accessible()?;
    match byte_order::number(source)? {
        1 => copied(source, None, ALIGNMENT, blocks),
        number => copied(source, Some(number), ALIGNMENT, blocks),
    }
}

/// Up to this number of contiguous bytes, a copy needs no axes, blocks or threads.
const PLAIN: usize = if cfg!(any(test, miri)) { 16 } else { 1 << 16 };

/// Copies elements on the host that are whole bytes or contiguous, and reverses each `swapped` bytes. `None` if the
/// copy was stopped.
fn copied(
    source: &TensorRef<'_>,
    swapped: Option<usize>,
    alignment: usize,
    blocks: &mut Blocks<'_>,
) -> Result<Option<Managed>> {
    let (shape, strides, dtype) = (source.shape(), source.strides(), source.dtype());
    let packed = source.is_subbyte_packed();
    let bytes = layout::byte_count(source.len(), dtype, !packed);
    let bytes = usize::try_from(bytes).map_err(|_| Error::TooLarge)?;
    let mut memory = AlignedBytes::for_copy(bytes, alignment)?;
    let (from, to) = (source.data().cast::<u8>().cast_const(), memory.as_mut_ptr());
    let mut copy = Undescribed::new(memory, shape.len());
    let elements = copy.set_dims(shape, None::<&[i64]>)?;
    let itemsize = dtype.itemsize();
    let layouts = Layouts { shape, from: strides, to: copy.strides(), itemsize };
    // Packed elements are contiguous bytes here.
    let run = Layouts { shape: &[bytes as i64], from: &[1], to: &[1], itemsize: 1 };
    let layouts = if packed { run } else { layouts };
    if elements != 0 {
        // SAFETY: Ref: `bytes` is the byte extent of a contiguous tensor. The target has room for every
        // element in C order, and is new.
        let done = unsafe {
            match swapped {
                None if bytes <= PLAIN && source.is_c_contiguous() => {
                    from.copy_to_nonoverlapping(to, bytes);
                    true
                }
                Some(number) if strided::can_swap(number) => {
                    strided::copy_swapped(from, to, &layouts, number, blocks)
                }
                Some(number) => {
                    let done = strided::copy_strided_while(from, to, &layouts, blocks);
                    if done {
                        byte_order::reverse_each(slice::from_raw_parts_mut(to, bytes), number);
                    }
                    done
                }
                None => strided::copy_strided_while(from, to, &layouts, blocks),
            }
        };
        if !done {
            return Ok(None);
        }
    }
    let subbyte_padded = source.is_subbyte_padded();
    let parts =
        RawParts { access: Access::Exclusive, subbyte_padded, ..RawParts::new(to.cast(), dtype) };
    // SAFETY: new memory, written in full above; no other code has its address, and the owner frees it.
    unsafe { copy.describe(&parts, elements, None) }.map(Some)
}

/// Writes all elements of one tensor into another.
fn copy_into(source: &TensorRef<'_>, target: &TensorRefMut<'_>) -> Result<()> {
    let target = target.as_tensor_ref();
    let (found, expected) = (source.dtype(), target.dtype());
    if found != expected {
        return Err(Error::DataType { expected, found });
    }
    check_same_shape(target.dims(), source.dims())?;
    source.check_host_accessible()?;
    target.check_host_accessible()?;
    let (from, to) = (source.data().cast::<u8>().cast_const(), target.data().cast::<u8>());
    let (shape, dtype) = (source.shape(), source.dtype());
    if source.is_subbyte_packed() || target.is_subbyte_packed() {
        let bits = source.len() as u128 * u128::from(dtype.element_bits());
        let whole = |tensor: &TensorRef<'_>| {
            tensor.is_subbyte_packed() && layout::is_c_contiguous(shape, tensor.strides())
        };
        // The last byte may also hold elements outside the tensor.
        if !whole(source) || !whole(&target) || !bits.is_multiple_of(8) {
            return Err(Error::SubbytePacked { dtype });
        }
        // SAFETY: Ref: the byte extent of both, which are contiguous and packed.
        unsafe { strided::copy_bytes(from, to, (bits / 8) as usize) };
    } else if !source.is_empty() {
        // SAFETY: Ref of both; the target is borrowed mutably, so the two do not share bytes.
        unsafe {
            let (of_source, of_target) = (source.strides(), target.strides());
            let itemsize = dtype.itemsize();
            let layouts = Layouts { shape, from: of_source, to: of_target, itemsize };
            strided::copy_strided(from, to, &layouts);
        }
    }
    Ok(())
}

fn check_same_shape(expected: &Dims<'_>, found: &Dims<'_>) -> Result<()> {
    let (expected, found) = (expected.shape(), found.shape());
    if expected.len() != found.len() {
        return Err(Error::Ndim { expected: expected.len(), found: found.len() });
    }
    let differs = (0..expected.len()).find(|&axis| expected[axis] != found[axis]);
    differs.map_or(Ok(()), |axis| {
        let (expected, found) = (expected[axis] as usize, found[axis] as usize);
        Err(Error::Extent { axis, expected, found })
    })
}
