//! The methods of tensors that need no unsafe code.

use core::ffi::c_void;
use core::fmt;

use super::raw::{Owner, Tensor, owner, zeros};
use crate::layout::{Dims, Slice};
use crate::{
    Access, DataType, Device, Element, Error, Result, TensorRef, TensorRefMut, TensorView,
    TensorViewMut, layout,
};

impl Tensor {
    /// Makes a tensor of all elements of an owner, in C order, in the given shape.
    ///
    /// Nested arrays count as their elements.
    ///
    /// # Errors
    /// [`Error::ElementCount`] unless the shape and the owner have the same number of elements; [`Error::InvalidNdim`]
    /// for more than [`MAX_NDIM`](crate::MAX_NDIM) dimensions. The owner is dropped.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let pixels = vec![0_u8; 480 * 640 * 3];
    /// let picture = Tensor::from_parts(pixels, [480, 640, 3])?;
    /// assert_eq!(picture.strides(), [1920, 3, 1]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn from_parts<O: Owner>(owner: O, shape: impl AsRef<[usize]>) -> Result<Self> {
        owner::from_adjacent(owner, shape.as_ref()).map(Self::from_managed)
    }

    /// Makes a tensor of some elements of an owner, given a shape, strides in elements, and the position of the element
    /// at index zero.
    ///
    /// Strides may be negative or zero.
    ///
    /// # Errors
    /// [`Error::StridesLength`] unless the numbers of strides and dimensions are equal; [`Error::OutOfBounds`] if an
    /// index would lead outside the owner's elements; [`Error::InvalidNdim`] for more than
    /// [`MAX_NDIM`](crate::MAX_NDIM) dimensions; [`Error::TooLarge`] if sizes overflow. The owner is dropped.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// // Two rows of three, the second row first.
    /// let flipped = Tensor::from_parts_strided(vec![1, 2, 3, 4, 5, 6], [2, 3], [-3, 1], 3)?;
    /// assert_eq!(flipped.view::<i32>()?.to_vec(), [4, 5, 6, 1, 2, 3]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn from_parts_strided<O: Owner>(
        owner: O,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
        offset: usize,
    ) -> Result<Self> {
        owner::from_owner(owner, shape.as_ref(), strides.as_ref(), offset).map(Self::from_managed)
    }

    /// Makes a tensor of bytes that hold elements of a dtype, in native byte order, contiguous in C order
    /// from a byte offset on: for files and messages. Sub-byte elements are packed.
    ///
    /// The elements need not be aligned: then [`Tensor::view`] returns an error, and [`Unaligned`](crate::Unaligned)
    /// reads them.
    ///
    /// # Errors
    /// [`Error::ByteCount`] if too few bytes follow the offset; [`Error::InvalidDataType`]; [`Error::InvalidNdim`];
    /// [`Error::TooLarge`]. The owner is dropped.
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor};
    ///
    /// let message = [&b"header.."[..], &[0; 24]].concat();
    /// let tensor = Tensor::from_bytes(message, DataType::FLOAT32, [2, 3], 8)?;
    /// assert_eq!(tensor.shape(), [2, 3]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn from_bytes<O: Owner<Item = u8>>(
        owner: O,
        dtype: DataType,
        shape: impl AsRef<[usize]>,
        byte_offset: usize,
    ) -> Result<Self> {
        owner::from_bytes(owner, (dtype, false), shape.as_ref(), byte_offset)
            .map(Self::from_managed)
    }

    /// Makes a tensor of bytes as [`Tensor::from_bytes`] does, with padded elements: each element that is not whole
    /// bytes takes whole bytes of its own, in the machine's byte order.
    ///
    /// # Errors
    /// Those of [`Tensor::from_bytes`].
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor};
    ///
    /// let nibbles = Tensor::from_padded_bytes(vec![1, 2, 3, 4], DataType::UINT4, [4], 0)?;
    /// let packed = nibbles.to_packed()?;
    /// assert_eq!(dlbridge::TensorRef::from(&packed).as_bytes()?, [0x21, 0x43]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn from_padded_bytes<O: Owner<Item = u8>>(
        owner: O,
        dtype: DataType,
        shape: impl AsRef<[usize]>,
        byte_offset: usize,
    ) -> Result<Self> {
        owner::from_bytes(owner, (dtype, true), shape.as_ref(), byte_offset).map(Self::from_managed)
    }

    /// Allocates a tensor of zeros in C order, aligned to 256 bytes and exclusive.
    ///
    /// All bytes of the elements are zero. [`Tensor::zeroed`] does the same for a dtype that is known only at run time.
    ///
    /// # Errors
    /// [`Error::InvalidNdim`] for more than [`MAX_NDIM`](crate::MAX_NDIM) dimensions; [`Error::TooLarge`] and
    /// [`Error::OutOfMemory`] if the memory cannot be allocated.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let tensor = Tensor::zeros::<f32>([2, 3])?;
    /// assert_eq!(tensor.view::<f32>()?, [[0.0; 3]; 2]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn zeros<T: Element>(shape: impl AsRef<[usize]>) -> Result<Self> {
        zeros::zeroed(T::DATA_TYPE, T::DATA_TYPE.is_subbyte(), shape.as_ref(), 1)
            .map(Self::from_managed)
    }

    /// Allocates a tensor whose bytes are all zero, in C order, aligned to 256 bytes and exclusive.
    ///
    /// Elements narrower than a byte are packed. [`Tensor::zeros`] does the same for a Rust type.
    ///
    /// # Errors
    /// [`Error::InvalidDataType`]; [`Error::InvalidNdim`]; [`Error::TooLarge`] and
    /// [`Error::OutOfMemory`] if the memory cannot be allocated.
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor};
    ///
    /// let tensor = Tensor::zeroed("bfloat16".parse()?, [2, 3])?;
    /// assert_eq!(tensor.dtype(), DataType::BFLOAT16);
    /// assert_eq!(tensor.shape(), [2, 3]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn zeroed(dtype: DataType, shape: impl AsRef<[usize]>) -> Result<Self> {
        Self::zeroed_aligned(dtype, shape, 1)
    }

    /// Allocates as [`zeroed`](Self::zeroed) does, with the first element at a multiple of `alignment` bytes.
    ///
    /// # Errors
    /// Those of [`zeroed`](Self::zeroed).
    ///
    /// # Panics
    /// If the alignment is not a power of two.
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor};
    ///
    /// let pages = Tensor::zeroed_aligned(DataType::UINT8, [2, 4096], 4096)?;
    /// assert_eq!(pages.data().addr() % 4096, 0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn zeroed_aligned(
        dtype: DataType,
        shape: impl AsRef<[usize]>,
        alignment: usize,
    ) -> Result<Self> {
        assert!(alignment.is_power_of_two(), "cannot align to {alignment}");
        zeros::zeroed(dtype, false, shape.as_ref(), alignment).map(Self::from_managed)
    }

    /// Makes a tensor of all items of an owner, in their own shape.
    ///
    /// # Panics
    /// If the items are arrays without elements and their number overflows.
    pub(crate) fn from_whole<O: Owner>(owner: O) -> Self {
        Self::from_managed(
            owner::from_whole(owner)
                .unwrap_or_else(|_| panic!("memory that exists has a size that fits")),
        )
    }

    /// Views the elements as `T`, for reading.
    ///
    /// For a `bool` tensor this reads all elements once, to check that each byte is 0 or 1.
    ///
    /// # Errors
    /// [`Error::DataType`] if the dtype is not that of `T`; [`Error::NotHostAccessible`];
    /// [`Error::Misaligned`]; [`Error::SubbytePacked`]; [`Error::InvalidElement`].
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from([[1.0_f64, 2.0], [3.0, 4.0]]);
    /// assert_eq!(tensor.view::<f64>()?.iter().sum::<f64>(), 10.0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    #[inline]
    pub fn view<T: Element>(&self) -> Result<TensorView<'_, T>> {
        TensorRef::new(self.managed()).into_view(T::DATA_TYPE)
    }

    /// Views the elements of a `bool` tensor as bytes, without reading them. Any byte except 0 means true.
    ///
    /// # Errors
    /// As [`Tensor::view`].
    ///
    /// ```
    /// let tensor = dlbridge::Tensor::from(vec![true, false]);
    /// assert_eq!(tensor.view_bool_as_u8()?.as_slice(), Some(&[1, 0][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn view_bool_as_u8(&self) -> Result<TensorView<'_, u8>> {
        TensorRef::new(self.managed()).into_view(DataType::BOOL)
    }

    /// Views the elements as `T`, for reading and writing.
    ///
    /// # Errors
    /// As [`Tensor::view`]; and [`Error::ReadOnly`] or [`Error::Shared`] unless the tensor is
    /// [`Access::Exclusive`], [`Error::Overlapping`] if two indices may lead to one element.
    ///
    /// ```
    /// let mut tensor = dlbridge::Tensor::from(vec![1, 2, 3]);
    /// tensor.view_mut::<i32>()?[[1]] = 20;
    /// assert_eq!(tensor.try_into_owner::<Vec<i32>>().unwrap(), [1, 20, 3]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn view_mut<T: Element>(&mut self) -> Result<TensorViewMut<'_, T>> {
        TensorRefMut::of(self.managed_mut())?.into_view_mut()
    }

    /// Sets the flag that forbids consumers to write the data.
    ///
    /// The flag cannot be removed. It binds only consumers of this tensor: the producer, and consumers that already
    /// have the tensor, may still write. So the result is [`Access::ReadOnly`], and not [`Access::Immutable`]; for that
    /// see [`Tensor::try_into_immutable`]. An immutable tensor stays immutable.
    ///
    /// ```
    /// use dlbridge::{Error, Tensor};
    ///
    /// let mut tensor = Tensor::from(vec![1, 2]).into_read_only();
    /// assert_eq!(tensor.view_mut::<i32>().unwrap_err(), Error::ReadOnly);
    /// ```
    #[must_use = "the tensor is dropped otherwise"]
    pub fn into_read_only(mut self) -> Self {
        self.managed_mut().set_read_only();
        self
    }

    /// The extents, in elements.
    ///
    /// They are `i64`, as in DLPack, and never negative. Functions that accept a shape need `usize`, so convert them:
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let pixels = Tensor::from([[0_u8; 3]; 2]);
    /// assert_eq!(pixels.shape(), [2, 3]);
    /// let shape: Vec<usize> = pixels.shape().iter().map(|&extent| extent as usize).collect();
    /// assert_eq!(Tensor::zeros::<f32>(shape)?.shape(), pixels.shape());
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn shape(&self) -> &[i64] {
        self.managed().shape()
    }

    /// The strides, in elements.
    ///
    /// ```
    /// assert_eq!(dlbridge::Tensor::from([[0_u8; 3]; 2]).strides(), [3, 1]);
    /// ```
    pub fn strides(&self) -> &[i64] {
        self.managed().strides()
    }

    /// The number of dimensions.
    ///
    /// ```
    /// assert_eq!(dlbridge::Tensor::from([[0_u8; 3]; 2]).ndim(), 2);
    /// ```
    pub fn ndim(&self) -> usize {
        self.shape().len()
    }

    /// The number of elements.
    ///
    /// ```
    /// assert_eq!(dlbridge::Tensor::from([[0_u8; 3]; 2]).len(), 6);
    /// ```
    pub fn len(&self) -> usize {
        layout::element_count(self.shape())
            .unwrap_or_else(|_| panic!("checked when the tensor was made"))
    }

    /// Returns true if the tensor is empty.
    ///
    /// ```
    /// assert!(dlbridge::Tensor::from(Vec::<f32>::new()).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// The number of bytes of the elements in contiguous memory. Packed sub-byte elements
    /// are rounded up to whole bytes; a tensor with strides of zero counts each index.
    ///
    /// ```
    /// assert_eq!(dlbridge::Tensor::from([[0_f32; 3]; 2]).nbytes(), 24);
    /// ```
    pub fn nbytes(&self) -> u128 {
        layout::byte_count(self.len(), self.dtype(), self.is_subbyte_padded())
    }

    /// The type of the elements.
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor};
    ///
    /// assert_eq!(Tensor::from(vec![0_u16]).dtype(), DataType::UINT16);
    /// ```
    pub fn dtype(&self) -> DataType {
        self.managed().tensor().dtype.into()
    }

    /// The device that holds the data.
    ///
    /// ```
    /// use dlbridge::{Device, Tensor};
    ///
    /// assert_eq!(Tensor::from(vec![0_u16]).device(), Device::CPU);
    /// ```
    pub fn device(&self) -> Device {
        self.managed().tensor().device.into()
    }

    /// The address of the element at index zero, or a handle on devices that have handles. NULL if the tensor is empty.
    ///
    /// ```
    /// let values = vec![1_u8, 2];
    /// let address = values.as_ptr().addr();
    /// assert_eq!(dlbridge::Tensor::from(values).data().addr(), address);
    /// ```
    pub fn data(&self) -> *mut c_void {
        self.managed().tensor().data
    }

    /// The distance from [`data`](Tensor::data) to the first element in bytes. It is 0 if `data` is an address.
    ///
    /// ```
    /// assert_eq!(dlbridge::Tensor::from(vec![0_u16]).byte_offset(), 0);
    /// ```
    pub fn byte_offset(&self) -> u64 {
        self.managed().tensor().byte_offset
    }

    /// The permitted users and uses of the data.
    ///
    /// ```
    /// use dlbridge::{Access, Tensor};
    ///
    /// assert_eq!(Tensor::from(vec![0_u16]).access(), Access::Exclusive);
    /// ```
    pub fn access(&self) -> Access {
        self.managed().access()
    }

    /// Returns true if the holder must not write the data: [`Access::ReadOnly`] and [`Access::Immutable`].
    ///
    /// ```
    /// assert!(dlbridge::Tensor::from(&[1, 2, 3][..]).is_read_only());
    /// ```
    pub fn is_read_only(&self) -> bool {
        matches!(self.access(), Access::ReadOnly | Access::Immutable)
    }

    /// Returns an error if code other than the tensor's holder may write the data.
    ///
    /// Call it before you return slices that live longer than a borrow of the tensor, as Arrow arrays do. The caller
    /// ensures that no code writes the data while a view is alive. For such slices that must hold until the tensor is
    /// dropped. The check accepts [`Access::Exclusive`] and [`Access::Immutable`].
    ///
    /// # Errors
    /// [`Error::Unstable`] for [`Access::Shared`] and [`Access::ReadOnly`].
    ///
    /// ```
    /// use dlbridge::{Access, Error, Tensor};
    ///
    /// let tensor = Tensor::from(vec![1, 2]);
    /// assert_eq!(tensor.check_stable(), Ok(()));
    /// let error = tensor.into_read_only().check_stable().unwrap_err();
    /// assert_eq!(error, Error::Unstable { access: Access::ReadOnly });
    /// ```
    pub fn check_stable(&self) -> Result<()> {
        match self.access() {
            Access::Exclusive | Access::Immutable => Ok(()),
            access @ (Access::Shared | Access::ReadOnly) => Err(Error::Unstable { access }),
        }
    }

    /// Returns true if elements that are not whole bytes are padded to whole bytes. The flag does not apply to elements
    /// whose lanes together are whole bytes, like `float4_e2m1fnx2`: those are never padded within.
    ///
    /// ```
    /// assert!(!dlbridge::Tensor::from(vec![0_u16]).is_subbyte_padded());
    /// ```
    pub fn is_subbyte_padded(&self) -> bool {
        Access::subbyte_padded(self.flags())
    }

    /// The flags of the managed tensor, a combination of the `DLPACK_FLAG_BITMASK_*` constants.
    ///
    /// ```
    /// use dlbridge::{Tensor, sys};
    ///
    /// assert_eq!(Tensor::from(&[1][..]).flags(), sys::DLPACK_FLAG_BITMASK_READ_ONLY);
    /// ```
    pub fn flags(&self) -> u64 {
        self.managed().flags()
    }

    /// Returns true if the elements are contiguous in C order, the last axis fastest. Axes of extent 1 never
    /// matter.
    ///
    /// ```
    /// assert!(dlbridge::Tensor::from([[0_u8; 3]; 2]).is_c_contiguous());
    /// ```
    pub fn is_c_contiguous(&self) -> bool {
        layout::is_c_contiguous(self.shape(), self.strides())
    }

    /// Returns true if the elements are contiguous in Fortran order, the first axis fastest. Axes of extent 1
    /// never matter.
    ///
    /// ```
    /// use dlbridge::Tensor;
    ///
    /// let columns = Tensor::from_parts_strided(vec![0_u8; 6], [2, 3], [1, 2], 0)?;
    /// assert!(columns.is_f_contiguous());
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn is_f_contiguous(&self) -> bool {
        layout::is_f_contiguous(self.shape(), self.strides())
    }

    /// Turns the tensor into the slice that `take` makes of its dims.
    pub(crate) fn sliced(self, take: impl FnOnce(&Dims<'_>) -> Result<Slice>) -> Result<Self> {
        TensorRef::part_of(self.into_managed(), take).map(Self::from_managed)
    }
}

impl<'a> From<&'a Tensor> for TensorRef<'a> {
    #[inline]
    fn from(tensor: &'a Tensor) -> Self {
        Self::new(tensor.managed())
    }
}

/// Returns [`Error::ReadOnly`] or [`Error::Shared`] unless the tensor is exclusive, and [`Error::Overlapping`] if two
/// indices may lead to one element.
impl<'a> TryFrom<&'a mut Tensor> for TensorRefMut<'a> {
    type Error = Error;

    fn try_from(tensor: &'a mut Tensor) -> Result<Self> {
        Self::of(tensor.managed_mut())
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("shape", &self.shape())
            .field("strides", &self.strides())
            .field("dtype", &self.dtype())
            .field("device", &self.device())
            .field("access", &self.access())
            .finish()
    }
}
