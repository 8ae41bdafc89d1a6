//! Image buffers to tensors of shape height × width × channels, and tensors to image views and owned images.
#![cfg(feature = "image")]

use std::sync::Arc;

use crate::common::{Counted, Producer, take};
use dlbridge::{Access, DataType, Error, Tensor, TensorSlice, TensorSliceMut};
use image::{
    GrayAlphaImage, GrayImage, ImageBuffer, Luma, Pixel, Rgb, Rgb32FImage, RgbImage, Rgba,
    Rgba32FImage, RgbaImage,
};

type Rgba16Image = ImageBuffer<Rgba<u16>, Vec<u16>>;

/// An image of 3 × 2 pixels, all channels different.
fn picture() -> RgbImage {
    RgbImage::from_fn(3, 2, |x, y| Rgb([0, 1, 2].map(|c| (y * 100 + x * 10 + c) as u8)))
}

#[test]
fn images_of_every_type_round_trip() {
    fn check<P: Pixel<Subpixel: dlbridge::Element + PartialEq> + 'static>(
        image: ImageBuffer<P, Vec<P::Subpixel>>,
        shape: [i64; 3],
        dtype: DataType,
    ) {
        let (container, address) = (image.as_raw().clone(), image.as_raw().as_ptr());
        let tensor = Tensor::from(image);
        assert_eq!((tensor.shape(), tensor.dtype()), (&shape[..], dtype));
        assert_eq!(tensor.strides(), [shape[1] * shape[2], shape[2], 1]);
        assert!(tensor.is_c_contiguous() && tensor.access() == Access::Exclusive);
        assert_eq!(tensor.data().addr(), address.addr());
        let container_back = tensor.try_into_owner::<Vec<P::Subpixel>>().unwrap();
        assert_eq!(container_back.as_ptr(), address);
        assert!(container_back == container);
    }
    check(picture(), [2, 3, 3], DataType::UINT8);
    check(GrayImage::new(4, 5), [5, 4, 1], DataType::UINT8);
    check(GrayAlphaImage::new(4, 5), [5, 4, 2], DataType::UINT8);
    check(RgbaImage::new(1, 7), [7, 1, 4], DataType::UINT8);
    check(Rgba16Image::new(2, 3), [3, 2, 4], DataType::UINT16);
    check(Rgb32FImage::new(2, 3), [3, 2, 3], DataType::FLOAT32);
    check(Rgba32FImage::new(2, 3), [3, 2, 4], DataType::FLOAT32);
}

#[test]
fn pixel_has_the_same_index_in_the_tensor() {
    let tensor = Tensor::from(picture());
    let view = tensor.view::<u8>().unwrap();
    for (x, y, pixel) in picture().enumerate_pixels() {
        for channel in 0..3 {
            assert_eq!(view[[y as usize, x as usize, channel]], pixel[channel]);
        }
    }
}

#[test]
fn containers_of_other_kinds_become_tensors() {
    let shared: Arc<[u8]> = picture().into_raw().into();
    let image = ImageBuffer::<Rgb<u8>, _>::from_raw(3, 2, Arc::clone(&shared)).unwrap();
    let tensor = Tensor::from(image);
    assert_eq!(
        (tensor.access(), tensor.data().addr()),
        (Access::Immutable, shared.as_ptr().addr())
    );

    static PIXELS: [u8; 4] = [1, 2, 3, 4];
    let tensor = Tensor::from(ImageBuffer::<Luma<u8>, _>::from_raw(2, 2, &PIXELS[..]).unwrap());
    assert_eq!((tensor.access(), tensor.shape()), (Access::Immutable, &[2, 2, 1][..]));
    let boxed: Box<[u8]> = Box::new(PIXELS);
    let tensor = Tensor::from(ImageBuffer::<Luma<u8>, _>::from_raw(4, 1, boxed).unwrap());
    assert_eq!((tensor.access(), tensor.shape()), (Access::Exclusive, &[1, 4, 1][..]));
}

#[test]
fn container_longer_than_its_image_is_accepted() {
    let container: Vec<u8> = (0..100).collect();
    let image = RgbImage::from_raw(3, 2, container).unwrap();
    let tensor = Tensor::from(image);
    assert_eq!((tensor.shape(), tensor.nbytes()), (&[2, 3, 3][..], 18));
    let seen = ImageBuffer::<Rgb<u8>, _>::try_from(tensor.view::<u8>().unwrap()).unwrap();
    assert_eq!((seen.as_raw().len(), seen[(2, 1)]), (18, Rgb([15, 16, 17])));
    assert_eq!(tensor.try_into_owner::<Vec<u8>>().unwrap().len(), 100);
}

