//! Exports to a C consumer: every field that it reads, the deleter that it calls, and the owner after a
//! round trip.

use std::thread;

use crate::common::{Count, Counted, Producer, delete, delete_the_legacy, dims, take, take_legacy};
use dlbridge::sys::{
    DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, kDLCPU, kDLFloat,
};
use dlbridge::{Access, ArcTensor, DataType, Error, RawParts, Tensor};

const READ_ONLY: u64 = dlbridge::sys::DLPACK_FLAG_BITMASK_READ_ONLY;
const IS_COPIED: u64 = dlbridge::sys::DLPACK_FLAG_BITMASK_IS_COPIED;
const PADDED: u64 = dlbridge::sys::DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;

/// Reads a versioned struct as a consumer does. Asserts that required pointers are not NULL.
fn read(managed: *const DLManagedTensorVersioned) -> (DLPackVersion, u64, DLTensor) {
    // SAFETY: the tests pass an exported tensor that is not freed yet.
    let managed = unsafe { &*managed };
    assert!(!managed.manager_ctx.is_null() && managed.deleter.is_some());
    (managed.version, managed.flags, managed.dl_tensor)
}

/// Reads a legacy struct as a consumer does.
fn read_legacy(managed: *const DLManagedTensor) -> DLTensor {
    // SAFETY: the tests pass an exported tensor that is not freed yet.
    let managed = unsafe { &*managed };
    assert!(!managed.manager_ctx.is_null() && managed.deleter.is_some());
    managed.dl_tensor
}

