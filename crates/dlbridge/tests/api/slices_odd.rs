//! Edge cases of slices: refusals, empty slices, packed elements, handles, owners.

use crate::common::{Counted, Producer, take};
use dlbridge::{Error, MAX_NDIM, Tensor, TensorRef};

fn numbers() -> Vec<u16> {
    (0..24).map(|n| n * 7 + 1000).collect()
}

#[test]
fn wrong_axes_ranges_and_orders_are_refused() {
    let tensor = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    let view = TensorRef::from(&tensor);
    let no_axis = Error::InvalidAxis { axis: 2, ndim: 2 };
    assert_eq!(view.slice(2, ..).unwrap_err(), no_axis);
    assert_eq!(view.step_by(2, 1).unwrap_err(), no_axis);
    assert_eq!(view.flip(2).unwrap_err(), no_axis);
    assert_eq!(view.index_axis(2, 0).unwrap_err(), no_axis);
    assert_eq!(view.insert_axis(3).unwrap_err(), Error::InvalidAxis { axis: 3, ndim: 2 });
    let range = |start, end| Error::InvalidRange { axis: 1, start, end, extent: 3 };
    assert_eq!(view.slice(1, 2..4).unwrap_err(), range(2, 4));
    #[expect(clippy::reversed_empty_ranges, reason = "it is refused")]
    let reversed = view.slice(1, 2..1);
    assert_eq!(reversed.unwrap_err(), range(2, 1));
    assert_eq!(view.slice(1, 4..).unwrap_err(), range(4, 3));
    assert_eq!(view.slice(1, ..=3).unwrap_err(), range(0, 4));
    assert_eq!(view.slice(1, ..=usize::MAX).unwrap_err(), range(0, usize::MAX));
    assert_eq!(view.index_axis(1, 3).unwrap_err(), range(3, 4));
    assert_eq!(view.index_axis(1, usize::MAX).unwrap_err(), range(usize::MAX, usize::MAX));
    assert_eq!(view.permute([0]).unwrap_err(), Error::AxisCount { given: 1, ndim: 2 });
    assert_eq!(view.permute([0, 2]).unwrap_err(), no_axis);
    assert_eq!(view.permute([1, 1]).unwrap_err(), Error::RepeatedAxis { axis: 1 });
    assert_eq!(view.reshape([usize::MAX, 2]).unwrap_err(), Error::TooLarge);
    let mut mutable = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    let split = mutable.view_mut::<i32>().unwrap().split_at(1, 4);
    assert_eq!(split.unwrap_err(), range(0, 4));
    for (range, shape) in [(0..0, 0), (3..3, 0), (0..3, 3), (1..2, 1)] {
        assert_eq!(view.slice(1, range).unwrap().shape(), [2, shape]);
    }
    assert_eq!(
        view.slice(1, (std::ops::Bound::Excluded(0), std::ops::Bound::Unbounded)).unwrap().shape(),
        [2, 2]
    );
}

#[test]
#[should_panic(expected = "a step of 0 goes nowhere")]
fn step_by_zero_of_a_borrowed_tensor_panics() {
    let _ = TensorRef::from(&[1, 2]).step_by(0, 0);
}

#[test]
fn broadcast_repeats_axes_of_extent_one() {
    let column = [[1], [2]];
    let view = TensorRef::from(&column).broadcast_to([2, 2, 3]).unwrap();
    assert_eq!((view.shape(), view.strides()), (&[2, 2, 3][..], &[0, 1, 0][..]));
    assert_eq!(view.view::<i32>().unwrap().to_vec(), [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2]);
    assert_eq!(view.to_copy().unwrap().view::<i32>().unwrap().to_vec().len(), 12);
    let tensor = Tensor::from(column);
    let typed = tensor.view::<i32>().unwrap();
    assert_eq!(typed.broadcast_to([2, 2]).unwrap().to_vec(), [1, 1, 2, 2]);
    assert!(typed.broadcast_to([0, 2, 1]).unwrap().is_empty());
    let extent = Error::Extent { axis: 0, expected: 3, found: 2 };
    assert_eq!(typed.broadcast_to([3, 1]).unwrap_err(), extent);
    assert_eq!(typed.broadcast_to([2]).unwrap_err(), Error::AxisCount { given: 1, ndim: 2 });
    assert_eq!(typed.broadcast_to([usize::MAX, 2, 1]).unwrap_err(), Error::TooLarge);
    assert_eq!(
        typed.broadcast_to(vec![1; MAX_NDIM + 1]).unwrap_err(),
        Error::InvalidNdim { ndim: 1025 }
    );
}

