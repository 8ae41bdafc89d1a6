//! Tensors become tensors of rten, which keep them alive, and views become views.

use dlbridge::{Access, DataType, Error, RawParts, Tensor};
use dlbridge_rten::{RtenExt, TensorExt, TensorViewExt, TensorViewMutExt};
use dlbridge_testing::{
    foreign, misaligned_floats, out_of_reach, repeat, written_by_another_handle,
};
use rten_tensor::prelude::*;
use rten_tensor::{DynLayout, TensorBase};
use std::cell::Cell;
use std::sync::Arc;

#[test]
fn exclusive_tensor_is_written_in_place() {
    let (tensor, drops) = foreign(&[1, 2, 3, 4], &[2, 2], Access::Exclusive);
    let first = tensor.data().addr();
    let mut rten = tensor.into_rten_mut::<i32>().unwrap();
    rten.slice_mut(0).fill(10);
    rten[[1, 0]] = 30;
    let tensor = rten.into_tensor().unwrap();
    assert_eq!((tensor.data().addr(), tensor.access()), (first, Access::Exclusive));
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [10, 10, 30, 4]);
    let rten = tensor.into_rten_mut::<i32>().unwrap();
    assert_eq!((rten.data_ptr().addr(), drops.count()), (first, 0));
    drop(rten);
    assert_eq!(drops.count(), 1);
}

/// The owner may only keep memory that other code writes between two views.
#[test]
fn shared_memory_outside_of_the_owner_is_refused() {
    let memory = [Cell::new(1.0_f32), Cell::new(2.0)];
    let first = memory.as_ptr().cast_mut().cast();
    let over = |access| {
        let owner = Tensor::from(vec![0.0_f32; 3]).into_rten::<f32>().unwrap();
        let parts = RawParts { access, ..RawParts::new(first, DataType::FLOAT32) };
        // SAFETY: `memory` outlives the tensor, and nothing writes it while a view is alive.
        unsafe { Tensor::from_raw_parts(owner, parts, &[2], None::<&[i64]>) }.unwrap()
    };
    for access in [Access::Shared, Access::ReadOnly] {
        assert_eq!(over(access).into_rten::<f32>().err(), Some(Error::Unstable { access }));
    }
    let rten = over(Access::Immutable).into_rten::<f32>().unwrap();
    assert_eq!((rten.data_ptr().addr(), rten.to_vec()), (first.addr(), vec![1.0, 2.0]));
}

