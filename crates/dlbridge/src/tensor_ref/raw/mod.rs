//! Borrowed tensors of any dtype: for C kernels, and for code that does not depend on the element type.
//!
//! - **Ref.** Layout, Data, Calm and Dtype of `block/mod.rs` hold for a borrowed tensor for its lifetime. While a
//!   mutable one is alive, no other code reads or writes the data, and no two of its indices lead to the same element.

#[forbid(unsafe_code)]
mod dl_tensor;
#[forbid(unsafe_code)]
mod from;
mod mutable;

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::slice;

use dlbridge_sys::DLTensor;

use crate::block::Managed;
use crate::element::Element;
use crate::layout::{self, Dims, Measure, Slice};
use crate::view::TensorView;
use crate::{DataType, Device, Error, RawParts, Result};

pub use self::dl_tensor::DLTensorRef;
pub use self::mutable::TensorRefMut;

/// A borrowed tensor of any dtype.
///
/// Make it of a slice, an array, a view or a tensor. [`dl_tensor`](TensorRef::dl_tensor) gives a C kernel a `DLTensor*`
/// for the length of a call. Operations that do not depend on the element type work on it too: slicing, transposing,
/// copying.
///
/// ```
/// use dlbridge::{DataType, TensorRef};
///
/// let values = [1.0_f32, 2.0, 3.0, 4.0];
/// let square = TensorRef::from(&values).reshape([2, 2])?.transpose();
/// assert_eq!((square.shape(), square.strides()), (&[2, 2][..], &[1, 2][..]));
/// assert_eq!(square.dtype(), DataType::FLOAT32);
/// assert_eq!(square.view::<f32>()?.to_vec(), [1.0, 3.0, 2.0, 4.0]);
/// # Ok::<(), dlbridge::Error>(())
/// ```
#[derive(Clone)]
pub struct TensorRef<'a> {
    data: *mut c_void,
    byte_offset: u64,
    dims: Dims<'a>,
    len: usize,
    dtype: DataType,
    device: Device,
    subbyte_padded: bool,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: Ref: no code writes the data, and elements may be read on any thread.
unsafe impl Send for TensorRef<'_> {}
// SAFETY: Ref: shared access only reads the data, which no code writes meanwhile.
unsafe impl Sync for TensorRef<'_> {}

impl<'a> TensorRef<'a> {
    /// Borrows memory as a tensor; adapters use it. Without `strides` the elements are in C order. Extents and strides
    /// count elements.
    ///
    /// # Errors
    /// Returns an error if the parts are invalid.
    ///
    /// # Safety
    /// For `'a` every element of the layout lies in one allocation on `parts.device`, initialised and valid for reads,
    /// and no code writes it.
    ///
    /// ```
    /// use dlbridge::{Access, RawParts, TensorRef};
    ///
    /// let values = [1.0_f32, 2.0, 3.0, 4.0];
    /// let parts = RawParts::of_elements(values.as_ptr().cast_mut(), Access::ReadOnly);
    /// // SAFETY: four floats, borrowed as long as the tensor.
    /// let columns = unsafe { TensorRef::from_raw_parts(&parts, &[2, 2], Some(&[1, 2])) }?;
    /// assert_eq!(columns.view::<f32>()?[[0, 1]], 3.0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[inline]
    pub unsafe fn from_raw_parts<S, T>(
        parts: &RawParts,
        shape: &[S],
        strides: Option<&[T]>,
    ) -> Result<Self>
    where
        S: Copy + TryInto<i64>,
        T: Copy + TryInto<i64>,
    {
        let (dims, measure) = match strides {
            Some(strides) => Dims::checked(shape, strides)?,
            None => Dims::in_c_order(shape)?,
        };
        // SAFETY: the caller guarantees the memory for `'a`; the dims were measured.
        unsafe { Self::of(parts, dims, measure) }
    }

