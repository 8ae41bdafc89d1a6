//! Elements that are not whole bytes, read and written as bits.
//!
//! Packed elements follow each other bit by bit, the first in the lowest bits of the first byte. A padded element takes
//! whole bytes of its own, as a number in the machine's byte order.

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::slice;

use crate::block::{Managed, RawParts, Undescribed};
use crate::layout::{self, Dims, Offsets};
use crate::memory::AlignedBytes;
use crate::subbyte::whole_bytes;
use crate::tensor_ref::TensorRef;
use crate::tensor_ref::TensorRefMut;
use crate::threads::{self, Place};
use crate::{Access, DataType, DataTypeCode, Error, Result};

/// A borrowed view of elements that are not whole bytes, such as `float4_e2m1fn` or `int4`, packed
/// or padded, as bits.
///
/// ```
/// use dlbridge::{DataType, Tensor};
///
/// let tensor = Tensor::from_bytes(vec![0x21, 0x43], DataType::FLOAT4_E2M1FN, [4], 0)?;
/// let view = tensor.view_subbyte()?;
/// assert_eq!(view.get(&[1]), Some(2));
/// assert!(view.iter().eq([1, 2, 3, 4]));
/// # Ok::<(), dlbridge::Error>(())
/// ```
#[derive(Clone)]
pub struct SubbyteView<'a> {
    /// The first byte of the element at index zero. Ref holds for the viewed tensor.
    data: *mut u8,
    dims: Dims<'a>,
    len: usize,
    dtype: DataType,
    padded: bool,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: Ref: no code writes the data, and bytes may be read on any thread.
unsafe impl Send for SubbyteView<'_> {}
// SAFETY: Ref: shared access only reads the bytes, which no code writes meanwhile.
unsafe impl Sync for SubbyteView<'_> {}

/// A view of elements that are not whole bytes, through which they can be written.
///
/// ```
/// use dlbridge::{DataType, Tensor};
///
/// let mut tensor = Tensor::from_bytes(vec![0x21, 0x43], DataType::FLOAT4_E2M1FN, [4], 0)?;
/// tensor.view_subbyte_mut()?.set(&[2], 0xf);
/// assert_eq!(tensor.try_into_owner::<Vec<u8>>().unwrap(), [0x21, 0x4f]);
/// # Ok::<(), dlbridge::Error>(())
/// ```
pub struct SubbyteViewMut<'a> {
    view: SubbyteView<'a>,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> SubbyteView<'a> {
    pub(crate) fn new(tensor: TensorRef<'a>) -> Result<Self> {
        let (dtype, padded) = (tensor.dtype(), tensor.is_subbyte_padded());
        if !dtype.is_subbyte() || dtype.element_bits() > u64::BITS {
            return Err(Error::NotSubbyte { dtype });
        }
        tensor.check_host_accessible()?;
        let (data, len) = (tensor.data().cast(), tensor.len());
        Ok(Self { data, dims: tensor.into_dims(), len, dtype, padded, memory: PhantomData })
    }

    /// The bits of the element at an index, which has one number for each dimension.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from_bytes(vec![0b1101], "uint1".parse()?, [4], 0)?;
    /// assert_eq!(tensor.view_subbyte()?.get(&[1]), Some(0));
    /// assert_eq!(tensor.view_subbyte()?.get(&[4]), None);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn get(&self, index: &[usize]) -> Option<u64> {
        layout::offset_of(self.shape(), self.strides(), index).map(|offset| self.read(offset))
    }

    /// The bits of all elements in index order, the last axis fastest.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from_bytes(vec![0b0110], "uint1".parse()?, [4], 0)?;
    /// assert!(tensor.view_subbyte()?.iter().eq([0, 1, 1, 0]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + use<'_, 'a> {
        Offsets::new(&self.dims).map(|offset| self.read(offset))
    }

    /// The bits of an element as a signed number in two's complement.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from_bytes(vec![0xf7], "int4".parse()?, [2], 0)?;
    /// let view = tensor.view_subbyte()?;
    /// assert!(view.iter().map(|bits| view.signed(bits)).eq([7, -1]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn signed(&self, bits: u64) -> i64 {
        let unused = u64::BITS - self.dtype.element_bits();
        (bits << unused).cast_signed() >> unused
    }

    /// The extents, in elements.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from_bytes(vec![0; 3], "uint4".parse()?, [2, 3], 0)?;
    /// assert_eq!(tensor.view_subbyte()?.shape(), [2, 3]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn shape(&self) -> &[i64] {
        self.dims.shape()
    }

    /// The strides, in elements.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from_bytes(vec![0; 3], "uint4".parse()?, [2, 3], 0)?;
    /// assert_eq!(tensor.view_subbyte()?.strides(), [3, 1]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn strides(&self) -> &[i64] {
        self.dims.strides()
    }

    /// The number of elements.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from_bytes(vec![0; 3], "uint4".parse()?, [2, 3], 0)?;
    /// assert_eq!(tensor.view_subbyte()?.len(), 6);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the view is empty.
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from_bytes(vec![], "uint4".parse()?, [0], 0)?;
    /// assert!(tensor.view_subbyte()?.is_empty());
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The place of the element at an offset: its first byte, the number of bits below it in that byte, and the number
    /// of bytes it touches.
    fn place(&self, offset: isize) -> (*mut u8, u32, usize) {
        let bits = self.dtype.element_bits();
        if self.padded {
            let bytes = self.dtype.itemsize();
            return (self.data.wrapping_offset(offset * bytes as isize), 0, bytes);
        }
        // Layout limits bytes: the number of bits may not fit a machine word.
        let first = offset as i128 * i128::from(bits);
        let below = first.rem_euclid(8) as u32;
        let bytes = (below + bits).div_ceil(8) as usize;
        (self.data.wrapping_offset(first.div_euclid(8) as isize), below, bytes)
    }

    /// The bits of the element at an offset of the layout.
    fn read(&self, offset: isize) -> u64 {
        let (first, below, bytes) = self.place(offset);
        let mut bits = 0_u128;
        for nth in 0..bytes {
            // SAFETY: Ref: a byte of an element.
            let byte = unsafe { first.add(nth).read() };
            bits |= u128::from(byte) << self.shift(nth, bytes);
        }
        (bits >> below) as u64 & self.mask()
    }

    /// The shift of a byte's bits: packed elements are little-endian, padded ones in the machine's byte order.
    fn shift(&self, nth: usize, bytes: usize) -> usize {
        match self.padded && cfg!(target_endian = "big") {
            true => 8 * (bytes - 1 - nth),
            false => 8 * nth,
        }
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.dtype.element_bits())
    }
}

