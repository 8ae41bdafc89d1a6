//! Tensors and views of rten become tensors: the same memory, the same values.

use std::sync::Arc;

use dlbridge::{Access, Element, Error};
use dlbridge_rten::{RtenExt, RtenRefExt, TensorExt, TensorStorage};
use dlbridge_testing::{foreign, through_c};
use half::{bf16, f16};
use num_complex::Complex;
use rten_tensor::prelude::*;
use rten_tensor::{ArcTensor, DynLayout, NdTensor, Tensor as Rten, TensorBase};

#[test]
fn every_dtype_both_ways() {
    fn both_ways<T: Element + PartialEq + std::fmt::Debug>(elements: [T; 4]) {
        let rten = Rten::from_data(&[2, 2], elements.to_vec());
        let first = rten.data_ptr().addr();
        let borrowed = rten.as_tensor_ref().unwrap();
        assert_eq!((borrowed.dtype(), borrowed.data().addr()), (T::DATA_TYPE, first));
        assert_eq!(borrowed.view::<T>().unwrap().to_vec(), elements);
        let tensor = rten.into_tensor().unwrap();
        assert_eq!((tensor.dtype(), tensor.data().addr()), (T::DATA_TYPE, first));
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 2][..], &[2, 1][..]));
        assert_eq!(tensor.access(), Access::Exclusive);
        assert_eq!(tensor.view::<T>().unwrap().to_vec(), elements);
        let copy = tensor.to_rten::<T>().unwrap();
        assert_ne!(copy.data_ptr().addr(), first);
        assert_eq!(copy.into_data(), elements);
        let whole = tensor.try_into_owner::<Rten<T>>().unwrap();
        assert_eq!((whole.data_ptr().addr(), whole.into_data()), (first, elements.to_vec()));

        let (tensor, drops) = foreign(&elements, &[2, 2], Access::Exclusive);
        let first = tensor.data().addr();
        let rten = tensor.into_rten::<T>().unwrap();
        assert_eq!((rten.data_ptr().addr(), rten.data().unwrap()), (first, &elements[..]));
        assert_eq!(drops.count(), 0);
        drop(rten);
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
    let rten = Rten::from_data(&[2], vec![true, false]);
    assert_eq!(rten.as_tensor_ref().unwrap().view::<bool>().unwrap().to_vec(), [true, false]);
    let tensor = rten.into_arc().into_tensor().unwrap();
    assert_eq!(tensor.access(), Access::Immutable);
    assert_eq!(tensor.to_rten::<bool>().unwrap().into_data(), [true, false]);
}

#[test]
fn any_layout_is_exported() {
    let rten = NdTensor::from_data([2, 3], vec![1, 2, 3, 4, 5, 6]);
    let first = rten.data_ptr().addr();
    let columns = rten.view().transposed();
    let borrowed = columns.as_tensor_ref().unwrap();
    assert_eq!((borrowed.shape(), borrowed.strides()), (&[3, 2][..], &[1, 3][..]));
    assert_eq!(borrowed.view::<i32>().unwrap().to_vec(), [1, 4, 2, 5, 3, 6]);
    let part = rten.slice((.., 1..));
    let borrowed = part.as_tensor_ref().unwrap();
    assert_eq!((borrowed.data().addr(), borrowed.strides()), (first + 4, &[3, 1][..]));
    assert_eq!(borrowed.view::<i32>().unwrap().to_vec(), [2, 3, 5, 6]);
    let repeated = rten.slice(0).broadcast([2, 3]);
    let borrowed = repeated.as_tensor_ref().unwrap();
    assert_eq!(borrowed.strides(), [0, 1]);
    assert_eq!(borrowed.view::<i32>().unwrap().to_vec(), [1, 2, 3, 1, 2, 3]);

    let tensor = rten.into_permuted([1, 0]).into_tensor().unwrap();
    assert_eq!((tensor.data().addr(), tensor.strides()), (first, &[1, 3][..]));
    assert_eq!(tensor.try_into_owner::<NdTensor<i32, 2>>().unwrap().shape(), [3, 2]);
}

