//! Access to a tensor's data: which tensors are stable, and how a tensor becomes immutable and stays immutable.

use std::sync::Arc;

use crate::common::{Counted, Producer, delete, take, take_legacy};
use dlbridge::sys::{DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_READ_ONLY};
use dlbridge::{Access, ArcTensor, DataType, Error, RawParts, Tensor};

const READ_ONLY: u64 = DLPACK_FLAG_BITMASK_READ_ONLY;
const IS_COPIED: u64 = DLPACK_FLAG_BITMASK_IS_COPIED;

fn unstable(access: Access) -> Result<(), Error> {
    Err(Error::Unstable { access })
}

#[test]
fn read_only_flag_does_not_stop_another_handle_and_is_not_stable() {
    let tensor = Tensor::from(vec![1_i32, 2]).into_shared();
    let writer = tensor.to_raw();
    for second in [take(tensor.to_raw()).unwrap(), tensor.share()] {
        let read_only = second.into_read_only();
        // SAFETY: the data is two integers, and no view borrows them now.
        unsafe { (*writer).dl_tensor.data.cast::<i32>().write(7) };
        assert_eq!(read_only.view::<i32>().unwrap().to_vec(), [7, 2], "the other handle wrote");
        assert_eq!(read_only.check_stable(), unstable(Access::ReadOnly));
        assert_eq!(read_only.try_into_immutable().unwrap_err().access(), Access::ReadOnly);
    }
    delete(writer);
}

#[test]
fn foreign_flags_never_make_a_tensor_immutable() {
    for (flags, access) in [
        (0, Access::Shared),
        (READ_ONLY, Access::ReadOnly),
        (READ_ONLY | IS_COPIED, Access::ReadOnly),
    ] {
        let import = || Producer::new(vec![1_i32, 2], &[2]).flags(flags).import().unwrap();
        assert_eq!(import().check_stable(), unstable(access));
        assert_eq!(import().try_into_immutable().unwrap_err().access(), access);
        // SAFETY: the producer of this test writes nothing.
        let immutable = unsafe { import().assume_immutable() };
        assert_eq!((immutable.access(), immutable.flags()), (Access::Immutable, READ_ONLY | flags));
        assert_eq!(immutable.check_stable(), Ok(()));
    }
}

#[test]
fn foreign_copy_is_exclusive_and_becomes_immutable() {
    let producer = Producer::new(vec![1_i32, 2], &[2]).flags(IS_COPIED);
    let deleted = producer.deleted();
    let tensor = producer.import().unwrap();
    assert_eq!(tensor.check_stable(), Ok(()));
    let mut tensor = tensor.try_into_immutable().unwrap();
    assert_eq!(tensor.view_mut::<i32>().unwrap_err(), Error::ReadOnly);
    drop(tensor);
    assert_eq!(deleted.get(), 1);
}

#[test]
fn shared_rust_data_is_immutable_without_unsafe_code() {
    for tensor in [
        Tensor::from(Arc::<[i32]>::from([1, 2])),
        Tensor::from(&[1_i32, 2][..]),
        Tensor::from(vec![1_i32, 2]).try_into_immutable().unwrap(),
    ] {
        assert_eq!((tensor.access(), tensor.flags() & READ_ONLY), (Access::Immutable, READ_ONLY));
        assert!(tensor.is_read_only());
        assert_eq!(tensor.check_stable(), Ok(()));
        assert_eq!(tensor.into_read_only().access(), Access::Immutable);
    }
}

#[test]
fn exported_exclusive_tensor_cannot_become_immutable() {
    let mut tensor = Tensor::from(vec![1_i32, 2]).into_shared();
    let second = tensor.share();
    let second = second.try_into_immutable().unwrap_err();
    assert_eq!(second.access(), Access::ReadOnly);
    let legacy = tensor.to_raw_legacy().unwrap();
    drop(second);
    tensor = tensor.try_into_tensor().map(drop).unwrap_err();
    drop(take_legacy(legacy).unwrap());
    let tensor = tensor.try_into_tensor().unwrap().try_into_immutable().unwrap();
    assert_eq!(tensor.try_into_owner::<Vec<i32>>().unwrap(), [1, 2]);
}

