//! Tensors to tensors and images of kornia.

use std::sync::Arc;

use dlbridge::{Access, Element, Error, Result, Tensor, TensorRef};
use kornia_image::Image;

use crate::KorniaExt;
use crate::sealed::Sealed;

/// Tensors as tensors and images of kornia.
pub trait TensorExt: Sealed {
    /// Turns the tensor into one of kornia that keeps it alive, without a copy. A tensor that was made of one of
    /// kornia becomes that one again, unless it is a slice of it.
    ///
    /// Other [`Access::Immutable`] memory is read-only in kornia, which panics on a write.
    ///
    /// Elements with an [`Element::CHECK`], such as `bool`, do not compile: they would need the check before each
    /// access. [`to_kornia`](Self::to_kornia) copies them.
    ///
    /// ```compile_fail,E0080
    /// use dlbridge_kornia::TensorExt;
    ///
    /// let kornia = dlbridge::Tensor::from(vec![true]).into_kornia::<bool, 1>();
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::view`]; [`Error::Ndim`]; [`Error::NotContiguous`] unless the elements are contiguous in C
    /// order; [`Error::Unstable`] if other code may write the elements: [`Tensor::into_exclusive`] copies them, and
    /// the unsafe [`Tensor::assume_immutable`] promises that no code writes them. The tensor is dropped.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_kornia::TensorExt;
    ///
    /// let kornia = Tensor::from([[1, 2], [3, 4]]).into_kornia::<i32, 2>()?;
    /// assert_eq!(kornia.as_slice(), [1, 2, 3, 4]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn into_kornia<T: Element, const N: usize>(self) -> Result<kornia_tensor::Tensor<T, N>>;

    /// Copies the elements into a tensor that kornia owns, from any strides and alignment.
    ///
    /// # Errors
    /// Those of [`Tensor::view`], except for alignment; [`Error::Ndim`]; [`Error::OutOfMemory`] if the allocation
    /// fails.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_kornia::TensorExt;
    ///
    /// let columns = Tensor::from([[1, 2], [3, 4]]).transpose();
    /// assert_eq!(columns.to_kornia::<i32, 2>()?.into_vec(), [1, 3, 2, 4]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn to_kornia<T: Element, const N: usize>(&self) -> Result<kornia_tensor::Tensor<T, N>>;

    /// Turns height × width × channels, or height × width for one channel, into an image that keeps the tensor alive,
    /// without a copy.
    ///
    /// # Errors
    /// Those of [`into_kornia`](Self::into_kornia), and [`Error::Extent`] for another number of channels. The tensor is
    /// dropped.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_kornia::TensorExt;
    ///
    /// let image = Tensor::from([[[0_u8; 3]; 640]; 480]).into_image::<u8, 3>()?;
    /// assert_eq!((image.width(), image.height()), (640, 480));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn into_image<T: Element, const C: usize>(self) -> Result<Image<T, C>>;

    /// Copies height × width × channels, or height × width for one channel, into an image, from any strides and
    /// alignment.
    ///
    /// # Errors
    /// Those of [`to_kornia`](Self::to_kornia), and [`Error::Extent`] for another number of channels.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_kornia::TensorExt;
    ///
    /// let planes = Tensor::from_parts((0..12).collect::<Vec<u8>>(), [3, 2, 2])?;
    /// let image = planes.permute([1, 2, 0])?.to_image::<u8, 3>()?;
    /// assert_eq!(image.get([0, 1, 2]), Some(&9));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn to_image<T: Element, const C: usize>(&self) -> Result<Image<T, C>>;
}

impl Sealed for Tensor {}

impl TensorExt for Tensor {
    fn into_kornia<T: Element, const N: usize>(self) -> Result<kornia_tensor::Tensor<T, N>> {
        const { assert!(T::CHECK.is_none(), "such elements must be checked before each access") }
        let view = self.view::<T>()?;
        let shape = extents::<N>(view.shape())?;
        if view.as_slice().is_none() {
            return Err(Error::NotContiguous);
        }
        // The view's own pointer: a pointer made of a reference would not survive a write through kornia.
        let (first, writable) = (view.as_ptr(), self.access() == Access::Exclusive);
        let stable = self.check_stable();
        if view.is_empty() {
            return Ok(own(shape, Vec::new()));
        }
        match self.try_into_owner::<kornia_tensor::Tensor<T, N>>() {
            Ok(kornia) if is_whole(&kornia, first, shape) => Ok(kornia),
            Ok(kornia) => {
                if !is_within(&kornia, first, shape) {
                    stable?;
                }
                // A tensor around the owner: only tensors drop in chains without recursion.
                let owner = kornia.into_read_only_tensor()?;
                // SAFETY: just viewed. The owner keeps the elements, and no other code has it. Either they are its own,
                // or memory that kornia itself returns slices of; or the tensor was stable.
                Ok(unsafe { adopt(owner, first, shape, writable) })
            }
            Err(tensor) => {
                tensor.check_stable()?;
                // SAFETY: just viewed, and stable: exclusive, and the tensor of kornia becomes its only holder
                // (Exclusive); or immutable (Immutable).
                Ok(unsafe { adopt(tensor, first, shape, writable) })
            }
        }
    }

    fn to_kornia<T: Element, const N: usize>(&self) -> Result<kornia_tensor::Tensor<T, N>> {
        let shape = extents::<N>(self.shape())?;
        Ok(own(shape, TensorRef::from(self).to_vec()?))
    }

    fn into_image<T: Element, const C: usize>(self) -> Result<Image<T, C>> {
        image_shape::<C>(self.shape())?;
        let tensor = if self.ndim() == 2 { self.insert_axis(2)? } else { self };
        tensor.into_kornia().map(Image)
    }

    fn to_image<T: Element, const C: usize>(&self) -> Result<Image<T, C>> {
        let shape = image_shape::<C>(self.shape())?;
        Ok(Image(own(shape, TensorRef::from(self).to_vec()?)))
    }
}

/// Returns whether the owner of a tensor has exactly the elements of the tensor. Its memory must not extend beyond
/// its shape, which is a public field.
fn is_whole<T, const N: usize>(
    kornia: &kornia_tensor::Tensor<T, N>,
    first: *const T,
    shape: [usize; N],
) -> bool {
    kornia.as_ptr() == first
        && kornia.shape == shape
        && kornia.is_standard_layout()
        && kornia.numel() == shape.iter().product::<usize>()
}

/// Returns whether contiguous elements are in the storage of the owner of their tensor.
fn is_within<T, const N: usize>(
    kornia: &kornia_tensor::Tensor<T, N>,
    first: *const T,
    shape: [usize; N],
) -> bool {
    let bytes = |elements: usize| elements.saturating_mul(size_of::<T>());
    let begin = first.addr().checked_sub(kornia.as_ptr().addr());
    let end = begin.and_then(|begin| begin.checked_add(bytes(shape.iter().product())));
    end.is_some_and(|end| end <= bytes(kornia.numel()))
}

/// Makes a tensor of kornia over elements that an owner keeps alive.
///
/// # Safety
/// `first` is the first of the elements of `shape`, which are aligned, initialised and contiguous in C order. They
/// stay in place until the owner is dropped, also when it moves. Until then only the tensor of kornia writes them; if
/// it is `writable`, nothing else reads them either.
unsafe fn adopt<T: Element, const N: usize>(
    owner: Tensor,
    first: *const T,
    shape: [usize; N],
    writable: bool,
) -> kornia_tensor::Tensor<T, N> {
    let (len, owner) = (shape.iter().product(), Arc::new(owner));
    // SAFETY: the caller guarantees aligned, initialised elements, contiguous in C order, as many as the shape has,
    // that the owner keeps in place, and that nothing else writes them. Kornia writes them only through the pointer
    // of the first function, for which the caller guarantees that nothing else reads them.
    let kornia = unsafe {
        match writable {
            true => kornia_tensor::Tensor::from_borrowed_host(shape, first, len, owner),
            false => kornia_tensor::Tensor::from_borrowed_host_readonly(shape, first, len, owner),
        }
    };
    kornia.expect("the elements are as many as the shape has")
}

/// Makes a tensor that kornia owns.
fn own<T, const N: usize>(shape: [usize; N], elements: Vec<T>) -> kornia_tensor::Tensor<T, N> {
    kornia_tensor::Tensor::from_shape_vec(shape, elements).expect("as many as the shape has")
}

/// The extents; an error for another number of dimensions.
fn extents<const N: usize>(shape: &[i64]) -> Result<[usize; N]> {
    let found: &[i64; N] =
        shape.try_into().map_err(|_| Error::Ndim { expected: N, found: shape.len() })?;
    Ok(found.map(|extent| extent as usize))
}

/// Height, width and channels of height × width × channels, or of height × width for one channel.
fn image_shape<const C: usize>(shape: &[i64]) -> Result<[usize; 3]> {
    let [height, width, channels] = match *shape {
        [height, width] if C == 1 => [height as usize, width as usize, 1],
        _ => extents(shape)?,
    };
    if channels != C {
        return Err(Error::Extent { axis: 2, expected: C, found: channels });
    }
    Ok([height, width, channels])
}