#[test]
fn tensor_is_viewed_as_an_image() {
    let tensor = Tensor::from(picture());
    let seen: ImageBuffer<Rgb<u8>, &[u8]> = tensor.view::<u8>().unwrap().try_into().unwrap();
    assert_eq!((seen.dimensions(), seen.as_raw().as_ptr().addr()), ((3, 2), tensor.data().addr()));
    assert!(seen.pixels().eq(picture().pixels()));

    // One channel needs no axis of its own.
    let tensor = Tensor::from([[1_u16, 2, 3], [4, 5, 6]]);
    let seen: ImageBuffer<Luma<u16>, &[u16]> = tensor.view::<u16>().unwrap().try_into().unwrap();
    assert_eq!((seen.dimensions(), seen[(2, 1)]), ((3, 2), Luma([6])));
    let tensor = Tensor::from([[[1_u16], [2], [3]], [[4], [5], [6]]]);
    let seen: ImageBuffer<Luma<u16>, &[u16]> = tensor.view::<u16>().unwrap().try_into().unwrap();
    assert_eq!((seen.dimensions(), seen[(0, 1)]), ((3, 2), Luma([4])));
}

#[test]
fn image_view_of_a_tensor_writes_the_tensor() {
    let mut tensor = Tensor::from(picture());
    let view = tensor.view_mut::<u8>().unwrap();
    let mut seen: ImageBuffer<Rgb<u8>, &mut [u8]> = view.try_into().unwrap();
    seen.put_pixel(2, 1, Rgb([7, 8, 9]));
    let pixels = tensor.try_into_owner::<Vec<u8>>().unwrap();
    assert_eq!(pixels[15..], [7, 8, 9]);
}

#[test]
fn owned_image_keeps_its_tensor_alive() {
    let (owner, dropped) = Counted::new(picture().into_raw());
    let tensor = Tensor::from_parts(owner, [2, 3, 3]).unwrap();
    let address = tensor.data().addr();
    let image: ImageBuffer<Rgb<u8>, TensorSlice<u8>> = tensor.try_into().unwrap();
    assert_eq!((image.as_raw().as_ptr().addr(), image[(1, 0)]), (address, Rgb([10, 11, 12])));
    assert!(image.pixels().eq(picture().pixels()));
    let tensor = image.into_raw().into_tensor();

    let mut image: ImageBuffer<Rgb<u8>, TensorSliceMut<u8>> = tensor.try_into().unwrap();
    image.pixels_mut().for_each(Pixel::invert);
    image::imageops::flip_horizontal_in_place(&mut image);
    assert_eq!((image.as_raw().as_ptr().addr(), image[(2, 0)]), (address, Rgb([255, 254, 253])));
    let tensor = image.into_raw().into_tensor();
    assert_eq!((tensor.shape(), dropped.get()), (&[2, 3, 3][..], 0));
    drop(ImageBuffer::<Rgb<u8>, TensorSlice<u8>>::try_from(tensor).unwrap());
    assert_eq!(dropped.get(), 1);
}

#[test]
fn imported_image_is_viewed_and_exported_again() {
    let producer = Producer::new(picture().into_raw(), &[2, 3, 3]).flags(1);
    let deleted = producer.deleted();
    let image = ImageBuffer::<Rgb<u8>, TensorSlice<u8>>::try_from(producer.import().unwrap());
    let image = image.unwrap();
    assert_eq!(image[(2, 1)], Rgb([120, 121, 122]));
    let tensor = take(image.into_raw().into_tensor().into_raw()).unwrap();
    let error = ImageBuffer::<Rgb<u8>, TensorSliceMut<u8>>::try_from(tensor).map(drop).unwrap_err();
    assert_eq!((error, deleted.get()), (Error::ReadOnly, 1));
}

