//! `Bytes` to tensors and back: the same memory, and the same handle for a tensor made from one.
#![cfg(feature = "bytes")]

use crate::common::{Counted, Producer, delete, take};
use bytes::{Bytes, BytesMut};
use dlbridge::{Access, DataType, Device, DeviceType, Error, RawParts, Tensor, Unaligned};

#[test]
fn bytes_become_an_immutable_tensor_and_round_trip() {
    let bytes = Bytes::from(vec![1, 2, 3, 4]).slice(1..);
    let tensor = Tensor::from(bytes.clone());
    assert_eq!((tensor.shape(), tensor.dtype()), (&[3][..], DataType::UINT8));
    assert_eq!(tensor.access(), Access::Immutable);
    assert_eq!(tensor.data().addr(), bytes.as_ptr().addr());
    assert_eq!(tensor.try_into_owner::<Bytes>().unwrap(), bytes);
}

#[test]
fn mutable_bytes_become_an_exclusive_tensor_and_round_trip() {
    let bytes = BytesMut::from(&[1, 2, 3][..]);
    let address = bytes.as_ptr().addr();
    let mut tensor = Tensor::from(bytes);
    assert_eq!((tensor.access(), tensor.data().addr()), (Access::Exclusive, address));
    tensor.view_mut::<u8>().unwrap()[[1]] = 20;
    let bytes = tensor.try_into_owner::<BytesMut>().unwrap();
    assert_eq!((&bytes[..], bytes.as_ptr().addr()), (&[1, 20, 3][..], address));
}

#[test]
fn bytes_made_from_any_tensor_keep_it_alive() {
    let (owner, dropped) = Counted::new(vec![0x0101_u16, 0x0202, 0x0303]);
    let address = owner.owner.as_ptr().addr();
    let bytes = Bytes::try_from(Tensor::from_parts(owner, [3]).unwrap()).unwrap();
    assert_eq!((&bytes[..], bytes.as_ptr().addr()), (&[1, 1, 2, 2, 3, 3][..], address));
    let tail = bytes.slice(4..);
    drop(bytes);
    assert_eq!((&tail[..], dropped.get()), (&[3, 3][..], 0));
    assert!(tail.try_into_mut().is_err(), "exported memory is never written");
    assert_eq!(dropped.get(), 1);
}

#[test]
fn elements_outside_of_the_bytes_that_keep_them_are_not_looked_for_in_them() {
    static OTHERS: [u8; 3] = [7, 8, 9];
    let over = |access| {
        let first = (&raw const OTHERS).cast_mut().cast();
        let parts = RawParts { access, ..RawParts::new(first, DataType::UINT8) };
        // SAFETY: nothing writes the static, which any owner keeps.
        unsafe { Tensor::from_raw_parts(Bytes::from(vec![0; 9]), parts, &[3], None::<&[i64]>) }
            .unwrap()
    };
    let bytes = Bytes::try_from(over(Access::Immutable)).unwrap();
    assert_eq!((&bytes[..], bytes.as_ptr().addr()), (&OTHERS[..], OTHERS.as_ptr().addr()));
    let access = Access::ReadOnly;
    assert_eq!(Bytes::try_from(over(access)).unwrap_err(), Error::Unstable { access });
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
fn tensor_made_from_bytes_returns_the_same_bytes() {
    let bytes = Bytes::from((0..12).collect::<Vec<u8>>());
    let address = bytes.as_ptr().addr();
    let whole = Bytes::try_from(Tensor::from(bytes.clone())).unwrap();
    drop(bytes);
    assert!(whole.is_unique(), "the round trip adds no handle");
    let part = Tensor::from(whole).slice(0, 2..5).unwrap().reshape([3, 1]).unwrap();
    let part = Bytes::try_from(part).unwrap();
    assert_eq!((&part[..], part.as_ptr().addr()), (&[2, 3, 4][..], address + 2));
    let none = Bytes::try_from(Tensor::from(part).slice(0, 3..).unwrap()).unwrap();
    assert!(none.is_empty());
}

#[test]
fn tensor_without_contiguous_cpu_bytes_is_refused_and_dropped() {
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
fn memory_that_others_may_write_is_refused() {
    let tensor = Tensor::from(vec![1_u8, 2]).into_shared();
    let writer = tensor.to_raw();
    for (second, access) in [
        (take(tensor.to_raw()).unwrap(), Access::Shared),
        (take(tensor.to_raw()).unwrap().into_read_only(), Access::ReadOnly),
        (tensor.share(), Access::ReadOnly),
    ] {
        assert_eq!(Bytes::try_from(second).unwrap_err(), Error::Unstable { access });
    }
    delete(writer);
    let tensor = tensor.try_into_tensor().unwrap().try_into_immutable().unwrap();
    assert_eq!(Bytes::try_from(tensor).unwrap()[..], [1, 2]);
    let empty = Producer::new(Vec::<u8>::new(), &[0]).import().unwrap();
    assert!(Bytes::try_from(empty).unwrap().is_empty());
}
