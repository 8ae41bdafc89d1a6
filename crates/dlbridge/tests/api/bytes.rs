//! Bytes in and out: the same memory, and the very handle where it was one.
#![cfg(feature = "bytes")]

use std::sync::Arc;

use crate::common::{Counted, Producer, delete, take};
use bytes::{Bytes, BytesMut};
use dlbridge::{Access, DataType, Device, DeviceType, Error, Tensor, Unaligned};

#[test]
fn bytes_are_immutable_and_come_back() {
    let bytes = Bytes::from(vec![1, 2, 3, 4]).slice(1..);
    let tensor = Tensor::from(bytes.clone());
    assert_eq!((tensor.shape(), tensor.dtype()), (&[3][..], DataType::UINT8));
    assert_eq!(tensor.access(), Access::Immutable);
    assert_eq!(tensor.data().addr(), bytes.as_ptr().addr());
    assert_eq!(tensor.try_into_owner::<Bytes>().unwrap(), bytes);
}

#[test]
fn mutable_bytes_are_exclusive_and_come_back() {
    let bytes = BytesMut::from(&[1, 2, 3][..]);
    let address = bytes.as_ptr().addr();
    let mut tensor = Tensor::from(bytes);
    assert_eq!((tensor.access(), tensor.data().addr()), (Access::Exclusive, address));
    tensor.view_mut::<u8>().unwrap()[[1]] = 20;
    let bytes = tensor.try_into_owner::<BytesMut>().unwrap();
    assert_eq!((&bytes[..], bytes.as_ptr().addr()), (&[1, 20, 3][..], address));
}

#[test]
fn any_tensor_becomes_bytes_and_lives_as_long_as_they() {
    let (owner, dropped) = Counted::new(vec![0x0101_u16, 0x0202, 0x0303]);
    let address = owner.owner.as_ptr().addr();
    let bytes = Bytes::try_from(Tensor::from_parts(owner, [3]).unwrap()).unwrap();
    assert_eq!((&bytes[..], bytes.as_ptr().addr()), (&[1, 1, 2, 2, 3, 3][..], address));
    let tail = bytes.slice(4..);
    drop(bytes);
    assert_eq!((&tail[..], dropped.get()), (&[3, 3][..], 0));
    assert!(tail.try_into_mut().is_err(), "what is lent is never written");
    assert_eq!(dropped.get(), 1);
}

#[test]
fn foreign_memory_becomes_bytes() {
    let producer = Producer::new(vec![1_u8, 2, 3], &[3]);
    let deleted = producer.deleted();
    // SAFETY: the producer of this test writes nothing.
    let tensor = unsafe { producer.import().unwrap().assume_immutable() };
    let bytes = Bytes::try_from(tensor).unwrap();
    let other = std::thread::spawn(move || assert_eq!(&bytes[..], [1, 2, 3]));
    other.join().unwrap();
    assert_eq!(deleted.get(), 1);
}

#[test]
fn what_was_bytes_is_the_same_bytes_again() {
    let bytes = Bytes::from((0..12).collect::<Vec<u8>>());
    let address = bytes.as_ptr().addr();
    let whole = Bytes::try_from(Tensor::from(bytes.clone())).unwrap();
    drop(bytes);
    assert!(whole.is_unique(), "one handle went in, and came out");
    let part = Tensor::from(whole).slice(0, 2..5).unwrap().reshape([3, 1]).unwrap();
    let part = Bytes::try_from(part).unwrap();
    assert_eq!((&part[..], part.as_ptr().addr()), (&[2, 3, 4][..], address + 2));
    let none = Bytes::try_from(Tensor::from(part).slice(0, 3..).unwrap()).unwrap();
    assert!(none.is_empty());
}

#[test]
fn what_has_no_adjacent_bytes_here_is_refused_and_dropped() {
    let refused = |tensor: Tensor| Bytes::try_from(tensor).unwrap_err();
    let (owner, dropped) = Counted::new(vec![1_u8, 2, 3, 4]);
    let strided = Tensor::from_parts_strided(owner, [2], [2], 0).unwrap();
    assert_eq!((refused(strided), dropped.get()), (Error::NotContiguous, 1));
    let producer = Producer::new(vec![1_u8], &[1]).device(2, 0);
    let (deleted, device) = (producer.deleted(), Device::new(DeviceType::CUDA, 0));
    let cuda = producer.import().unwrap();
    assert_eq!(refused(cuda), Error::NotHostAccessible { device });
    assert_eq!(deleted.get(), 1);
    assert_eq!(Bytes::try_from(Tensor::from(Vec::<f64>::new())).unwrap(), Bytes::new());
}

#[test]
fn bytes_have_any_dtype_that_fits() {
    let message = Bytes::from(vec![9, 0, 1, 0, 2, 0, 3, 0]);
    let tensor = |dtype, shape: &[usize], at| Tensor::from_bytes(message.clone(), dtype, shape, at);
    let halves = tensor(DataType::UINT16, &[3], 2).unwrap();
    let numbers = halves.view::<Unaligned<u16>>().unwrap();
    assert!(numbers.iter().map(|n| u16::from_le(n.get())).eq([1, 2, 3]));
    assert_eq!(halves.access(), Access::Immutable);
    let too_many = Error::ByteCount { needed: 10, available: 8 };
    assert_eq!(tensor(DataType::UINT16, &[4], 2).unwrap_err(), too_many);
    let beyond = Error::ByteCount { needed: 9, available: 8 };
    assert_eq!(tensor(DataType::UINT16, &[0], 9).unwrap_err(), beyond);
    assert!(tensor(DataType::UINT16, &[0], 8).unwrap().is_empty());
    assert_eq!(tensor(DataType::UINT16, &[usize::MAX], 0).unwrap_err(), Error::TooLarge);
    let nibbles = tensor(DataType::FLOAT4_E2M1FN, &[15], 0).unwrap();
    assert_eq!(nibbles.nbytes(), 8);
    assert!(tensor(DataType::FLOAT4_E2M1FN, &[17], 0).is_err());
    let none = DataType::UINT8.with_lanes(0);
    assert_eq!(tensor(none, &[1], 0).unwrap_err(), Error::InvalidDataType { dtype: none });
}

#[test]
fn memory_that_others_may_write_does_not_become_bytes() {
    let tensor = Arc::new(Tensor::from(vec![1_u8, 2]));
    let writer = tensor.lend();
    for (second, access) in [
        (take(tensor.lend()).unwrap(), Access::Shared),
        (take(tensor.lend()).unwrap().into_read_only(), Access::ReadOnly),
        (tensor.share(), Access::ReadOnly),
    ] {
        assert_eq!(Bytes::try_from(second).unwrap_err(), Error::Unstable { access });
    }
    delete(writer);
    let tensor = Arc::try_unwrap(tensor).unwrap().try_into_immutable().unwrap();
    assert_eq!(Bytes::try_from(tensor).unwrap()[..], [1, 2]);
    let empty = Producer::new(Vec::<u8>::new(), &[0]).import().unwrap();
    assert!(Bytes::try_from(empty).unwrap().is_empty());
}
