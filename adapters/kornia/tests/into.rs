//! Tensors become tensors and images of kornia, which keep them alive.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use dlbridge::{Access, DataType, Error, RawParts, Tensor};
use dlbridge_kornia::{KorniaExt, TensorExt};
use dlbridge_testing::{
    TURNS, foreign, misaligned_floats, out_of_reach, repeat, written_by_another_handle,
};
use kornia_tensor::Tensor as Kornia;

#[test]
fn exclusive_tensor_is_written_in_place() {
    let mut kornia = Tensor::from([[1, 2], [3, 4]]).into_kornia::<i32, 2>().unwrap();
    kornia.as_slice_mut()[1] = 20;
    let tensor = kornia.into_tensor().unwrap();
    assert_eq!(tensor.access(), Access::Exclusive);
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [1, 20, 3, 4]);
}

#[test]
fn immutable_tensor_panics_on_a_write() {
    let (tensor, drops) = foreign(&[1.0_f32, 2.0], &[2], Access::Immutable);
    let first = tensor.data().addr();
    let mut kornia = tensor.into_kornia::<f32, 1>().unwrap();
    assert_eq!((kornia.as_ptr().addr(), kornia.as_slice()), (first, &[1.0, 2.0][..]));
    assert!(catch_unwind(AssertUnwindSafe(|| kornia.as_slice_mut()[0] = 3.0)).is_err());
    let tensor = kornia.into_read_only_tensor().unwrap();
    assert_eq!((tensor.data().addr(), tensor.access()), (first, Access::ReadOnly));

    let kornia = tensor.into_kornia::<f32, 1>().unwrap();
    assert_eq!((kornia.as_ptr().addr(), drops.count()), (first, 0));
    assert!(catch_unwind(AssertUnwindSafe(|| kornia.into_tensor())).is_err());
    assert_eq!(drops.count(), 1, "the panic drops the tensor once");
}

/// The owner may only keep memory that other code writes between two views.
#[test]
fn shared_memory_outside_of_the_owner_is_refused() {
    let memory = [Cell::new(1.0_f32), Cell::new(2.0)];
    let first = memory.as_ptr().cast_mut().cast();
    let over = |access| {
        let owner = Kornia::<f32, 1>::from_shape_vec([3], vec![0.0; 3]).unwrap();
        let parts = RawParts { access, ..RawParts::new(first, DataType::FLOAT32) };
        // SAFETY: `memory` outlives the tensor, and nothing writes it while a view is alive.
        unsafe { Tensor::from_raw_parts(owner, parts, &[2], None::<&[i64]>) }.unwrap()
    };
    for access in [Access::Shared, Access::ReadOnly] {
        let refused = over(access).into_kornia::<f32, 1>().err();
        assert_eq!(refused, Some(Error::Unstable { access }));
    }
    let kornia = over(Access::Immutable).into_kornia::<f32, 1>().unwrap();
    assert_eq!((kornia.as_ptr().addr(), kornia.as_slice()), (first.addr(), &[1.0, 2.0][..]));
}

#[test]
fn memory_that_others_may_write_is_refused() {
    let (tensor, drops) = foreign(&[1_u8, 2], &[2], Access::Shared);
    assert_eq!(tensor.to_kornia::<u8, 1>().unwrap().as_slice(), [1, 2]);
    drop(tensor);
    assert_eq!(drops.count(), 1);

    for access in [Access::Shared, Access::ReadOnly] {
        let (tensor, drops) = foreign(&[1_u8, 2], &[2], access);
        assert_eq!(tensor.into_kornia::<u8, 1>().err(), Some(Error::Unstable { access }));
        assert_eq!(drops.count(), 1);
        let (tensor, drops) = foreign(&[1_u8, 2], &[2], access);
        // SAFETY: nothing writes the elements.
        let kornia = unsafe { tensor.assume_immutable() }.into_kornia::<u8, 1>().unwrap();
        assert_eq!((kornia.as_slice(), drops.count()), (&[1, 2][..], 0));
    }
}

#[test]
fn the_last_handle_frees_the_tensor_on_any_thread() {
    let (tensor, drops) = foreign(&[1_u8, 2, 3], &[1, 1, 3], Access::Exclusive);
    let image = tensor.into_image::<u8, 3>().unwrap();
    let copy = image.clone();
    std::thread::spawn(move || drop(image)).join().unwrap();
    assert_eq!(drops.count(), 1);
    assert_eq!(copy.as_slice(), [1, 2, 3]);
}