impl<'a> SubbyteViewMut<'a> {
    pub(crate) fn new(tensor: TensorRefMut<'a>) -> Result<Self> {
        // Ref, of a mutable tensor that is consumed.
        Ok(Self { view: SubbyteView::new(tensor.into_shared())?, memory: PhantomData })
    }

    /// The same elements, for reading.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from_bytes(vec![0x21], "uint4".parse()?, [2], 0)?;
    /// assert!(tensor.view_subbyte_mut()?.as_view().iter().eq([1, 2]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn as_view(&self) -> SubbyteView<'_> {
        self.view.clone()
    }

    /// Writes the bits of the element at an index. Cut a signed number to its lowest bits first: `(-1_i64) as u64 &
    /// 0xf` for an `int4`.
    ///
    /// # Panics
    /// If the index is outside the shape, or `bits` has more bits than an element.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from_bytes(vec![0; 1], "uint4".parse()?, [2], 0)?;
    /// tensor.view_subbyte_mut()?.set(&[1], 7);
    /// assert_eq!(tensor.try_into_owner::<Vec<u8>>().unwrap(), [0x70]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[track_caller]
    pub fn set(&mut self, index: &[usize], bits: u64) {
        let view = &self.view;
        let Some(offset) = layout::offset_of(view.shape(), view.strides(), index) else {
            panic!("index {index:?} is outside of shape {:?}", view.shape());
        };
        assert!(bits <= view.mask(), "{bits:#x} has more bits than an element of {}", view.dtype);
        let (first, below, bytes) = view.place(offset);
        if view.padded {
            // The whole element, as `to_copy` makes it.
            let number =
                if is_signed(view.dtype) { view.signed(bits).cast_unsigned() } else { bits };
            for nth in 0..bytes {
                // SAFETY: Ref: a byte of an element of a mutable tensor.
                unsafe { first.add(nth).write((number >> view.shift(nth, bytes)) as u8) };
            }
            return;
        }
        let (kept, bits) = (!(u128::from(view.mask()) << below), u128::from(bits) << below);
        for nth in 0..bytes {
            let shift = view.shift(nth, bytes);
            // SAFETY: Ref: a byte of an element of a mutable tensor.
            unsafe {
                let byte = first.add(nth);
                byte.write(byte.read() & (kept >> shift) as u8 | (bits >> shift) as u8);
            }
        }
    }
}

/// True if the highest bit of an element is its sign, which an extension repeats.
fn is_signed(dtype: DataType) -> bool {
    dtype.code() == DataTypeCode::INT && dtype.lanes() == 1
}