#[test]
fn tensor_that_is_not_an_image_is_refused() {
    fn error<P: Pixel<Subpixel = u8>>(tensor: &Tensor) -> Error {
        let view = tensor.view::<u8>().unwrap();
        ImageBuffer::<P, &[u8]>::try_from(view).map(drop).unwrap_err()
    }
    let rgba = Tensor::from(vec![[[0_u8; 4]; 3]; 2]);
    assert_eq!(error::<Rgb<u8>>(&rgba), Error::Extent { axis: 2, expected: 3, found: 4 });
    assert_eq!(error::<Luma<u8>>(&rgba), Error::Extent { axis: 2, expected: 1, found: 4 });
    let flat = Tensor::from(vec![[0_u8; 3]; 3]);
    assert_eq!(error::<Rgb<u8>>(&flat), Error::Ndim { expected: 3, found: 2 });
    assert_eq!(error::<Luma<u8>>(&Tensor::from(vec![0_u8])), Error::Ndim { expected: 3, found: 1 });
    let deep = Tensor::from(vec![[[[0_u8; 3]; 1]; 1]; 1]);
    assert_eq!(error::<Rgb<u8>>(&deep), Error::Ndim { expected: 3, found: 4 });
    assert_eq!(
        error::<Rgb<u8>>(&Tensor::from(vec![0_u8; 3])),
        Error::Ndim { expected: 3, found: 1 }
    );

    let planes = Tensor::from_parts_strided(vec![0_u8; 18], [2, 3, 3], [3, 1, 6], 0).unwrap();
    assert_eq!(error::<Rgb<u8>>(&planes), Error::NotContiguous);
    let cropped = Tensor::from_parts_strided(vec![0_u8; 18], [2, 2, 3], [9, 3, 1], 3).unwrap();
    assert_eq!(error::<Rgb<u8>>(&cropped), Error::NotContiguous);
    let mut flipped = Tensor::from_parts_strided(vec![0_u8; 18], [2, 3, 3], [-9, 3, 1], 9).unwrap();
    assert_eq!(error::<Rgb<u8>>(&flipped), Error::NotContiguous);
    let view = flipped.view_mut::<u8>().unwrap();
    let refused = ImageBuffer::<Rgb<u8>, &mut [u8]>::try_from(view).map(drop);
    assert_eq!(refused, Err(Error::NotContiguous));
}

#[test]
fn refused_tensor_is_dropped() {
    for shape in [&[18][..], &[3, 2, 3], &[2, 9, 1]] {
        let (owner, dropped) = Counted::new(vec![0_u8; 18]);
        let tensor = Tensor::from_parts_strided(owner, shape, vec![-1; shape.len()], 17).unwrap();
        let refused = ImageBuffer::<Rgb<u8>, TensorSlice<u8>>::try_from(tensor).map(drop);
        assert!(refused.is_err() && dropped.get() == 1, "{shape:?}");
    }
    let refused =
        ImageBuffer::<Rgb<u8>, TensorSlice<u8>>::try_from(Tensor::from(vec![[[0_i8; 3]]]));
    let error = Error::DataType { expected: DataType::UINT8, found: DataType::INT8 };
    assert_eq!(refused.map(drop), Err(error));
}

#[test]
fn images_without_pixels_round_trip() {
    let wide = if cfg!(target_pointer_width = "64") { u32::MAX } else { 1 << 20 };
    for (width, height) in [(0, 0), (0, 5), (5, 0), (wide, 0)] {
        let tensor = Tensor::from(RgbImage::from_raw(width, height, Vec::new()).unwrap());
        assert_eq!(tensor.shape(), [height.into(), width.into(), 3]);
        assert!(tensor.data().is_null() && tensor.is_c_contiguous());
        let seen = ImageBuffer::<Rgb<u8>, _>::try_from(tensor.view::<u8>().unwrap()).unwrap();
        assert_eq!((seen.dimensions(), seen.as_raw().len()), ((width, height), 0));
        let image = ImageBuffer::<Rgb<u8>, TensorSliceMut<u8>>::try_from(tensor).unwrap();
        assert_eq!(image.pixels().count(), 0);
    }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn side_longer_than_an_image_can_have_is_refused() {
    let wide = Tensor::from_parts(Vec::<u8>::new(), [0, 1 << 32, 3]).unwrap();
    let seen = ImageBuffer::<Rgb<u8>, &[u8]>::try_from(wide.view::<u8>().unwrap()).map(drop);
    let error = Error::ExtentLimit { axis: 1, limit: u32::MAX as usize, found: 1 << 32 };
    assert_eq!(seen, Err(error));
}