#[test]
fn strides_are_copied() {
    let matrix = || Tensor::from([[1, 2, 3], [4, 5, 6]]);
    let copied = |tensor: &Tensor| tensor.to_kornia::<i32, 2>().unwrap().into_vec();
    let columns = matrix().transpose();
    assert_eq!(copied(&columns), [1, 4, 2, 5, 3, 6]);
    assert_eq!(columns.into_kornia::<i32, 2>().err(), Some(Error::NotContiguous));
    let flipped = matrix().flip(0).unwrap();
    assert_eq!(copied(&flipped), [4, 5, 6, 1, 2, 3]);
    assert_eq!(flipped.into_kornia::<i32, 2>().err(), Some(Error::NotContiguous));
    let repeated = Tensor::from_parts_strided(vec![1, 2], [2, 2], [0, 1], 0).unwrap();
    assert_eq!(copied(&repeated), [1, 2, 1, 2]);
    assert_eq!(repeated.into_kornia::<i32, 2>().err(), Some(Error::NotContiguous));

    let rows = matrix().slice(0, 1..).unwrap();
    let first = rows.data().addr();
    let kornia = rows.into_kornia::<i32, 2>().unwrap();
    assert_eq!((kornia.as_ptr().addr(), kornia.as_slice()), (first, &[4, 5, 6][..]));
}

#[test]
fn slice_of_a_kornia_tensor_stays_a_slice() {
    let kornia = Kornia::from_shape_vec([2, 3], vec![1, 2, 3, 4, 5, 6]).unwrap();
    let part = kornia.into_tensor().unwrap().slice(0, 1..).unwrap();
    let first = part.data().addr();
    let mut kornia = part.into_kornia::<i32, 2>().unwrap();
    assert_eq!((kornia.as_ptr().addr(), kornia.shape), (first, [1, 3]));
    kornia.as_slice_mut()[0] = 40;
    assert_eq!(kornia.as_slice(), [40, 5, 6]);
}

#[test]
fn elements_beyond_the_shape_stay_hidden() {
    let mut kornia = Kornia::from_shape_vec([4], vec![1, 2, 3, 4]).unwrap();
    let first = kornia.as_ptr().addr();
    kornia.shape = [2];
    let tensor = kornia.into_tensor().unwrap();
    assert_eq!(tensor.shape(), [2]);
    let mut kornia = tensor.into_kornia::<i32, 1>().unwrap();
    assert_eq!((kornia.as_ptr().addr(), kornia.as_slice()), (first, &[1, 2][..]));
    kornia.as_slice_mut()[0] = 10;
    assert_eq!(kornia.into_tensor().unwrap().view::<i32>().unwrap().to_vec(), [10, 2]);
}

#[test]
#[cfg_attr(miri, ignore = "allocations never fail under Miri")]
fn repeated_elements_beyond_memory_are_refused() {
    const BYTES: usize = 1 << 45;
    let tensor = Tensor::from_parts_strided(vec![1_u8], [BYTES], [0], 0).unwrap();
    let error = tensor.to_kornia::<u8, 1>().err();
    assert_eq!(error, Some(Error::OutOfMemory { bytes: BYTES, for_copy: true }));
    // Misaligned elements are refused too.
    let one = misaligned_floats(&[1.0]);
    let parts = RawParts { access: Access::ReadOnly, ..RawParts::new(one.data(), one.dtype()) };
    // SAFETY: every index leads to the one element, which the other tensor keeps alive.
    let tensor = unsafe { Tensor::from_raw_parts(one, parts, &[BYTES / 4], Some(&[0_i64])) };
    let tensor = tensor.unwrap();
    let error = tensor.to_kornia::<f32, 1>().err();
    assert_eq!(error, Some(Error::OutOfMemory { bytes: BYTES, for_copy: true }));
}

#[test]
fn misaligned_elements_are_copied() {
    let tensor = misaligned_floats(&[1.0, 2.0, 3.0]);
    assert_eq!(tensor.to_kornia::<f32, 1>().unwrap().as_slice(), [1.0, 2.0, 3.0]);
    let address = tensor.data().addr();
    let error = Error::Misaligned { address, required: 4 };
    assert_eq!(tensor.into_kornia::<f32, 1>().err(), Some(error));
}