/// Asserts that a description is that of these floats on the CPU.
#[track_caller]
fn describes(tensor: &DLTensor, address: usize, shape: &[i64], strides: &[i64]) {
    assert_eq!(tensor.data.addr(), address);
    assert_eq!((tensor.device.device_type, tensor.device.device_id), (kDLCPU, 0));
    let dtype = (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
    assert_eq!(dtype, (kDLFloat, 32, 1));
    assert_eq!(dims(tensor), (shape.to_vec(), strides.to_vec()));
    assert_eq!((tensor.ndim, tensor.byte_offset), (shape.len() as i32, 0));
}

/// Six floats in an owner that counts its drops.
fn six_floats() -> (Counted<Vec<f32>>, Count, usize) {
    let (owner, dropped) = Counted::new(vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let address = owner.owner.as_ptr().addr();
    (owner, dropped, address)
}

#[test]
fn exported_tensor_has_every_field() {
    let (owner, dropped, address) = six_floats();
    let managed = Tensor::from_parts(owner, [2, 3]).unwrap().into_raw();
    let (version, flags, tensor) = read(managed);
    assert_eq!(version, DLPackVersion { major: 1, minor: 3 });
    assert_eq!(flags, IS_COPIED);
    describes(&tensor, address, &[2, 3], &[3, 1]);
    // SAFETY: the description is that of six floats, which no other code uses.
    unsafe { tensor.data.cast::<f32>().add(5).write(60.0) };
    let owner = take(managed).unwrap().try_into_owner::<Counted<Vec<f32>>>().unwrap();
    assert_eq!(owner.owner, [1.0, 2.0, 3.0, 4.0, 5.0, 60.0]);
    drop(owner);
    assert_eq!(dropped.get(), 1);
}

#[test]
fn export_of_an_offset_adds_it_to_the_address() {
    let (owner, dropped, address) = six_floats();
    let managed = Tensor::from_parts_strided(owner, [3], [-2], 5).unwrap().into_raw();
    describes(&read(managed).2, address + 5 * 4, &[3], &[-2]);
    delete(managed);
    assert_eq!(dropped.get(), 1);
}

#[test]
fn exported_scalars_and_empty_tensors_have_dims() {
    let scalar = Tensor::from_parts([7.0_f32; 1].to_vec(), []).unwrap().into_raw();
    assert_eq!(dims(&read(scalar).2), (vec![], vec![]));
    delete(scalar);
    let empty = Tensor::from_parts(Vec::<f32>::with_capacity(8), [3, 0, 2]).unwrap().into_raw();
    describes(&read(empty).2, 0, &[3, 0, 2], &[2, 2, 1]);
    delete(empty);
    let empty = Tensor::from(Vec::<f32>::new()).into_raw_legacy().unwrap();
    describes(&read_legacy(empty), 0, &[0], &[1]);
    delete_the_legacy(empty);
}

#[test]
fn exported_legacy_tensor_has_every_field() {
    let (owner, dropped, address) = six_floats();
    let managed = Tensor::from_parts(owner, [3, 2]).unwrap().into_raw_legacy().unwrap();
    describes(&read_legacy(managed), address, &[3, 2], &[2, 1]);
    assert_eq!(dropped.get(), 0);
    delete_the_legacy(managed);
    assert_eq!(dropped.get(), 1);
}

#[test]
fn shared_export_has_every_field_and_no_flags() {
    let (owner, dropped, address) = six_floats();
    let tensor = Tensor::from_parts(owner, [2, 3]).unwrap().into_shared();
    let managed = tensor.to_raw();
    let (version, flags, description) = read(managed);
    assert_eq!((version, flags), (DLPackVersion::CURRENT, 0));
    describes(&description, address, &[2, 3], &[3, 1]);
    let legacy = tensor.to_raw_legacy().unwrap();
    describes(&read_legacy(legacy), address, &[2, 3], &[3, 1]);
    drop(tensor);
    // The dims belong to the tensor, which lives on.
    describes(&read(managed).2, address, &[2, 3], &[3, 1]);
    delete(managed);
    describes(&read_legacy(legacy), address, &[2, 3], &[3, 1]);
    assert_eq!(dropped.get(), 0);
    delete_the_legacy(legacy);
    assert_eq!(dropped.get(), 1);
}

#[test]
fn owner_of_many_exports_drops_with_the_last_in_any_order() {
    enum Handle {
        Own(ArcTensor),
        Versioned(*mut DLManagedTensorVersioned),
        Legacy(*mut DLManagedTensor),
    }
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        let (owner, dropped, _) = six_floats();
        let tensor = Tensor::from_parts(owner, [6]).unwrap().into_shared();
        let mut handles = [
            Some(Handle::Versioned(tensor.to_raw())),
            Some(Handle::Legacy(tensor.to_raw_legacy().unwrap())),
            Some(Handle::Versioned(tensor.to_raw())),
            Some(Handle::Own(tensor)),
        ];
        for (done, which) in order.into_iter().enumerate() {
            assert_eq!(dropped.get(), 0, "{order:?} after {done}");
            match handles[which].take().unwrap() {
                Handle::Own(tensor) => drop(tensor),
                Handle::Versioned(managed) => delete(managed),
                Handle::Legacy(managed) => delete_the_legacy(managed),
            }
        }
        assert_eq!(dropped.get(), 1, "{order:?}");
    }
}

#[test]
fn read_only_tensor_stays_read_only_on_export() {
    let made = || Tensor::from(&[1.0_f32, 2.0][..]);
    let managed = made().into_raw();
    assert_eq!(read(managed).1, READ_ONLY);
    assert_eq!(take(managed).unwrap().access(), Access::Immutable);

    let tensor = made().into_shared();
    let managed = tensor.to_raw();
    assert_eq!(read(managed).1, READ_ONLY);
    assert_eq!(take(managed).unwrap().access(), Access::Immutable);

    assert_eq!(tensor.to_raw_legacy().unwrap_err(), Error::LegacyReadOnly);
    let (tensor, error) = made().into_raw_legacy().unwrap_err();
    assert_eq!(error, Error::LegacyReadOnly);
    assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [1.0, 2.0]);

    // A read-only copy has both flags, and is still not writable.
    let both = Producer::new(vec![1.0_f32], &[1]).flags(READ_ONLY | IS_COPIED);
    let both = both.import().unwrap().into_shared();
    let managed = both.to_raw();
    assert_eq!(read(managed).1, READ_ONLY);
    delete(managed);
}