#[test]
fn last_tensor_that_shares_exclusive_data_becomes_immutable() {
    let (owner, dropped) = Counted::new(vec![1_i32, 2, 3]);
    let tensor = Tensor::from_parts(owner, [3]).unwrap().into_shared();
    let part = tensor.share().slice(0, 1..).unwrap();
    let part = part.try_into_immutable().unwrap_err();
    drop(tensor);
    let part = part.try_into_immutable().unwrap().into_shared();
    assert_eq!(part.access(), Access::Immutable);
    let source = part.share().try_into_owner::<ArcTensor>().unwrap();
    assert_eq!(
        (source.access(), source.len()),
        (Access::Immutable, 3),
        "the chain of owners does not grow"
    );
    drop((part, source));
    assert_eq!(dropped.get(), 1);
}

#[test]
fn last_tensor_that_shares_foreign_data_does_not_become_immutable() {
    let tensor = Producer::new(vec![1_i32, 2], &[2]).import().unwrap().into_shared();
    let second = tensor.share();
    drop(tensor);
    assert_eq!(second.try_into_immutable().unwrap_err().access(), Access::ReadOnly);
}

#[test]
fn tensors_made_from_an_immutable_one_are_immutable() {
    let tensor = Tensor::from(vec![1_u8, 2, 3, 4]).try_into_immutable().unwrap().into_shared();
    let made = [
        tensor.share(),
        take(tensor.to_raw()).unwrap(),
        take(tensor.share().into_raw()).unwrap(),
        tensor.share().into_shared().share(),
        tensor.share().slice(0, 1..).unwrap().flip(0).unwrap(),
        tensor.share().reshape([2, 2]).unwrap().transpose(),
        tensor.share().reshape([1, 2, 1, 2, 1]).unwrap(),
        tensor.share().slice(0, 1..).unwrap().into_shared().share(),
        tensor.share_bytes(DataType::UINT16, [1], 2).unwrap(),
    ];
    for made in made {
        assert_eq!((made.access(), made.flags()), (Access::Immutable, READ_ONLY), "{made:?}");
    }
    assert_eq!(tensor.to_copy().unwrap().access(), Access::Exclusive);
    let shared = Tensor::from(vec![1_u8, 2]).into_shared();
    assert_eq!(shared.share().access(), Access::ReadOnly);
    assert_eq!(shared.share_bytes(DataType::UINT8, [1], 0).unwrap().access(), Access::ReadOnly);
}

#[test]
fn promise_about_an_exported_tensor_ends_with_that_tensor() {
    let source = Tensor::from(vec![1_i32, 2]).into_shared();
    // SAFETY: no code of this test writes the vector.
    let promised = unsafe { source.share().assume_immutable() }.into_shared();
    let second = promised.share();
    assert_eq!(second.access(), Access::Immutable);
    // A share of it keeps the tensor of the promise, not the source.
    let owner = second.try_into_owner::<ArcTensor>().unwrap();
    assert!(ArcTensor::ptr_eq(&owner, &promised));
    assert_eq!(source.access(), Access::Exclusive);
}

#[test]
fn exported_tensor_declared_exclusive_keeps_its_own_promise_when_immutable() {
    let source = Tensor::from(vec![1_i32, 2]).into_shared();
    // SAFETY: nothing else uses the vector while the tensor lives.
    let exclusive = unsafe { take(source.to_raw()).unwrap().assume_exclusive() };
    let immutable = exclusive.try_into_immutable().unwrap().into_shared();
    let owner = immutable.share().try_into_owner::<ArcTensor>().unwrap();
    assert!(ArcTensor::ptr_eq(&owner, &immutable));
}

#[test]
fn raw_parts_have_the_access_that_the_caller_declares() {
    for access in [Access::Exclusive, Access::Shared, Access::ReadOnly, Access::Immutable] {
        let mut owner = vec![1_i32, 2];
        let parts = RawParts::of_elements(owner.as_mut_ptr(), access);
        // SAFETY: the data is two integers, which no code of this test writes.
        let tensor = unsafe { Tensor::from_raw_parts(owner, parts, &[2], None::<&[i64]>) };
        assert_eq!(tensor.unwrap().access(), access);
    }
}

#[test]
fn immutable_tensor_gives_its_owner_to_its_last_holder() {
    let tensor = Tensor::from(vec![1_i32, 2]).try_into_immutable().unwrap().into_shared();
    let second = tensor.share().try_into_owner::<Vec<i32>>().unwrap_err();
    drop(tensor);
    let mut owner = second.try_into_owner::<Vec<i32>>().unwrap();
    owner[0] = 5;
    assert_eq!(Tensor::from(owner).access(), Access::Exclusive);
}