#[test]
fn refusals_drop_the_tensor_once() {
    let refused = |refusal: fn(Tensor) -> Option<Error>| {
        let (tensor, drops) = foreign(&[1_u8, 2, 3, 4], &[2, 2], Access::Exclusive);
        let error = refusal(tensor);
        assert_eq!(drops.count(), 1);
        error.unwrap()
    };
    assert_eq!(
        refused(|tensor| tensor.into_kornia::<i8, 2>().err()),
        Error::DataType { expected: DataType::INT8, found: DataType::UINT8 }
    );
    assert_eq!(
        refused(|tensor| tensor.into_kornia::<u8, 3>().err()),
        Error::Ndim { expected: 3, found: 2 }
    );
    assert_eq!(
        refused(|tensor| tensor.into_image::<u8, 3>().err()),
        Error::Ndim { expected: 3, found: 2 }
    );
    assert_eq!(
        refused(|tensor| tensor.insert_axis(2).unwrap().into_image::<u8, 3>().err()),
        Error::Extent { axis: 2, expected: 3, found: 1 }
    );
    assert_eq!(
        refused(|tensor| tensor.insert_axis(2).unwrap().to_image::<u8, 4>().err()),
        Error::Extent { axis: 2, expected: 4, found: 1 }
    );
    let not_bool = Tensor::from_bytes(vec![2_u8], DataType::BOOL, [1], 0).unwrap();
    let error = Error::InvalidElement { dtype: DataType::BOOL };
    assert_eq!(not_bool.to_kornia::<bool, 1>().err(), Some(error));
}

#[test]
fn other_devices_are_refused() {
    let tensor = out_of_reach((), DataType::UINT8);
    let device = tensor.device();
    assert_eq!(tensor.to_kornia::<u8, 1>().err(), Some(Error::NotHostAccessible { device }));
    assert_eq!(tensor.into_kornia::<u8, 1>().err(), Some(Error::NotHostAccessible { device }));
}

#[test]
fn image_of_one_channel_accepts_two_dimensions() {
    let tensor = Tensor::from([[1_u8, 2, 3], [4, 5, 6]]);
    let first = tensor.data().addr();
    assert_eq!(tensor.to_image::<u8, 1>().unwrap().get([1, 2, 0]), Some(&6));
    let image = tensor.into_image::<u8, 1>().unwrap();
    assert_eq!((image.as_ptr().addr(), image.width(), image.height()), (first, 3, 2));
    assert_eq!(image.as_slice(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn read_only_tensor_that_another_handle_writes_is_refused() {
    let (read_only, writer) = written_by_another_handle();
    let access = Access::ReadOnly;
    assert_eq!(read_only.into_kornia::<i32, 1>().err(), Some(Error::Unstable { access }));
    drop(writer);
}

#[test]
fn shared_rust_data_needs_no_promise() {
    for tensor in [Tensor::from(Arc::<[i32]>::from([1, 2])), Tensor::from(&[1_i32, 2][..])] {
        let address = tensor.data().addr();
        assert_eq!(tensor.into_kornia::<i32, 1>().unwrap().as_ptr().addr(), address);
    }
}

#[test]
fn kornia_loop_of_reshapes_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32, 2.0]), |tensor| match tensor.ndim() {
        1 => {
            tensor.into_kornia::<f32, 1>().unwrap().into_tensor().unwrap().reshape([1, 2]).unwrap()
        }
        _ => tensor.into_kornia::<f32, 2>().unwrap().into_tensor().unwrap().reshape([2]).unwrap(),
    });
}

#[test]
fn kornia_loop_of_shares_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32, 2.0]), |tensor| {
        // SAFETY: nothing writes the elements in this test.
        let shared = unsafe { tensor.into_shared().share().assume_immutable() };
        shared.into_kornia::<f32, 1>().unwrap().into_read_only_tensor().unwrap()
    });
}

#[test]
fn kornia_loop_of_slices_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32; TURNS + 1]), |tensor| {
        tensor.slice(0, 1..).unwrap().into_kornia::<f32, 1>().unwrap().into_tensor().unwrap()
    });
}
