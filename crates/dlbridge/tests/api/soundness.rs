//! Attempts to break memory safety from safe code. Miri checks that none of them does.

use std::num::NonZeroU32;

use crate::common::{Counted, Producer, delete};
use dlbridge::{DataType, Element, Error, Tensor, TensorSlice, TensorSliceMut};

/// An integer that is never zero.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
struct NeverZero(NonZeroU32);

// SAFETY: the type is a transparent wrapper around a `u32`; the check accepts all bit patterns except zero.
unsafe impl Element for NeverZero {
    const DATA_TYPE: DataType = DataType::UINT32;
    const CHECK: Option<fn(&[u8]) -> bool> = Some(|bytes| bytes != [0; 4]);
}

/// Any byte of a boolean tensor, valid or not.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Truth(u8);

// SAFETY: the type is a transparent wrapper around a byte, and every bit pattern is a valid value.
unsafe impl Element for Truth {
    const DATA_TYPE: DataType = DataType::BOOL;
}

#[test]
fn owner_with_elements_that_became_invalid_is_not_returned() {
    let one = NeverZero(NonZeroU32::MIN);
    let mut tensor = Tensor::from(vec![one; 3]);
    tensor.view_mut::<u32>().unwrap()[[1]] = 0;
    let mut tensor = tensor.try_into_owner::<Vec<NeverZero>>().unwrap_err();
    tensor.view_mut::<u32>().unwrap()[[1]] = 1;
    assert_eq!(tensor.try_into_owner::<Vec<NeverZero>>().unwrap(), [one; 3]);

    let mut tensor = Tensor::from(vec![true, false]);
    tensor.view_mut::<Truth>().unwrap()[[0]] = Truth(2);
    assert!(tensor.try_into_owner::<Vec<bool>>().is_err());
}

#[test]
fn owner_that_a_consumer_made_invalid_is_not_returned() {
    let tensor = Tensor::from([[true; 2]; 2]).into_shared();
    let managed = tensor.to_raw();
    // SAFETY: this test is the only consumer, without the read-only flag, and writes the last of four bytes.
    unsafe { (*managed).dl_tensor.data.cast::<u8>().add(3).write(9) };
    delete(managed);
    let tensor = tensor.try_into_tensor().unwrap();
    let tensor = tensor.try_into_owner::<Box<[[bool; 2]; 2]>>().unwrap_err();
    assert_eq!(tensor.view_bool_as_u8().unwrap()[[1, 1]], 9);
}

#[test]
#[cfg(feature = "ndarray")]
fn array_with_elements_that_became_invalid_is_not_returned() {
    let mut tensor = Tensor::from(ndarray::arr2(&[[true, false], [false, true]]));
    tensor.view_mut::<Truth>().unwrap()[[1, 0]] = Truth(255);
    assert!(tensor.try_into_owner::<ndarray::Array2<bool>>().is_err());
}

#[test]
fn producer_that_writes_between_two_views_is_sound() {
    let producer = Producer::new(vec![1_u16, 2, 3], &[3]);
    let data = producer.tensor.data.cast::<u16>();
    let slice = TensorSlice::<u16>::try_from(producer.import().unwrap()).unwrap();
    assert_eq!(slice[..], [1, 2, 3]);
    // SAFETY: the memory is the producer's own, and no view of it is alive now.
    unsafe { data.write(10) };
    assert_eq!(slice[..], [10, 2, 3]);

    let mut slice = TensorSliceMut::<u16>::try_from(Tensor::from(vec![1_u16, 2])).unwrap();
    slice[0] = 5;
    assert_eq!(slice[..], [5, 2]);
    slice[1] = 6;
    assert_eq!(slice.into_tensor().try_into_owner::<Vec<u16>>().unwrap(), [5, 6]);
}

#[test]
fn tensor_exported_repeatedly_does_not_grow_a_chain() {
    let turns = if cfg!(miri) { 50 } else { 200_000 };
    let mut tensor = Tensor::from(vec![1_u8, 2, 3]);
    for _ in 0..turns {
        tensor = tensor.into_shared().share();
    }
    assert_eq!(tensor.view::<u8>().unwrap().to_vec(), [1, 2, 3]);
    let mut tensor = Tensor::from(vec![1_u8, 2, 3]);
    for _ in 0..turns {
        // SAFETY: the tensor was just exported, to this code alone.
        tensor = unsafe { Tensor::from_raw(tensor.into_shared().to_raw()) }.unwrap();
    }
    assert_eq!((tensor.shape(), tensor.strides()), (&[3][..], &[1][..]));
}

#[test]
fn reborrowed_view_ends_before_the_first() {
    let mut tensor = Tensor::from([[1, 2], [3, 4]]);
    let mut view = tensor.view_mut::<i32>().unwrap();
    view.as_view_mut().iter_mut().for_each(|x| *x += 1);
    *view.as_view_mut().into_mut_slice().unwrap().last_mut().unwrap() = 50;
    view[[0, 0]] = 10;
    assert_eq!(view.iter().copied().collect::<Vec<_>>(), [10, 3, 4, 50]);
    assert_eq!(
        (view.len(), view.ndim(), view.is_empty(), view.get([1, 0])),
        (4, 2, false, Some(&4))
    );
}

#[test]
fn padded_flag_of_whole_byte_elements_is_ignored() {
    let tensor = Producer::new(vec![1.0_f32], &[1]).flags(4).import().unwrap();
    let managed = tensor.into_raw_legacy().unwrap();
    // SAFETY: `managed` was made here, and no other code has it.
    drop(unsafe { Tensor::from_raw_legacy(managed) });
}

#[test]
fn bytes_shared_repeatedly_do_not_grow_a_chain() {
    let (owner, dropped) = Counted::new(vec![1_u8, 2, 3, 4]);
    let mut tensor = Tensor::from_parts(owner, [4]).unwrap();
    for _ in 0..if cfg!(miri) { 20 } else { 100_000 } {
        tensor = tensor.into_shared().share_bytes(DataType::UINT16, [2], 0).unwrap();
    }
    assert_eq!(dropped.get(), 0);
    let owner = tensor.try_into_owner::<Counted<Vec<u8>>>().unwrap();
    assert_eq!(owner.owner, [1, 2, 3, 4]);
    drop(owner);
    assert_eq!(dropped.get(), 1);
}

#[test]
fn elements_repeated_by_stride_zero_are_checked_once() {
    // The most dimensions of extent 2 whose number of elements fits in `isize`.
    const DIMS: usize = usize::BITS as usize - 2;
    let lent = |last: u8| {
        let mut bytes = vec![1; DIMS + 1];
        bytes[DIMS] = last;
        let lent = Producer::new(bytes, &[2; DIMS]).strides(&[1; DIMS]);
        lent.with(|p| p.tensor.dtype = DataType::BOOL.into()).import().unwrap()
    };
    assert!(lent(1).view::<bool>().unwrap()[[1; DIMS]]);
    let refused = Error::InvalidElement { dtype: DataType::BOOL };
    assert_eq!(lent(2).view::<bool>().unwrap_err(), refused);
    let owned = Tensor::from_parts_strided(vec![true; DIMS + 1], [2; DIMS], [1; DIMS], 0);
    assert_eq!(owned.unwrap().try_into_owner::<Vec<bool>>().unwrap(), [true; DIMS + 1]);
}
