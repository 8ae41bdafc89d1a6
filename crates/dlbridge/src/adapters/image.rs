//! image 0.25: buffers as owners of height × width × channels; tensors as views, and as buffers that own the tensor.

use core::ops::Deref;

use image::{ImageBuffer, Pixel};

use crate::{
    Element, Error, Owner, Result, Tensor, TensorSlice, TensorSliceMut, TensorView, TensorViewMut,
};

/// The shape is height × width × channels, the dtype that of a channel. [`Tensor::try_into_owner`] returns the
/// container.
impl<P, C> From<ImageBuffer<P, C>> for Tensor
where
    P: Pixel<Subpixel: Element>,
    C: Owner<Item = P::Subpixel> + Deref<Target = [P::Subpixel]>,
{
    fn from(image: ImageBuffer<P, C>) -> Self {
        let (width, height) = (image.width() as usize, image.height() as usize);
        let channels = usize::from(P::CHANNEL_COUNT);
        let strides = [(width * channels) as isize, channels as isize, 1];
        // The container may hold more than the pixels, so the tensor may be a slice of it.
        Self::from_parts_strided(image.into_raw(), [height, width, channels], strides, 0)
            .expect("an image's container holds its pixels")
    }
}

/// Width and height of height × width × channels, or of height × width for one channel.
fn dimensions<P: Pixel>(shape: &[i64]) -> Result<(u32, u32)> {
    let channels = usize::from(P::CHANNEL_COUNT);
    let (height, width) = match *shape {
        [height, width] if channels == 1 => (height, width),
        [height, width, found] if found as usize == channels => (height, width),
        [_, _, found] => {
            return Err(Error::Extent { axis: 2, expected: channels, found: found as usize });
        }
        _ => return Err(Error::Ndim { expected: 3, found: shape.len() }),
    };
    let side = |axis: usize, extent: i64| {
        let (limit, found) = (u32::MAX as usize, extent as usize);
        u32::try_from(extent).map_err(|_| Error::ExtentLimit { axis, limit, found })
    };
    Ok((side(1, width)?, side(0, height)?))
}

/// The image over a container that holds exactly its channels.
fn over<P, C>(shape: (u32, u32), container: C) -> ImageBuffer<P, C>
where
    P: Pixel,
    C: Deref<Target = [P::Subpixel]>,
{
    ImageBuffer::from_raw(shape.0, shape.1, container).expect("the shape was checked")
}

/// From height × width × channels, or height × width for one channel, contiguous in C order.
impl<'a, P> TryFrom<TensorView<'a, P::Subpixel>> for ImageBuffer<P, &'a [P::Subpixel]>
where
    P: Pixel<Subpixel: Element>,
{
    type Error = Error;

    fn try_from(view: TensorView<'a, P::Subpixel>) -> Result<Self> {
        Ok(over(dimensions::<P>(view.shape())?, view.try_into()?))
    }
}

/// From height × width × channels, or height × width for one channel, contiguous in C order.
impl<'a, P> TryFrom<TensorViewMut<'a, P::Subpixel>> for ImageBuffer<P, &'a mut [P::Subpixel]>
where
    P: Pixel<Subpixel: Element>,
{
    type Error = Error;

    fn try_from(view: TensorViewMut<'a, P::Subpixel>) -> Result<Self> {
        Ok(over(dimensions::<P>(view.shape())?, view.try_into()?))
    }
}

/// An image that owns the tensor. The tensor is dropped on error.
impl<P> TryFrom<Tensor> for ImageBuffer<P, TensorSlice<P::Subpixel>>
where
    P: Pixel<Subpixel: Element>,
{
    type Error = Error;

    fn try_from(tensor: Tensor) -> Result<Self> {
        Ok(over(dimensions::<P>(tensor.shape())?, tensor.try_into()?))
    }
}

/// A writable image that owns the tensor. The tensor is dropped on error.
impl<P> TryFrom<Tensor> for ImageBuffer<P, TensorSliceMut<P::Subpixel>>
where
    P: Pixel<Subpixel: Element>,
{
    type Error = Error;

    fn try_from(tensor: Tensor) -> Result<Self> {
        Ok(over(dimensions::<P>(tensor.shape())?, tensor.try_into()?))
    }
}