#[test]
fn padded_elements_are_flagged_or_refused() {
    let mut nibbles = vec![1_u8, 2, 3];
    let data = nibbles.as_mut_ptr().cast();
    let parts = RawParts { subbyte_padded: true, ..RawParts::new(data, DataType::FLOAT4_E2M1FN) };
    // SAFETY: the data is three bytes of the vector, whose heap memory stays in place when it moves.
    let tensor = unsafe { Tensor::from_raw_parts(nibbles, parts, &[3], None::<&[i64]>) }.unwrap();
    let (tensor, error) = tensor.into_raw_legacy().unwrap_err();
    assert_eq!(error, Error::LegacySubbytePadded);
    let tensor = tensor.into_shared();
    assert_eq!(tensor.to_raw_legacy().unwrap_err(), Error::LegacySubbytePadded);
    let managed = tensor.to_raw();
    assert_eq!(read(managed).1, PADDED);
    delete(managed);
}

#[test]
fn deleter_on_another_thread_drops_the_owner() {
    struct Lent(*mut DLManagedTensorVersioned, *mut DLManagedTensor);
    // SAFETY: the deleters may be called on any thread.
    unsafe impl Send for Lent {}
    let (owner, dropped, _) = six_floats();
    let tensor = Tensor::from_parts(owner, [6]).unwrap().into_shared();
    let lent = Lent(tensor.to_raw(), tensor.to_raw_legacy().unwrap());
    drop(tensor);
    let consumer = thread::spawn(move || {
        let Lent(versioned, legacy) = { lent };
        delete(versioned);
        delete_the_legacy(legacy);
    });
    consumer.join().unwrap();
    assert_eq!(dropped.get(), 1);
}

#[test]
fn owner_comes_back_after_a_round_trip() {
    let mut values = Vec::with_capacity(10);
    values.extend([1_i16, 2, 3]);
    let address = values.as_ptr();
    let home = take(Tensor::from(values).into_raw()).unwrap();
    assert_eq!(home.access(), Access::Exclusive);
    let home = take_legacy(home.into_raw_legacy().unwrap()).unwrap();
    assert_eq!(home.access(), Access::Exclusive);
    let values = home.try_into_owner::<Vec<i16>>().unwrap();
    assert_eq!((values.as_ptr(), values.capacity()), (address, 10));
    assert_eq!(values, [1, 2, 3]);
}

#[test]
fn owner_of_the_wrong_type_returns_the_tensor() {
    let (owner, dropped, address) = six_floats();
    let tensor = Tensor::from_parts(owner, [6]).unwrap();
    let tensor = tensor.try_into_owner::<Vec<f32>>().unwrap_err();
    let tensor = tensor.try_into_owner::<Counted<Box<[f32]>>>().unwrap_err();
    let tensor = tensor.try_into_owner::<()>().unwrap_err();
    assert_eq!((tensor.data().addr(), dropped.get()), (address, 0));
    drop(tensor.try_into_owner::<Counted<Vec<f32>>>().unwrap());
    assert_eq!(dropped.get(), 1);
    // The owner of a tensor from C is not of a Rust type.
    let foreign = Producer::new(vec![1.0_f32], &[1]);
    let deleted = foreign.deleted();
    let foreign = foreign.import().unwrap().try_into_owner::<Vec<f32>>().unwrap_err();
    assert_eq!(deleted.get(), 0);
    drop(foreign);
    assert_eq!(deleted.get(), 1);
}

#[test]
fn handle_comes_back_from_an_exported_tensor() {
    let (owner, dropped, _) = six_floats();
    let tensor = Tensor::from_parts(owner, [6]).unwrap().into_shared();
    let lent = take(tensor.to_raw()).unwrap();
    let legacy = take_legacy(tensor.to_raw_legacy().unwrap()).unwrap();
    assert_eq!((lent.access(), legacy.access()), (Access::Shared, Access::Shared));
    assert_eq!(legacy.view::<f32>().unwrap()[[5]], 6.0);
    let mut handles = [lent, legacy].map(|t| t.try_into_owner::<ArcTensor>().unwrap()).to_vec();
    assert!(handles.iter().all(|handle| ArcTensor::ptr_eq(handle, &tensor)));
    handles.clear();
    // It is the only handle again, and the tensor is exclusive again.
    let mut tensor = tensor.try_into_tensor().unwrap();
    tensor.view_mut::<f32>().unwrap()[[0]] = 10.0;
    drop(tensor);
    assert_eq!(dropped.get(), 1);
}

