//! Tensors and images of kornia to tensors.
//!
//! - **Storage.** For each element of a layout that [`check_layout`](kornia_tensor::Tensor::check_layout) admits, the
//!   storage of a tensor on the host holds an initialised `T`, on the heap or in memory that it keeps alive: the
//!   address stays the same when the storage moves. Unless the storage is read-only, no other code has its memory.

use dlbridge::{Access, Device, DeviceType, Element, Error, RawParts, Result, Tensor, TensorRef};
use kornia_image::Image;
use kornia_tensor::MemoryDomain;

use crate::sealed::Sealed;

/// Tensors and images of kornia as tensors.
///
/// An image has three dimensions: height, width and channels.
pub trait KorniaExt: Sealed + Sized {
    /// Turns the tensor or image into a tensor that owns it. [`Access::Exclusive`].
    ///
    /// The elements stay in place. [`TensorExt`](crate::TensorExt) takes the same tensor or image out again.
    ///
    /// Elements with an [`Element::CHECK`], such as `bool`, do not compile: a consumer could write bytes that are not
    /// values of the type.
    ///
    /// ```compile_fail,E0080
    /// use dlbridge_kornia::KorniaExt;
    ///
    /// let tensor = kornia_tensor::Tensor::<bool, 1>::from_shape_val([2], true).into_tensor();
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if the shape and strides, which are public fields, lead outside of the memory;
    /// [`Error::NotHostAccessible`] for memory of a device. The tensor or image is then dropped.
    ///
    /// # Panics
    /// Panics if the memory is read-only, which kornia shows in no other way. The tensor or image is then dropped.
    ///
    /// ```
    /// use dlbridge_kornia::KorniaExt;
    ///
    /// let kornia = kornia_tensor::Tensor::<f32, 2>::zeros([2, 3]);
    /// assert_eq!(kornia.into_tensor()?.shape(), [2, 3]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn into_tensor(self) -> Result<Tensor>;

    /// Turns the tensor or image into a read-only tensor that owns it, with elements of any type.
    /// [`Access::ReadOnly`]. Also works for read-only memory.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor).
    ///
    /// ```
    /// use dlbridge_kornia::KorniaExt;
    ///
    /// let kornia = kornia_tensor::Tensor::<bool, 1>::from_shape_val([2], true);
    /// assert!(kornia.into_read_only_tensor()?.is_read_only());
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn into_read_only_tensor(self) -> Result<Tensor>;

    /// Borrows the tensor or image as a read-only tensor.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor).
    ///
    /// ```
    /// use dlbridge_kornia::KorniaExt;
    ///
    /// let kornia = kornia_tensor::Tensor::<f32, 2>::zeros([2, 3]);
    /// assert_eq!(kornia.as_tensor_ref()?.view::<f32>()?.to_vec(), [0.0; 6]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn as_tensor_ref(&self) -> Result<TensorRef<'_>>;
}

impl<T, const N: usize> Sealed for kornia_tensor::Tensor<T, N> {}
impl<T, const C: usize> Sealed for Image<T, C> {}

impl<T: Element, const N: usize> KorniaExt for kornia_tensor::Tensor<T, N> {
    fn into_tensor(mut self) -> Result<Tensor> {
        const { assert!(T::CHECK.is_none(), "not every bit pattern is an element") }
        check(&self)?;
        let parts = RawParts::of_elements(self.as_mut_ptr(), Access::Exclusive);
        let (shape, strides) = (self.shape, self.strides);
        // SAFETY: the contract of `Tensor::from_raw_parts` is Storage, for a layout that was checked; kornia returned
        // a pointer for writing, so the memory is not read-only. The owner can be sent because `T: Send`. Any bytes
        // that a consumer may write are values of `T`.
        unsafe { Tensor::from_raw_parts(self, parts, &shape, Some(&strides)) }
    }

    fn into_read_only_tensor(self) -> Result<Tensor> {
        check(&self)?;
        let parts = RawParts::of_elements(self.as_ptr().cast_mut(), Access::ReadOnly);
        let (shape, strides) = (self.shape, self.strides);
        // SAFETY: the contract of `Tensor::from_raw_parts` is Storage, for a layout that was checked. Consumers do not
        // write the read-only tensor. If the storage is read-only, nothing else writes it either, because kornia
        // returns slices of it.
        unsafe { Tensor::from_raw_parts(self, parts, &shape, Some(&strides)) }
    }

    fn as_tensor_ref(&self) -> Result<TensorRef<'_>> {
        check(self)?;
        let parts = RawParts::of_elements(self.as_ptr().cast_mut(), Access::ReadOnly);
        // SAFETY: the contract of `TensorRef::from_raw_parts`: Storage, for a layout that was checked; the tensor,
        // its shape and its strides are borrowed for the same lifetime.
        unsafe { TensorRef::from_raw_parts(&parts, &self.shape, Some(&self.strides)) }
    }
}

impl<T: Element, const C: usize> KorniaExt for Image<T, C> {
    fn into_tensor(self) -> Result<Tensor> {
        self.0.into_tensor()
    }

    fn into_read_only_tensor(self) -> Result<Tensor> {
        self.0.into_read_only_tensor()
    }

    fn as_tensor_ref(&self) -> Result<TensorRef<'_>> {
        self.0.as_tensor_ref()
    }
}

/// Refuses memory of a device, and a layout that leads outside of the memory.
fn check<T, const N: usize>(tensor: &kornia_tensor::Tensor<T, N>) -> Result<()> {
    if let MemoryDomain::Device { id } = tensor.storage.domain() {
        return Err(Error::NotHostAccessible { device: Device::new(DeviceType::CUDA, id) });
    }
    tensor.check_layout().map_err(|_| {
        let steps = tensor.shape.iter().zip(tensor.strides);
        let highest = steps.fold(0_usize, |sum, (&extent, stride)| {
            sum.saturating_add((extent - 1).saturating_mul(stride))
        });
        let highest = i64::try_from(highest).unwrap_or(i64::MAX);
        Error::OutOfBounds { lowest: 0, highest, owner: tensor.numel() }
    })
}