#[test]
fn tensors_without_elements_or_dimensions() {
    let tensor = Rten::<f32>::zeros(&[2, 0, 3]).into_tensor().unwrap();
    assert_eq!((tensor.shape(), tensor.data().is_null()), (&[2, 0, 3][..], true));
    let copy = tensor.to_rten::<f32>().unwrap();
    assert_eq!(copy.shape(), [2, 0, 3]);
    let rten = tensor.into_rten::<f32>().unwrap();
    assert_eq!((rten.shape(), rten.strides()), (&[2, 0, 3][..], copy.strides()));
    assert!(rten.as_tensor_ref().unwrap().is_empty());

    let scalar = Rten::from_scalar(7_i64);
    let first = scalar.data_ptr().addr();
    let tensor = scalar.into_tensor().unwrap();
    assert_eq!((tensor.ndim(), tensor.data().addr()), (0, first));
    let rten = tensor.into_rten_mut::<i64>().unwrap();
    assert_eq!((rten.ndim(), rten.data_ptr().addr(), rten.item()), (0, first, Some(&7)));
}

#[test]
fn shared_rten_tensor_is_exported_read_only() {
    let elements = Arc::new(vec![1_u8, 2]);
    let rten: ArcTensor<u8> = TensorBase::from_data(&[2][..], Arc::clone(&elements));
    let tensor = rten.into_tensor().unwrap();
    assert_eq!(tensor.data().addr(), elements.as_ptr().addr());
    assert_eq!((tensor.access(), Arc::strong_count(&elements)), (Access::Immutable, 2));
    let rten = tensor.try_into_owner::<ArcTensor<u8>>().unwrap();
    assert_eq!(rten.to_vec(), [1, 2]);
    drop(rten.into_tensor().unwrap());
    assert_eq!(Arc::strong_count(&elements), 1);
}

#[test]
fn through_a_managed_tensor_and_back() {
    let (tensor, drops) = foreign(&[1.0_f32, 2.0], &[2, 1], Access::Immutable);
    let first = tensor.data().addr();
    let tensor = tensor.into_rten::<f32>().unwrap().into_tensor().unwrap();
    assert_eq!((tensor.data().addr(), tensor.access()), (first, Access::Immutable));
    let tensor = through_c(tensor);
    let rten = tensor.into_rten::<f32>().unwrap();
    assert_eq!((rten.data_ptr().addr(), drops.count()), (first, 0));
    // The same object, not another one around it.
    let tensor = rten.into_tensor().unwrap();
    let rten = tensor.try_into_owner::<TensorBase<TensorStorage<f32>, DynLayout>>().unwrap();
    assert_eq!(rten.into_rank::<2>().unwrap()[[1, 0]], 2.0);
    assert_eq!(drops.count(), 1);
}

#[test]
fn too_many_dimensions_are_refused() {
    let rten = Rten::<u8>::zeros(&[1; 1025]);
    let error = Error::InvalidNdim { ndim: 1025 };
    assert_eq!(rten.as_tensor_ref().unwrap_err(), error);
    assert_eq!(rten.into_tensor().unwrap_err(), error);
}

/// A layout in safe code that gives rten and other callers different answers.
#[derive(Clone)]
struct Liar;

impl Layout for Liar {
    type Shape<'a> = [usize; 2];
    type Strides<'a> = [usize; 2];
    type Index<'a> = [usize; 2];
    type Indices = ();

    fn shape(&self) -> [usize; 2] {
        [2, 3]
    }

    fn strides(&self) -> [usize; 2] {
        [3, 1]
    }

    fn indices(&self) {}

    fn min_data_len(&self) -> usize {
        0
    }
}

#[test]
fn layouts_beyond_the_storage_are_refused() {
    let error = Error::OutOfBounds { lowest: 0, highest: 5, owner: 5 };
    let rten = TensorBase::from_storage_and_layout(vec![0_u8; 5], Liar);
    assert_eq!(rten.as_tensor_ref().unwrap_err(), error);
    assert_eq!(rten.into_tensor().unwrap_err(), error);
    let elements = Arc::new(vec![0_u8; 5]);
    let rten = TensorBase::from_storage_and_layout(Arc::clone(&elements), Liar);
    assert_eq!(rten.into_tensor().unwrap_err(), error);
    assert_eq!(Arc::strong_count(&elements), 1);
    let rten = TensorBase::from_storage_and_layout(vec![0_u8; 6], Liar);
    assert_eq!(rten.into_tensor().unwrap().shape(), [2, 3]);
}
