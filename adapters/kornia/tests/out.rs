//! Tensors and images of kornia become tensors: the same memory, the same values.

use std::sync::Arc;

use dlbridge::{Access, Device, DeviceType, Element, Error};
use dlbridge_kornia::{KorniaExt, TensorExt};
use dlbridge_testing::{foreign, through_c};
use half::{bf16, f16};
use kornia_image::{Image, ImageSize};
use kornia_tensor::{MemoryDomain, Tensor as Kornia};
use num_complex::Complex;

#[test]
fn every_dtype_both_ways() {
    fn both_ways<T: Element + PartialEq + std::fmt::Debug>(elements: [T; 4]) {
        let kornia = Kornia::from_shape_vec([2, 2], elements.to_vec()).unwrap();
        let first = kornia.as_ptr().addr();
        let borrowed = kornia.as_tensor_ref().unwrap();
        assert_eq!((borrowed.dtype(), borrowed.data().addr()), (T::DATA_TYPE, first));
        let tensor = kornia.into_tensor().unwrap();
        assert_eq!((tensor.dtype(), tensor.data().addr()), (T::DATA_TYPE, first));
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 2][..], &[2, 1][..]));
        assert_eq!(tensor.access(), Access::Exclusive);
        assert_eq!(tensor.view::<T>().unwrap().to_vec(), elements);
        let copy = tensor.to_kornia::<T, 2>().unwrap();
        assert_ne!(copy.as_ptr().addr(), first);
        assert_eq!(copy.into_vec(), elements);

        let (tensor, drops) = foreign(&elements, &[2, 2], Access::Exclusive);
        let first = tensor.data().addr();
        let kornia = tensor.into_kornia::<T, 2>().unwrap();
        assert_eq!((kornia.as_ptr().addr(), kornia.as_slice()), (first, &elements[..]));
        assert_eq!(drops.count(), 0);
        drop(kornia);
        assert_eq!(drops.count(), 1);
    }
    both_ways([1_i8, -2, 3, -4]);
    both_ways([1_i16, -2, 3, -4]);
    both_ways([1_i32, -2, 3, -4]);
    both_ways([1_i64, -2, 3, -4]);
    both_ways([1_i128, -2, 3, -4]);
    both_ways([1_isize, -2, 3, -4]);
    both_ways([1_u8, 2, 3, 4]);
    both_ways([1_u16, 2, 3, 4]);
    both_ways([1_u32, 2, 3, 4]);
    both_ways([1_u64, 2, 3, 4]);
    both_ways([1_u128, 2, 3, 4]);
    both_ways([1_usize, 2, 3, 4]);
    both_ways([1.0_f32, -2.0, 3.0, -4.0]);
    both_ways([1.0_f64, -2.0, 3.0, -4.0]);
    both_ways([1.0, -2.0, 3.0, -4.0].map(f16::from_f32));
    both_ways([1.0, -2.0, 3.0, -4.0].map(bf16::from_f32));
    both_ways([1.0, -2.0, 3.0, -4.0].map(|x: f32| Complex::new(x, -x)));
    both_ways([1.0, -2.0, 3.0, -4.0].map(|x: f64| Complex::new(x, -x)));
}

/// Exports `bool` read-only, so that consumers cannot write invalid bytes.
#[test]
fn bool_is_exported_read_only_and_imported_by_copy() {
    let kornia = Kornia::from_shape_vec([2], vec![true, false]).unwrap();
    let first = kornia.as_ptr().addr();
    assert_eq!(kornia.as_tensor_ref().unwrap().view::<bool>().unwrap().to_vec(), [true, false]);
    let tensor = kornia.into_read_only_tensor().unwrap();
    assert_eq!((tensor.data().addr(), tensor.access()), (first, Access::ReadOnly));
    assert_eq!(tensor.to_kornia::<bool, 1>().unwrap().into_vec(), [true, false]);
}

#[test]
fn any_strides_are_exported() {
    let strided = |strides| Kornia::from_shape_strides_vec([2, 3], strides, (0..6).collect());
    let columns: Kornia<i32, 2> = strided([1, 2]).unwrap();
    let tensor = columns.into_tensor().unwrap();
    assert_eq!(tensor.strides(), [1, 2]);
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [0, 2, 4, 1, 3, 5]);
    let whole = tensor.try_into_owner::<Kornia<i32, 2>>().unwrap();
    assert_eq!(whole.strides, [1, 2]);

    let repeated = strided([0, 1]).unwrap().into_tensor().unwrap();
    assert_eq!(repeated.view::<i32>().unwrap().to_vec(), [0, 1, 2, 0, 1, 2]);
}