#[test]
fn immutable_tensor_is_read_in_place() {
    let (tensor, drops) = foreign(&[1, 2], &[2], Access::Immutable);
    let rten = tensor.into_rten::<i32>().unwrap();
    assert_eq!(rten.to_vec(), [1, 2]);
    let tensor = rten.into_tensor().unwrap();
    assert_eq!(tensor.into_rten_mut::<i32>().err(), Some(Error::ReadOnly));
    assert_eq!(drops.count(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "allocations never fail under Miri")]
fn repeated_elements_beyond_memory_are_refused() {
    const BYTES: usize = 1 << 45;
    let tensor = Tensor::from_parts_strided(vec![1_u8], [BYTES], [0], 0).unwrap();
    let error = tensor.to_rten::<u8>().err();
    assert_eq!(error, Some(Error::OutOfMemory { bytes: BYTES, for_copy: true }));
    // Misaligned elements are refused too.
    let one = misaligned_floats(&[1.0]);
    let parts = RawParts { access: Access::Immutable, ..RawParts::new(one.data(), one.dtype()) };
    // SAFETY: every index leads to the one element, which the other tensor keeps alive.
    let tensor = unsafe { Tensor::from_raw_parts(one, parts, &[BYTES / 4], Some(&[0_i64])) };
    let tensor = tensor.unwrap();
    let error = tensor.to_rten::<f32>().err();
    assert_eq!(error, Some(Error::OutOfMemory { bytes: BYTES, for_copy: true }));
}

#[test]
fn memory_that_others_may_write_is_refused() {
    for access in [Access::Shared, Access::ReadOnly] {
        let (tensor, drops) = foreign(&[1_u8, 2], &[2], access);
        assert_eq!(tensor.into_rten::<u8>().err(), Some(Error::Unstable { access }));
        assert_eq!(drops.count(), 1);
        let (tensor, _) = foreign(&[1_u8, 2], &[2], access);
        // SAFETY: nothing writes the elements.
        let tensor = unsafe { tensor.assume_immutable() };
        assert_eq!(tensor.into_rten::<u8>().unwrap().to_vec(), [1, 2]);
    }
    let shared = || foreign(&[1_u8, 2], &[2], Access::Shared);
    let (tensor, drops) = shared();
    assert_eq!(tensor.to_rten::<u8>().unwrap().to_vec(), [1, 2]);
    drop(tensor);
    assert_eq!(drops.count(), 1);
    let (tensor, drops) = shared();
    assert_eq!(tensor.into_rten_mut::<u8>().err(), Some(Error::Shared));
    assert_eq!(drops.count(), 1);
}

#[test]
fn the_last_handle_frees_the_tensor_on_any_thread() {
    let (tensor, drops) = foreign(&[1_u8, 2, 3], &[3], Access::Exclusive);
    let rten = tensor.into_rten::<u8>().unwrap();
    let sum = std::thread::scope(|threads| {
        threads.spawn(|| rten.iter().map(|&x| u32::from(x)).sum::<u32>()).join().unwrap()
    });
    assert_eq!(sum, 6);
    std::thread::spawn(move || drop(rten)).join().unwrap();
    assert_eq!(drops.count(), 1);
}

#[test]
fn strides_without_gaps_are_kept() {
    let numbers = || Tensor::from_parts((0..24).collect::<Vec<i32>>(), [2, 3, 4]).unwrap();
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
        let tensor = numbers().permute(order).unwrap();
        let (first, elements) = (tensor.data().addr(), tensor.view::<i32>().unwrap().to_vec());
        let view = tensor.view::<i32>().unwrap().as_rten().unwrap();
        assert_eq!((view.data_ptr().addr(), view.to_vec()), (first, elements.clone()));
        let rten = tensor.into_rten_mut::<i32>().unwrap();
        assert_eq!((rten.data_ptr().addr(), rten.to_vec()), (first, elements));
    }
    let rows = numbers().slice(0, 1..).unwrap();
    let first = rows.data().addr();
    let rten = rows.into_rten::<i32>().unwrap();
    assert_eq!((rten.data_ptr().addr(), rten.to_vec()), (first, (12..24).collect()));
    assert!(rten.is_contiguous() && !rten.is_broadcast());

    let repeated = Tensor::from_parts_strided(vec![1, 2], [2, 2], [0, 1], 0).unwrap();
    assert_eq!(repeated.view::<i32>().unwrap().as_rten().unwrap().to_vec(), [1, 2, 1, 2]);
    let rten = repeated.into_rten::<i32>().unwrap();
    assert_eq!((rten.is_broadcast(), rten.to_vec()), (true, vec![1, 2, 1, 2]));
    assert_eq!(rten.into_tensor().unwrap().into_rten_mut::<i32>().err(), Some(Error::ReadOnly));
    let windows = Tensor::from_parts_strided(vec![1, 2, 3], [2, 2], [1, 1], 0).unwrap();
    assert_eq!(windows.to_rten::<i32>().unwrap().to_vec(), [1, 2, 2, 3]);
    assert_eq!(windows.into_rten::<i32>().unwrap().to_vec(), [1, 2, 2, 3]);
    let repeated = Tensor::from_parts_strided(vec![1, 2], [2, 2], [0, 1], 0).unwrap();
    assert_eq!(repeated.into_rten_mut::<i32>().err(), Some(Error::Overlapping));
}

#[test]
fn strides_with_gaps_are_copied() {
    let matrix = || Tensor::from([[1, 2, 3], [4, 5, 6]]);
    let check = |mut tensor: Tensor, elements: &[i32]| {
        assert_eq!(tensor.to_rten::<i32>().unwrap().to_vec(), elements);
        let view = tensor.view::<i32>().unwrap();
        assert_eq!(view.as_rten().err(), Some(Error::NotContiguous));
        let view = tensor.view_mut::<i32>().unwrap();
        assert_eq!(view.into_rten_mut().err(), Some(Error::NotContiguous));
        assert_eq!(tensor.into_rten::<i32>().err(), Some(Error::NotContiguous));
    };
    check(matrix().flip(0).unwrap(), &[4, 5, 6, 1, 2, 3]);
    check(matrix().slice(1, 1..).unwrap(), &[2, 3, 5, 6]);
    check(matrix().step_by(1, 2).unwrap(), &[1, 3, 4, 6]);
    let gaps = matrix().index_axis(1, 0).unwrap();
    assert_eq!(gaps.into_rten_mut::<i32>().err(), Some(Error::NotContiguous));
}

#[test]
fn slice_of_a_rten_tensor_stays_a_slice() {
    let (tensor, drops) = foreign(&[1, 2, 3, 4], &[2, 2], Access::Exclusive);
    let tensor = tensor.into_rten_mut::<i32>().unwrap().into_tensor().unwrap();
    let part = tensor.slice(0, 1..).unwrap();
    let first = part.data().addr();
    let mut rten = part.into_rten_mut::<i32>().unwrap();
    rten.apply(|x| 10 * x);
    assert_eq!((rten.data_ptr().addr(), rten.to_vec()), (first, vec![30, 40]));
    let tensor = rten.into_tensor().unwrap().try_into_immutable().unwrap();
    let part = tensor.slice(1, ..1).unwrap();
    let rten = part.into_rten::<i32>().unwrap();
    let part = rten.into_tensor().unwrap().insert_axis(0).unwrap();
    let rten = part.into_rten::<i32>().unwrap();
    assert_eq!((rten.shape(), rten.to_vec(), drops.count()), (&[1, 1, 1][..], vec![30], 0));
    drop(rten);
    assert_eq!(drops.count(), 1);
}