#[test]
fn second_tensor_over_the_same_memory_is_read_only() {
    let (owner, dropped, address) = six_floats();
    let first = Tensor::from_parts(owner, [2, 3]).unwrap().into_shared();
    let mut second = first.share();
    assert_eq!((second.access(), second.flags()), (Access::ReadOnly, READ_ONLY));
    assert_eq!((second.data().addr(), second.shape()), (address, first.shape()));
    assert_eq!(second.view_mut::<f32>().unwrap_err(), Error::ReadOnly);
    drop(first);
    assert_eq!(second.view::<f32>().unwrap()[[1, 2]], 6.0);
    // A tensor of a tensor of a tensor.
    let third = second.into_shared().share();
    let managed = third.into_shared().to_raw();
    describes(&read(managed).2, address, &[2, 3], &[3, 1]);
    assert_eq!((read(managed).1, dropped.get()), (READ_ONLY, 0));
    delete(managed);
    assert_eq!(dropped.get(), 1);
}

#[test]
fn scalar_over_memory_of_a_tensor_keeps_it_alive() {
    let (owner, dropped, address) = six_floats();
    let whole = Tensor::from_parts(owner, [6]).unwrap().into_shared();
    let second = whole.data().wrapping_byte_add(4);
    let parts = RawParts::new(second, DataType::FLOAT32);
    // SAFETY: the data is the second of six floats, which live as long as a handle on their tensor.
    let scalar = unsafe { Tensor::from_raw_parts(whole, parts, &[0_i64; 0], None::<&[i64]>) };
    let scalar = scalar.unwrap().into_shared();
    let (lent, again) = (take(scalar.to_raw()).unwrap(), scalar.share());
    drop(scalar);
    assert_eq!((lent.data().addr(), lent.view::<f32>().unwrap()[[]]), (address + 4, 2.0));
    drop(lent);
    assert_eq!((again.ndim(), again.view::<f32>().unwrap()[[]], dropped.get()), (0, 2.0, 0));
    drop(again);
    assert_eq!(dropped.get(), 1);
}

#[test]
fn assume_exclusive_makes_shared_writable_and_read_only_stays() {
    let shared = Producer::new(vec![1_i32, 2], &[2]).import().unwrap();
    // SAFETY: the producer of this test does not use the data.
    let mut tensor = unsafe { shared.assume_exclusive() };
    assert_eq!((tensor.access(), tensor.flags()), (Access::Exclusive, IS_COPIED));
    tensor.view_mut::<i32>().unwrap()[[1]] = 20;
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [1, 20]);

    let read_only = Tensor::from(&[1_i32, 2][..]);
    // SAFETY: no code writes the constant.
    let mut tensor = unsafe { read_only.assume_exclusive() };
    assert_eq!(tensor.access(), Access::Immutable);
    assert_eq!(tensor.view_mut::<i32>().unwrap_err(), Error::ReadOnly);
}

#[test]
fn read_only_mark_holds_for_everything_made_from_the_tensor() {
    let (owner, dropped, _) = six_floats();
    let tensor = Tensor::from_parts(owner, [6]).unwrap().into_read_only();
    assert_eq!(tensor.access(), Access::ReadOnly);
    let (tensor, error) = tensor.into_raw_legacy().unwrap_err();
    assert_eq!(error, Error::LegacyReadOnly);
    let managed = tensor.into_shared().to_raw();
    assert_eq!(read(managed).1, READ_ONLY);
    delete(managed);
    assert_eq!(dropped.get(), 1);
}