    /// As [`from_raw_parts`](TensorRef::from_raw_parts), for memory that the CPU reads, of at most four dimensions,
    /// with elements that are whole bytes and contiguous in C order. `None` for all other memory, and if the parts are
    /// invalid.
    ///
    /// Inlined, so that extents in registers are written only once, into the tensor.
    ///
    /// # Safety
    /// The contract of [`from_raw_parts`](TensorRef::from_raw_parts).
    ///
    /// ```
    /// use dlbridge::{DataType, TensorRef};
    ///
    /// let values = [1.0_f32, 2.0, 3.0, 4.0];
    /// let first = values.as_ptr().cast_mut().cast();
    /// // SAFETY: four floats, borrowed as long as the tensor.
    /// let rows = unsafe { TensorRef::from_raw_run(first, DataType::FLOAT32, &[2, 2]) }.unwrap();
    /// assert_eq!(rows.strides(), [2, 1]);
    /// ```
    #[inline(always)]
    pub unsafe fn from_raw_run(data: *mut c_void, dtype: DataType, shape: &[i64]) -> Option<Self> {
        let (few, strides, count) = Dims::few_in_c_order(shape)?;
        let bytes = (count as isize).checked_mul(dtype.itemsize() as isize)? as usize;
        let fits = !data.is_null() && data.addr().checked_add(bytes).is_some();
        if !fits || dtype.is_subbyte() || dtype.check().is_err() {
            return None;
        }
        // Ref: the caller guarantees the memory for `'a`. Layout: all elements are within `bytes` from the address on,
        // and that range does not wrap.
        Some(Self {
            data,
            byte_offset: 0,
            dims: Dims::Few { ndim: shape.len() as u32, shape: few, strides },
            len: count,
            dtype,
            device: Device::CPU,
            subbyte_padded: false,
            memory: PhantomData,
        })
    }

    /// As [`from_raw_parts`](TensorRef::from_raw_parts), with the extent and the stride of each axis as a pair: the
    /// caller needs no arrays for them.
    ///
    /// # Errors
    /// Returns an error if the parts are invalid.
    ///
    /// # Safety
    /// The contract of [`from_raw_parts`](TensorRef::from_raw_parts).
    ///
    /// ```
    /// use dlbridge::{Access, RawParts, TensorRef};
    ///
    /// let values = [1.0_f32, 2.0, 3.0, 4.0];
    /// let parts = RawParts::of_elements(values.as_ptr().cast_mut(), Access::ReadOnly);
    /// // SAFETY: four floats, borrowed as long as the tensor.
    /// let columns = unsafe { TensorRef::from_raw_axes(&parts, [(2, 1), (2, 2)].into_iter()) }?;
    /// assert_eq!(columns.strides(), [1, 2]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[inline(always)]
    pub unsafe fn from_raw_axes(
        parts: &RawParts,
        axes: impl ExactSizeIterator<Item = (i64, i64)>,
    ) -> Result<Self> {
        let (dims, measure) = Dims::measured(axes)?;
        // SAFETY: the caller guarantees the memory for `'a`; `Dims::measured` measured these dims.
        unsafe { Self::of(parts, dims, measure) }
    }

    /// # Safety
    /// The contract of [`from_raw_parts`](TensorRef::from_raw_parts), for the layout `dims`; `measure` is that
    /// of `dims`.
    #[inline(always)]
    unsafe fn of(parts: &RawParts, dims: Dims<'a>, measure: Measure) -> Result<Self> {
        parts.dtype.check()?;
        let (data, byte_offset) = match (measure.count, measure.extent) {
            (0, _) => (ptr::null_mut(), 0),
            (_, extent) => parts.locate(extent.ok_or(Error::TooLarge)?)?,
        };
        let (len, RawParts { dtype, device, subbyte_padded, .. }) = (measure.count, *parts);
        // Ref: the caller guarantees the memory for `'a`. Layout: `locate` checked the extent.
        let memory = PhantomData;
        Ok(Self { data, byte_offset, dims, len, dtype, device, subbyte_padded, memory })
    }