/// Copies sub-byte elements in C order to new memory, packed or padded. Signed integers are extended with their sign,
/// all other elements with zeros.
pub(crate) fn to_copy(source: &TensorRef<'_>, padded: bool, alignment: usize) -> Result<Managed> {
    let view = SubbyteView::new(source.clone())?;
    let (dtype, itemsize) = (view.dtype, view.dtype.itemsize());
    let bytes = layout::byte_count(view.len, dtype, padded);
    let bytes = usize::try_from(bytes).map_err(|_| Error::TooLarge)?;
    let bits = dtype.element_bits();
    let signed = is_signed(dtype);
    if padded != view.padded && whole_bytes::is_even(bits) && source.is_c_contiguous() {
        let mut memory = AlignedBytes::for_copy(bytes, alignment)?;
        repack(source.as_bytes()?, memory.as_uninit_mut(), bits, padded, signed);
        // SAFETY: `repack` wrote all bytes.
        return unsafe { of_memory(memory, source, padded) };
    }
    let mut memory = AlignedBytes::zeroed(bytes, alignment, true)?;
    let to = memory.as_mut_ptr();
    let mut packed = BitWriter { to, pending: 0, bits: 0 };
    for (nth, bits) in view.iter().enumerate() {
        if padded {
            let number = if signed { view.signed(bits).cast_unsigned() } else { bits };
            let number = number.to_ne_bytes();
            let begin = if cfg!(target_endian = "big") { number.len() - itemsize } else { 0 };
            let number = &number[begin..begin + itemsize];
            // SAFETY: the memory has room for `itemsize` bytes of each element.
            unsafe { number.as_ptr().copy_to_nonoverlapping(to.add(nth * itemsize), itemsize) };
        } else {
            // SAFETY: the memory has room for the bits of all elements.
            unsafe { packed.push(bits, dtype.element_bits()) };
        }
    }
    // SAFETY: the memory has room for the bits of all elements, rounded up to bytes (`byte_count`).
    unsafe { packed.finish() };
    // SAFETY: the memory began as zeros.
    unsafe { of_memory(memory, source, padded) }
}

/// Writes all of `to` with the elements of `from`: unpacks them to a byte each if `padded`, otherwise packs them.
fn repack(from: &[u8], to: &mut [MaybeUninit<u8>], bits: u32, padded: bool, signed: bool) {
    let elements = if padded { to.len() } else { from.len() };
    let (of_from, of_to) = match padded {
        true => (bits as usize, whole_bytes::GROUP),
        false => (whole_bytes::GROUP, bits as usize),
    };
    let groups = elements.div_ceil(whole_bytes::GROUP);
    let parts = threads::parts(elements);
    let (len, to) = (to.len(), Place(to.as_mut_ptr().cast()));
    threads::split(groups, parts, 4096, &|begin, end| {
        let from = &from[begin * of_from..from.len().min(end * of_from)];
        let (begin, end) = (len.min(begin * of_to), len.min(end * of_to));
        // SAFETY: a part of the slice; other threads have other parts.
        let to = unsafe { slice::from_raw_parts_mut(to.at(begin).cast(), end - begin) };
        match padded {
            true => whole_bytes::unpack(from, to, bits, signed),
            false => whole_bytes::pack(from, to, bits),
        }
    });
}

/// The tensor of a finished copy.
///
/// # Safety
/// All bytes of the memory are initialised, and no other code has their address.
unsafe fn of_memory(
    mut memory: AlignedBytes,
    source: &TensorRef<'_>,
    padded: bool,
) -> Result<Managed> {
    let to = memory.as_mut_ptr();
    let mut copy = Undescribed::new(memory, source.ndim());
    let elements = copy.set_dims(source.shape(), None::<&[i64]>)?;
    let parts = RawParts {
        access: Access::Exclusive,
        subbyte_padded: padded,
        ..RawParts::new(to.cast(), source.dtype())
    };
    // SAFETY: the caller guarantees initialised memory that no other code has; the owner frees it.
    unsafe { copy.describe(&parts, elements, None) }
}

/// Packs elements one after the other, from the lowest bit of the first byte on.
struct BitWriter {
    to: *mut u8,
    pending: u128,
    bits: u32,
}

impl BitWriter {
    /// # Safety
    /// The target has room for the bits so far and these.
    unsafe fn push(&mut self, bits: u64, count: u32) {
        self.pending |= u128::from(bits) << self.bits;
        self.bits += count;
        while self.bits >= 8 {
            // SAFETY: the caller guarantees room for all bits so far, and these eight are the next of them.
            unsafe {
                self.to.write(self.pending as u8);
                self.to = self.to.add(1);
            }
            (self.pending, self.bits) = (self.pending >> 8, self.bits - 8);
        }
    }

    /// # Safety
    /// The target has room for the bits so far, rounded up to bytes.
    unsafe fn finish(self) {
        if self.bits > 0 {
            // SAFETY: the caller guarantees room for the last bits as a whole byte.
            unsafe { self.to.write(self.pending as u8) };
        }
    }
}

impl fmt::Debug for SubbyteView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubbyteView")
            .field("shape", &self.shape())
            .field("strides", &self.strides())
            .field("dtype", &self.dtype)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SubbyteViewMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SubbyteViewMut").field(&self.view).finish()
    }
}