#[test]
fn shapes_beyond_the_memory_are_refused() {
    let mut kornia = Kornia::<i32, 2>::zeros([2, 3]);
    kornia.shape = [2, 4];
    let error = Error::OutOfBounds { lowest: 0, highest: 6, owner: 6 };
    assert_eq!(kornia.as_tensor_ref().unwrap_err(), error);
    kornia.strides = [usize::MAX, usize::MAX];
    let error = Error::OutOfBounds { lowest: 0, highest: i64::MAX, owner: 6 };
    assert_eq!(kornia.into_tensor().unwrap_err(), error);

    let (tensor, drops) = foreign(&[1_u8, 2], &[2], Access::Immutable);
    let mut kornia = tensor.into_kornia::<u8, 1>().unwrap();
    kornia.shape = [3];
    let error = Error::OutOfBounds { lowest: 0, highest: 2, owner: 2 };
    assert_eq!(kornia.into_read_only_tensor().unwrap_err(), error);
    assert_eq!(drops.count(), 1);
}

#[test]
fn memory_of_a_device_is_refused() {
    let elements = Arc::new([1_u8, 2]);
    let over = |domain| {
        let (first, owner) = (elements.as_ptr(), Arc::clone(&elements));
        // SAFETY: the array has two elements, which the handle keeps; a tensor on a device is never read.
        unsafe { Kornia::<u8, 1>::from_borrowed_readonly([2], first, 2, domain, owner) }.unwrap()
    };
    let device = Device::new(DeviceType::CUDA, 3);
    let error = Error::NotHostAccessible { device };
    let kornia = over(MemoryDomain::Device { id: 3 });
    assert_eq!(kornia.as_tensor_ref().unwrap_err(), error);
    assert_eq!(kornia.into_read_only_tensor().unwrap_err(), error);
    assert_eq!(over(MemoryDomain::Device { id: 3 }).into_tensor().unwrap_err(), error);
    assert_eq!(Arc::strong_count(&elements), 1);
    // The CPU reaches kornia's unified memory, and kornia itself returns slices of it.
    let tensor = over(MemoryDomain::Unified { id: 3 }).into_read_only_tensor().unwrap();
    assert_eq!((tensor.device(), tensor.view::<u8>().unwrap().to_vec()), (Device::CPU, vec![1, 2]));
}

#[test]
fn tensors_without_elements_or_dimensions() {
    let tensor = Kornia::<f32, 3>::zeros([2, 0, 3]).into_tensor().unwrap();
    assert_eq!((tensor.shape(), tensor.data().is_null()), (&[2, 0, 3][..], true));
    assert!(Kornia::<f32, 1>::zeros([0]).as_tensor_ref().unwrap().is_empty());
    let kornia = tensor.into_kornia::<f32, 3>().unwrap();
    assert_eq!((kornia.shape, kornia.numel()), ([2, 0, 3], 0));

    let scalar = Kornia::<i64, 0>::from_shape_vec([], vec![7]).unwrap();
    let first = scalar.as_ptr().addr();
    let tensor = scalar.into_tensor().unwrap();
    assert_eq!((tensor.ndim(), tensor.data().addr()), (0, first));
    let (tensor, _) = foreign(&[8_i64], &[], Access::Exclusive);
    assert_eq!(tensor.into_kornia::<i64, 0>().unwrap().get([]), Some(&8));
}

#[test]
fn images_are_height_width_channels() {
    let size = ImageSize { width: 3, height: 2 };
    let image = Image::<u8, 3>::new(size, (0..18).collect()).unwrap();
    let first = image.as_ptr().addr();
    let view = image.as_tensor_ref().unwrap();
    assert_eq!((view.shape(), view.data().addr()), (&[2, 3, 3][..], first));
    let tensor = image.into_tensor().unwrap();
    assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3, 3][..], &[9, 3, 1][..]));
    assert_eq!((tensor.data().addr(), tensor.access()), (first, Access::Exclusive));
    let image = tensor.into_image::<u8, 3>().unwrap();
    assert_eq!((image.as_ptr().addr(), image.size()), (first, size));
    assert_eq!(image.into_vec(), (0..18).collect::<Vec<u8>>(), "kornia's own memory again");
}

#[test]
fn through_a_managed_tensor_and_back() {
    let kornia = Kornia::from_shape_vec([2, 2], vec![1.0, 2.0, 3.0, 4.0_f32]).unwrap();
    let first = kornia.as_ptr().addr();
    let tensor = through_c(kornia.into_tensor().unwrap());
    let kornia = tensor.into_kornia::<f32, 2>().unwrap();
    assert_eq!(kornia.as_ptr().addr(), first);
    assert_eq!(kornia.into_vec(), [1.0, 2.0, 3.0, 4.0], "kornia's own memory again");
}