    /// Views the elements as `T`, for reading.
    ///
    /// # Errors
    /// Those of [`Tensor::view`](crate::Tensor::view).
    ///
    /// ```
    /// let values = dlbridge::TensorRef::from(&[1_u8, 2, 3]);
    /// assert_eq!(values.view::<u8>()?.as_slice(), Some(&[1, 2, 3][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn view<T: Element>(&self) -> Result<TensorView<'a, T>> {
        self.clone().into_view(T::DATA_TYPE)
    }

    /// Views the elements as [`view`](TensorRef::view) does, but borrows the extents and strides of `self` instead of
    /// copying them.
    ///
    /// # Errors
    /// Those of [`Tensor::view`](crate::Tensor::view).
    ///
    /// ```
    /// let values = dlbridge::TensorRef::from(&[1_u8, 2, 3]);
    /// assert_eq!(values.as_view::<u8>()?.as_slice(), Some(&[1, 2, 3][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[inline]
    pub fn as_view<T: Element>(&self) -> Result<TensorView<'_, T>> {
        let first = self.first_as::<T>(T::DATA_TYPE)?;
        let dims = Dims::borrowed(self.shape(), self.strides());
        // SAFETY: Ref, for as long as this is borrowed, and `first_as`.
        unsafe { TensorView::new(first, dims, self.len, T::DATA_TYPE) }
    }

    /// Views elements of the dtype `dtype`, which has the layout of `T`.
    #[inline]
    pub(crate) fn into_view<T: Element>(self, dtype: DataType) -> Result<TensorView<'a, T>> {
        let first = self.first_as::<T>(dtype)?;
        // SAFETY: Ref, for `'a`, and `first_as`.
        unsafe { TensorView::new(first, self.dims, self.len, dtype) }
    }

    /// The address of the element at index zero, after checking that the CPU can access the elements, and that they
    /// have the size of `T` and are aligned for it.
    #[inline]
    fn first_as<T: Element>(&self, dtype: DataType) -> Result<NonNull<T>> {
        if self.dtype != dtype {
            return Err(Error::DataType { expected: dtype, found: self.dtype });
        }
        self.check_host_accessible()?;
        if dtype.is_subbyte() && !self.subbyte_padded {
            return Err(Error::SubbytePacked { dtype });
        }
        let first = match NonNull::new(self.data.cast::<T>()) {
            Some(first) if self.len != 0 => first,
            _ => NonNull::dangling(),
        };
        if !first.is_aligned() {
            let (address, required) = (first.addr().get(), align_of::<T>());
            return Err(Error::Misaligned { address, required });
        }
        Ok(first)
    }

    /// The description for a C kernel, for the length of a call. The kernel must neither write the elements nor keep a
    /// pointer. The byte offset is 0 if `data` is an address. A `DLTensor` lacks flags: for elements narrower than a
    /// byte the kernel must know by other means if they are padded.
    ///
    /// ```
    /// use dlbridge::{TensorRef, sys::DLTensor};
    ///
    /// unsafe extern "C" fn kernel(t: *const DLTensor) -> i64 {
    ///     // SAFETY: the caller passes a tensor of one dimension.
    ///     unsafe { *(*t).shape }
    /// }
    ///
    /// let values = TensorRef::from(&[1.0_f32, 2.0, 3.0]);
    /// // SAFETY: the kernel writes nothing and keeps nothing.
    /// assert_eq!(unsafe { kernel(&*values.dl_tensor()) }, 3);
    /// ```
    pub fn dl_tensor(&self) -> DLTensorRef<'_> {
        DLTensorRef::new(DLTensor {
            data: self.data,
            device: self.device.into(),
            ndim: self.dims.ndim() as i32,
            dtype: self.dtype.into(),
            shape: self.shape().as_ptr().cast_mut(),
            strides: self.strides().as_ptr().cast_mut(),
            byte_offset: self.byte_offset,
        })
    }

    /// The slice that `take` makes of the dims.
    pub(crate) fn sliced(&self, take: impl FnOnce(&Dims<'a>) -> Result<Slice>) -> Result<Self> {
        let slice = take(&self.dims)?;
        // Ref: Slice.
        let (data, byte_offset) = self.locate(&slice)?;
        let len = layout::element_count(slice.dims.shape())?;
        Ok(Self { data, byte_offset, dims: slice.dims, len, ..*self })
    }

    /// The address and byte offset of a slice's first element.
    fn locate(&self, slice: &Slice) -> Result<(*mut c_void, u64)> {
        if slice.dims.shape().contains(&0) {
            return Ok((ptr::null_mut(), 0));
        }
        let bytes = if self.is_subbyte_packed() {
            let dtype = self.dtype;
            let bits = i128::from(dtype.element_bits()) * slice.offset as i128;
            // A description cannot hold a bit offset.
            if bits % 8 != 0 {
                return Err(Error::SubbytePacked { dtype });
            }
            (bits / 8) as isize
        } else {
            slice.offset * self.dtype.itemsize() as isize
        };
        // Layout: addresses within the byte extent do not wrap.
        Ok(match self.device.device_type().is_addressable() {
            true => (self.data.wrapping_byte_offset(bytes), self.byte_offset),
            false => (self.data, self.byte_offset.wrapping_add_signed(bytes as i64)),
        })
    }

    /// Turns the tensor this was borrowed from into the slice that `take` makes of its dims.
    pub(crate) fn part_of(
        managed: Managed,
        take: impl FnOnce(&Dims<'_>) -> Result<Slice>,
    ) -> Result<Managed> {
        let whole = TensorRef::new(&managed);
        let slice = take(&whole.dims)?;
        let (data, byte_offset) = whole.locate(&slice)?;
        // SAFETY: Slice, of the dims of this very tensor.
        unsafe { managed.describe_slice(&slice.dims, data, byte_offset) }
    }

    /// The bytes of the elements, which must be contiguous in C order. With packed sub-byte elements the last byte may
    /// also hold bits of other elements.
    ///
    /// # Errors
    /// [`Error::NotHostAccessible`]; [`Error::NotContiguous`].
    ///
    /// ```
    /// let numbers = [0x0101_u16, 0x0202];
    /// assert_eq!(dlbridge::TensorRef::from(&numbers).as_bytes()?, [1, 1, 2, 2]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn as_bytes(&self) -> Result<&'a [u8]> {
        self.check_host_accessible()?;
        if !self.is_c_contiguous() {
            return Err(Error::NotContiguous);
        }
        if self.is_empty() {
            return Ok(&[]);
        }
        let bytes = usize::try_from(self.nbytes()).map_err(|_| Error::TooLarge)?;
        // SAFETY: Ref: the byte extent of contiguous elements.
        Ok(unsafe { slice::from_raw_parts(self.data.cast::<u8>(), bytes) })
    }

    #[inline]
    pub(crate) fn check_host_accessible(&self) -> Result<()> {
        match self.device.device_type().is_host_accessible() {
            true => Ok(()),
            false => Err(Error::NotHostAccessible { device: self.device }),
        }
    }

    pub(crate) fn into_dims(self) -> Dims<'a> {
        self.dims
    }

    pub(crate) fn dims(&self) -> &Dims<'a> {
        &self.dims
    }

    /// True if elements share bytes.
    pub(crate) fn is_subbyte_packed(&self) -> bool {
        self.dtype.is_subbyte() && !self.subbyte_padded
    }

    /// The extents, in elements.
    ///
    /// ```
    /// assert_eq!(dlbridge::TensorRef::from(&[[0_u8; 3]; 2]).shape(), [2, 3]);
    /// ```
    #[inline]
    pub fn shape(&self) -> &[i64] {
        self.dims.shape()
    }

    /// The strides, in elements.
    ///
    /// ```
    /// assert_eq!(dlbridge::TensorRef::from(&[[0_u8; 3]; 2]).strides(), [3, 1]);
    /// ```
    #[inline]
    pub fn strides(&self) -> &[i64] {
        self.dims.strides()
    }

    /// The number of elements.
    ///
    /// ```
    /// assert_eq!(dlbridge::TensorRef::from(&[[0_u8; 3]; 2]).len(), 6);
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The type of the elements.
    ///
    /// ```
    /// use dlbridge::{DataType, TensorRef};
    ///
    /// assert_eq!(TensorRef::from(&[0_u16]).dtype(), DataType::UINT16);
    /// ```
    #[inline]
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// The device that holds the data.
    ///
    /// ```
    /// use dlbridge::{Device, TensorRef};
    ///
    /// assert_eq!(TensorRef::from(&[0_u16]).device(), Device::CPU);
    /// ```
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }

    /// The address of the element at index zero, or a handle on devices that have handles. NULL if the tensor is empty.
    ///
    /// ```
    /// let values = [1_u8, 2];
    /// assert_eq!(dlbridge::TensorRef::from(&values).data().addr(), values.as_ptr().addr());
    /// ```
    #[inline]
    pub fn data(&self) -> *mut c_void {
        self.data
    }

    /// The distance from [`data`](TensorRef::data) to the first element in bytes. It is 0 if `data` is an address.
    ///
    /// ```
    /// assert_eq!(dlbridge::TensorRef::from(&[0_u16]).byte_offset(), 0);
    /// ```
    pub fn byte_offset(&self) -> u64 {
        self.byte_offset
    }

    /// Returns true if elements that are not whole bytes are padded to whole bytes. The flag does not apply to elements
    /// whose lanes together are whole bytes, like `float4_e2m1fnx2`: those are never padded within.
    ///
    /// ```
    /// assert!(!dlbridge::TensorRef::from(&[0_u16]).is_subbyte_padded());
    /// ```
    pub fn is_subbyte_padded(&self) -> bool {
        self.subbyte_padded
    }
}