#[test]
fn split_halves_are_written_at_the_same_time() {
    let mut tensor = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    let (mut left, right) = tensor.view_mut::<i32>().unwrap().split_at(1, 1).unwrap();
    for (left, right) in left.iter_mut().zip(right) {
        std::mem::swap(left, right);
    }
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [2, 1, 4, 3, 5, 6]);
}

#[test]
fn strides_of_axes_of_extent_one_are_ignored() {
    for stride in [i64::MIN, i64::MAX, 0, -1] {
        let one = Producer::new(vec![7_u16], &[1, 1]).strides(&[stride, stride]).import().unwrap();
        let view = one.view::<u16>().unwrap();
        for part in [
            view.flip(0),
            view.step_by(1, 9),
            view.slice(0, ..),
            view.reshape([1, 1, 1]),
            view.reshape([]),
        ] {
            assert_eq!(part.unwrap().to_vec(), [7]);
        }
        let none =
            Producer::new(vec![0_u16; 0], &[0, 5]).strides(&[stride, stride]).import().unwrap();
        let view = none.view::<u16>().unwrap();
        for part in [
            view.flip(1),
            view.step_by(1, 2),
            view.slice(1, 2..),
            view.index_axis(1, 4),
            view.reshape([3, 0]),
        ] {
            assert!(part.unwrap().to_vec().is_empty());
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "a thousand dimensions take Miri long")]
fn tensor_of_the_most_dimensions_is_sliced() {
    let mut shape = vec![1; MAX_NDIM - 1];
    shape[77] = 3;
    let tensor = Tensor::from(vec![1_u8, 2, 3]).reshape(shape).unwrap();
    let tensor = tensor.insert_axis(500).unwrap();
    assert_eq!((tensor.ndim(), tensor.len()), (MAX_NDIM, 3));
    let view = tensor.view::<u8>().unwrap();
    assert_eq!(view.transpose().flip(0).unwrap().to_vec().len(), 3);
    assert_eq!(view.insert_axis(0).unwrap_err(), Error::InvalidNdim { ndim: 1025 });
    assert_eq!(tensor.reshape([3]).unwrap().try_into_owner::<Vec<u8>>().unwrap(), [1, 2, 3]);
}

#[test]
fn slice_of_packed_elements_must_begin_with_a_byte() {
    let nibbles =
        || Tensor::from_bytes(vec![0x21, 0x43, 0x65], "uint4".parse().unwrap(), [6], 0).unwrap();
    let tensor = nibbles();
    let view = TensorRef::from(&tensor);
    assert!(view.slice(0, 2..5).unwrap().view_subbyte().unwrap().iter().eq([3, 4, 5]));
    assert_eq!(view.slice(0, 1..).unwrap_err(), Error::SubbytePacked { dtype: tensor.dtype() });
    assert_eq!(view.flip(0).unwrap_err(), Error::SubbytePacked { dtype: tensor.dtype() });
    assert!(view.slice(0, 1..1).unwrap().is_empty());
    assert!(
        view.slice(0, ..5)
            .unwrap()
            .flip(0)
            .unwrap()
            .view_subbyte()
            .unwrap()
            .iter()
            .eq([5, 4, 3, 2, 1])
    );
    assert!(nibbles().slice(0, 4..).unwrap().view_subbyte().unwrap().iter().eq([5, 6]));
}

#[test]
fn slice_of_a_handle_moves_only_the_offset() {
    let opencl = || {
        Producer::at(std::ptr::without_provenance_mut(0x77), "float32".parse().unwrap(), &[4, 3])
            .device(4, 0)
            .byte_offset(100)
    };
    let tensor = opencl().import().unwrap();
    let part = TensorRef::from(&tensor).slice(0, 2..).unwrap();
    assert_eq!((part.data().addr(), part.byte_offset()), (0x77, 124));
    let owned = opencl().import().unwrap().flip(0).unwrap();
    assert_eq!(
        (owned.data().addr(), owned.byte_offset(), owned.strides()),
        (0x77, 136, &[-3, 1][..])
    );
    let back = owned.flip(0).unwrap();
    assert_eq!((back.byte_offset(), back.strides()), (100, &[3, 1][..]));
}

#[test]
fn owner_of_an_exported_slice_comes_back() {
    let (owner, dropped) = Counted::new(numbers());
    let part = Tensor::from_parts(owner, [4, 6]).unwrap().slice(1, 2..4).unwrap().transpose();
    let expected = part.view::<u16>().unwrap().to_vec();
    let part = take(part.into_raw()).unwrap();
    let part = part.insert_axis(0).unwrap().insert_axis(0).unwrap().into_shared();
    let shared = part.share().transpose();
    let twice = shared.into_shared().share();
    assert_eq!(twice.transpose().view::<u16>().unwrap().to_vec(), expected);
    let part = part.try_into_tensor().expect("the other handles are dropped");
    let owner = part.try_into_owner::<Counted<Vec<u16>>>().unwrap();
    assert_eq!((&owner.owner, dropped.get()), (&numbers(), 0));
    drop(owner);
    let (owner, again) = Counted::new(numbers());
    assert!(Tensor::from_parts(owner, [4, 6]).unwrap().slice(1, 7..).is_err());
    assert_eq!((dropped.get(), again.get()), (1, 1));
}

#[test]
fn slice_of_an_imported_tensor_keeps_its_producer() {
    crate::common::through_both(
        || Producer::new(numbers(), &[4, 6]),
        |tensor| {
            let part = tensor.unwrap().flip(0).unwrap().slice(0, ..2).unwrap();
            let part = part.insert_axis(1).unwrap();
            assert_eq!(part.view::<u16>().unwrap()[[1, 0, 5]], numbers()[17]);
        },
    );
}

#[test]
fn repeated_slices_of_shares_do_not_grow_a_chain() {
    let mut tensor = Tensor::from(numbers());
    for _ in 0..if cfg!(miri) { 50 } else { 200_000 } {
        tensor = tensor.flip(0).unwrap().into_shared().share();
    }
    assert_eq!(tensor.view::<u16>().unwrap().to_vec(), numbers());
    assert_eq!(tensor.try_into_owner::<Vec<u16>>().unwrap(), numbers());
}

#[test]
fn slice_does_not_hide_elements_that_became_invalid() {
    let spoiled = || {
        let tensor = Tensor::from(vec![true; 4]);
        // SAFETY: the byte is in the tensor, and no view of it is alive.
        unsafe { tensor.data().cast::<u8>().add(3).write(2) };
        tensor
    };
    let dtype = spoiled().dtype();
    let refused = Error::InvalidElement { dtype };
    assert_eq!(spoiled().slice(0, ..2).unwrap_err(), refused);
    assert_eq!(spoiled().slice(0, 1..1).unwrap_err(), refused);
    assert_eq!(spoiled().index_axis(0, 0).unwrap_err(), refused);
    let reordered = spoiled().flip(0).unwrap().insert_axis(0).unwrap();
    assert!(reordered.try_into_owner::<Vec<bool>>().is_err());
    let shared = spoiled().into_shared().share().slice(0, ..2).unwrap();
    assert!(shared.try_into_owner::<Vec<bool>>().is_err());
    let good = Tensor::from(vec![true, false]).slice(0, 1..).unwrap();
    assert_eq!(good.try_into_owner::<Vec<bool>>().unwrap(), [true, false]);
}