#[test]
fn views_of_views() {
    let mut tensor = Tensor::from([[1, 2], [3, 4]]);
    let first = tensor.data().addr();
    let mut rten = tensor.view_mut::<i32>().unwrap().transpose().into_rten_mut().unwrap();
    assert_eq!(rten.data_ptr().addr(), first);
    rten[[0, 1]] = 30;
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [1, 2, 30, 4]);
    let truth = Tensor::from(vec![true, false]);
    assert_eq!(truth.view::<bool>().unwrap().as_rten().unwrap().to_vec(), [true, false]);
}

#[test]
fn storage_ends_with_the_elements() {
    // Safe code can lay any shape over the storage, so the storage must end with the elements.
    let tensor = Tensor::from(vec![1_u8, 2, 3, 4]).slice(0, 1..3).unwrap();
    let rten = tensor.into_rten::<u8>().unwrap();
    let storage = rten.view().storage();
    assert_eq!(rten_tensor::Storage::len(&storage), 2);
    let layout = rten_tensor::layout::FromShape::from_shape(&[2][..]);
    let all: TensorBase<_, DynLayout> = TensorBase::from_storage_and_layout(storage, layout);
    assert_eq!(all.to_vec(), [2, 3]);
}

#[test]
fn misaligned_elements_are_copied() {
    let tensor = misaligned_floats(&[1.0, 2.0, 3.0]);
    assert_eq!(tensor.to_rten::<f32>().unwrap().to_vec(), [1.0, 2.0, 3.0]);
    let error = Error::Misaligned { address: tensor.data().addr(), required: 4 };
    assert_eq!(tensor.into_rten::<f32>().err(), Some(error));
}

#[test]
fn refusals_drop_the_tensor_once() {
    let error = Error::DataType { expected: DataType::INT8, found: DataType::UINT8 };
    let (tensor, drops) = foreign(&[1_u8, 2], &[2], Access::Exclusive);
    assert_eq!(tensor.to_rten::<i8>().err(), Some(error));
    assert_eq!((tensor.into_rten::<i8>().err(), drops.count()), (Some(error), 1));
    let (tensor, drops) = foreign(&[1_u8, 2], &[2], Access::Exclusive);
    assert_eq!((tensor.into_rten_mut::<i8>().err(), drops.count()), (Some(error), 1));
    let (tensor, drops) = foreign(&[1_u8, 2, 3, 4], &[2, 2], Access::Exclusive);
    let gaps = tensor.index_axis(1, 0).unwrap();
    assert_eq!(gaps.into_rten::<u8>().err(), Some(Error::NotContiguous));
    assert_eq!(drops.count(), 1);
    let not_bool = Tensor::from_bytes(vec![2_u8], DataType::BOOL, [1], 0).unwrap();
    let error = Error::InvalidElement { dtype: DataType::BOOL };
    assert_eq!(not_bool.to_rten::<bool>().err(), Some(error));
}

#[test]
fn other_devices_are_refused() {
    let tensor = out_of_reach((), DataType::UINT8);
    let device = tensor.device();
    let error = Some(Error::NotHostAccessible { device });
    assert_eq!(tensor.to_rten::<u8>().err(), error);
    assert_eq!(tensor.into_rten::<u8>().err(), error);
}

#[test]
fn read_only_tensor_that_another_handle_writes_is_refused() {
    let (read_only, writer) = written_by_another_handle();
    let access = Access::ReadOnly;
    assert_eq!(read_only.into_rten::<i32>().err(), Some(Error::Unstable { access }));
    drop(writer);
}

#[test]
fn shared_rust_data_needs_no_promise() {
    for tensor in [Tensor::from(Arc::<[i32]>::from([1, 2])), Tensor::from(&[1_i32, 2][..])] {
        let address = tensor.data().addr();
        assert_eq!(tensor.into_rten::<i32>().unwrap().data_ptr().addr(), address);
    }
}

#[test]
fn rten_loop_of_shares_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32, 2.0]), |tensor| {
        // SAFETY: nothing writes the elements in this test.
        let shared = unsafe { tensor.into_shared().share().assume_immutable() };
        shared.into_rten::<f32>().unwrap().into_tensor().unwrap()
    });
}

#[test]
fn rten_loop_of_reshapes_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32, 2.0]), |tensor| {
        let shape = if tensor.ndim() == 1 { vec![1, 2] } else { vec![2] };
        tensor.reshape(shape).unwrap().into_rten_mut::<f32>().unwrap().into_tensor().unwrap()
    });
}

#[test]
fn rten_loop_of_transposes_drops_on_a_small_stack() {
    repeat(Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), |tensor| {
        tensor.transpose().into_rten_mut::<f32>().unwrap().into_tensor().unwrap()
    });
}
