//! Tensors that become slices of themselves: the owner keeps all elements, is dropped once, and comes back.

use crate::common::{
    Count, Counted, Producer, delete, delete_the_legacy, dims, take, take_legacy, through_both,
};
use dlbridge::{Access, DataType, Element, Error, Owner, Result, Tensor, TensorRef};

/// Returns a tensor of 24 ascending numbers, and the count of its owner's drops.
fn counted() -> (Tensor, Count) {
    let (owner, dropped) = Counted::new((0..24).collect::<Vec<u32>>());
    (Tensor::from_parts(owner, [2, 3, 4]).unwrap(), dropped)
}

/// A function that makes a slice of a tensor.
type TakePart = fn(Tensor) -> Result<Tensor>;

/// Returns columns of the second half: [4, 3] with the numbers 12 to 23.
fn columns(tensor: Tensor) -> Tensor {
    tensor.index_axis(0, 1).unwrap().transpose()
}

const COLUMNS: [u32; 12] = [12, 16, 20, 13, 17, 21, 14, 18, 22, 15, 19, 23];

fn elements(tensor: &Tensor) -> Vec<u32> {
    tensor.view::<u32>().unwrap().to_vec()
}

#[test]
fn owner_of_a_slice_comes_back_with_all_elements() {
    let (tensor, dropped) = counted();
    let tensor = columns(tensor);
    assert_eq!((tensor.shape(), tensor.strides()), (&[4, 3][..], &[1, 4][..]));
    assert_eq!(elements(&tensor), COLUMNS);
    let tensor = tensor.try_into_owner::<Vec<u32>>().unwrap_err();
    let owner = tensor.try_into_owner::<Counted<Vec<u32>>>().unwrap();
    assert!(owner.owner.iter().copied().eq(0..24));
    assert_eq!(dropped.get(), 0);
    drop(owner);
    assert_eq!(dropped.get(), 1);
}

#[test]
fn owner_of_a_slice_is_dropped_once_by_any_holder() {
    let ways: [fn(Tensor); 9] = [
        drop,
        |part| delete(part.into_raw()),
        |part| drop(take(part.into_raw()).unwrap()),
        |part| delete_the_legacy(part.into_raw_legacy().unwrap()),
        |part| drop(take_legacy(part.into_raw_legacy().unwrap()).unwrap().flip(0).unwrap()),
        |part| delete(part.into_shared().to_raw()),
        |part| {
            let part = part.into_shared();
            let (lent, legacy) = (part.to_raw(), part.to_raw_legacy().unwrap());
            let shared = part.share();
            drop(part);
            delete(lent);
            assert_eq!(elements(&shared), COLUMNS);
            delete_the_legacy(legacy);
            assert_eq!(elements(&shared.slice(0, 1..).unwrap()), COLUMNS[3..]);
        },
        |part| drop(part.slice(0, 2..2).unwrap()),
        |part| assert!(part.slice(0, 5..).is_err()),
    ];
    for way in ways {
        let (tensor, dropped) = counted();
        let part = columns(tensor);
        assert_eq!(dropped.get(), 0);
        way(part);
        assert_eq!(dropped.get(), 1);
    }
}

#[test]
fn exported_slice_describes_the_slice() {
    let (tensor, dropped) = counted();
    let home = tensor.data();
    let managed = columns(tensor).into_raw();
    // SAFETY: the exported tensor is alive, and only this test has it.
    let description = unsafe { (*managed).dl_tensor };
    assert_eq!(dims(&description), (vec![4, 3], vec![1, 4]));
    assert_eq!((description.data.addr(), description.byte_offset), (home.addr() + 48, 0));
    let tensor = take(managed).unwrap();
    assert_eq!((elements(&tensor), tensor.access()), (COLUMNS.to_vec(), Access::Exclusive));
    let legacy = tensor.into_raw_legacy().unwrap();
    // SAFETY: the exported tensor is alive, and only this test has it.
    assert_eq!(dims(unsafe { &(*legacy).dl_tensor }), (vec![4, 3], vec![1, 4]));
    let tensor = take_legacy(legacy).unwrap();
    assert_eq!(elements(&tensor), COLUMNS);
    assert!(tensor.try_into_owner::<Counted<Vec<u32>>>().is_ok());
    assert_eq!(dropped.get(), 1);
}

#[test]
fn insert_axis_beyond_the_room_of_the_block_succeeds() {
    /// An owner with a large alignment.
    #[repr(align(512))]
    struct Aligned(Counted<Box<[u32]>>);

    // SAFETY: the memory is that of the inner owner, which this keeps.
    unsafe impl Owner for Aligned {
        type Item = u32;
        const ACCESS: Access = Access::Exclusive;

        fn items(&mut self) -> *mut [u32] {
            self.0.items()
        }
    }
    let (owner, dropped) = Counted::new(vec![1, 2, 3].into_boxed_slice());
    let mut tensor = Tensor::from_parts(Aligned(owner), [3]).unwrap();
    for ndim in 2..12 {
        tensor = tensor.insert_axis(ndim / 2).unwrap();
        assert_eq!((tensor.ndim(), tensor.as_raw().addr() % 512), (ndim, 0));
        assert_eq!(elements(&tensor), [1, 2, 3]);
    }
    // Fewer axes, and then the same number again, fit into the same block.
    let block = tensor.as_raw();
    tensor = tensor.reshape([3]).unwrap().insert_axis(0).unwrap();
    tensor = tensor.reshape([1, 1, 3, 1, 1, 1]).unwrap();
    assert_eq!(tensor.as_raw(), block);
    tensor.view_mut::<u32>().unwrap().iter_mut().for_each(|element| *element *= 2);
    let owner = tensor.try_into_owner::<Aligned>().ok().unwrap();
    assert_eq!(*owner.0.owner, [2, 4, 6]);
    drop(owner);
    assert_eq!(dropped.get(), 1);

    // Also imports through both ABIs.
    through_both(
        || Producer::new(vec![1_u32, 2, 3], &[]),
        |tensor| {
            let tensor = tensor.unwrap().insert_axis(0).unwrap().insert_axis(0).unwrap();
            assert_eq!((tensor.shape(), elements(&tensor)), (&[1, 1][..], vec![1]));
            delete(tensor.into_raw());
        },
    );
}

#[test]
fn slice_of_an_import_calls_the_deleter_once() {
    let make = || {
        let values: Vec<u32> = (0..24).collect();
        Producer::new(values, &[2, 3, 4]).strides(&[12, 4, 1])
    };
    through_both(make, |tensor| {
        let part = columns(tensor.unwrap());
        assert_eq!((elements(&part), part.access()), (COLUMNS.to_vec(), Access::Shared));
        let part = part.into_shared();
        let shared = part.share().step_by(0, 2).unwrap();
        assert_eq!(elements(&shared), [12, 16, 20, 14, 18, 22]);
        delete(part.to_raw());
    });
    through_both(make, |tensor| assert!(tensor.unwrap().reshape([5]).is_err()));
}

/// An exported tensor has its dims in the block of its source.
#[test]
fn slice_of_an_exported_tensor_has_dims_of_its_own() {
    let (tensor, dropped) = counted();
    let source = tensor.into_shared();
    let part = columns(source.share());
    assert_eq!((source.shape(), part.shape()), (&[2, 3, 4][..], &[4, 3][..]));
    // These dims live as long as the slice, so an export of the slice has its own again.
    let part = part.into_shared();
    let lent = take(part.to_raw()).unwrap();
    assert_ne!(lent.shape().as_ptr(), part.shape().as_ptr());
    assert_eq!((lent.shape(), lent.strides()), (part.shape(), part.strides()));
    drop(part);
    assert_eq!(elements(&lent), COLUMNS);
    let scalar = lent.index_axis(0, 3).unwrap().index_axis(0, 1).unwrap();
    assert_eq!((scalar.shape(), elements(&scalar)), (&[][..], vec![19]));
    // Exported again without dimensions, and then with some.
    let scalar = scalar.into_shared();
    let again = take(scalar.to_raw()).unwrap();
    drop((source, scalar));
    assert_eq!((again.ndim(), elements(&again)), (0, vec![19]));
    let row = again.insert_axis(0).unwrap();
    assert_eq!((row.shape(), row.strides(), elements(&row)), (&[1][..], &[1][..], vec![19]));
    let row = row.into_shared();
    assert_eq!(
        row.to_raw_legacy().unwrap_err(),
        Error::LegacyReadOnly,
        "a shared tensor stays read-only"
    );
    assert_eq!(dropped.get(), 0);
    drop(row);
    assert_eq!(dropped.get(), 1);

    // An exported scalar lacks dims to reuse.
    let scalar = Tensor::from_parts(vec![5_u32], []).unwrap().into_shared().share();
    assert_eq!(elements(&scalar.insert_axis(0).unwrap().insert_axis(1).unwrap()), [5]);
}

#[test]
fn repeated_shares_of_slices_do_not_grow_a_chain() {
    let turns = if cfg!(miri) { 30 } else { 100_000 };
    let (mut tensor, dropped) = counted();
    for turn in 0..turns {
        tensor = tensor.into_shared().share().transpose();
        if turn % 2 == 0 {
            tensor = take(tensor.into_shared().to_raw()).unwrap().insert_axis(0).unwrap();
            tensor = tensor.index_axis(0, 0).unwrap();
        }
    }
    assert_eq!(elements(&tensor), (0..24).collect::<Vec<u32>>());
    drop(tensor);
    assert_eq!(dropped.get(), 1);
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
fn slice_validates_dropped_elements() {
    let spoiled = || {
        let (owner, dropped) = Counted::new(vec![true; 6]);
        let mut tensor = Tensor::from_parts(owner, [2, 3]).unwrap();
        tensor.view_mut::<Truth>().unwrap()[[0, 1]] = Truth(2);
        (tensor, dropped)
    };
    let error = Error::InvalidElement { dtype: DataType::BOOL };
    let smaller: [TakePart; 5] = [
        |tensor| tensor.slice(0, 1..),
        |tensor| tensor.slice(1, 2..2),
        |tensor| tensor.index_axis(1, 0),
        |tensor| tensor.step_by(1, 2),
        |tensor| tensor.flip(1)?.transpose().reshape([3, 1, 2])?.slice(0, ..2),
    ];
    for part in smaller {
        let (tensor, dropped) = spoiled();
        assert_eq!((part(tensor).unwrap_err(), dropped.get()), (error, 1));
    }
    // Operations that keep all elements are allowed, and the data can be repaired.
    let (tensor, _) = spoiled();
    let tensor = tensor.transpose().flip(0).unwrap().insert_axis(0).unwrap();
    let mut tensor = tensor.try_into_owner::<Counted<Vec<bool>>>().unwrap_err();
    tensor.view_mut::<Truth>().unwrap()[[0, 1, 0]] = Truth(0);
    let owner = tensor.try_into_owner::<Counted<Vec<bool>>>().unwrap();
    assert_eq!(owner.owner, [true, false, true, true, true, true]);
    // A valid slice that becomes invalid later keeps its owner too, also after another slice.
    let part = || Tensor::from(vec![true; 6]).slice(0, 2..5).unwrap();
    let mut tensor = part();
    tensor.view_mut::<Truth>().unwrap()[[1]] = Truth(7);
    assert!(tensor.try_into_owner::<Vec<bool>>().is_err());
    let mut tensor = part();
    tensor.view_mut::<Truth>().unwrap()[[2]] = Truth(7);
    assert_eq!(tensor.slice(0, ..2).unwrap_err(), error);
    assert_eq!(part().try_into_owner::<Vec<bool>>().unwrap(), [true; 6]);
}

#[test]
fn slice_keeps_the_access_of_the_tensor() {
    let access = |tensor: Tensor| columns(tensor).access();
    assert_eq!(access(counted().0), Access::Exclusive);
    assert_eq!(access(counted().0.into_read_only()), Access::ReadOnly);
    assert_eq!(access(counted().0.into_shared().share()), Access::ReadOnly);
    assert_eq!(access(take(counted().0.into_shared().to_raw()).unwrap()), Access::Shared);
}

/// OpenCL: `data` is a handle, which a slice must not change.
const OPENCL: i32 = 4;
/// Memory of a CUDA GPU, which has addresses that the CPU cannot read.
const CUDA: i32 = 2;

#[test]
fn slice_on_a_device_moves_the_offset_or_the_address() {
    let place = std::ptr::without_provenance_mut(0x1000);
    let lent = |device| {
        let producer = Producer::at(place, DataType::INT16, &[3, 4]).strides(&[-4, 1]);
        producer.byte_offset(64).device(device, 0).import().unwrap()
    };
    let at = |tensor: &Tensor| (tensor.data().addr(), tensor.byte_offset());
    for (device, base) in [(OPENCL, (0x1000_usize, 64)), (CUDA, (0x1040, 0))] {
        let expected = |bytes: i64| match base {
            (handle, 64) => (handle, 64_u64.checked_add_signed(bytes).unwrap()),
            (address, _) => (address.checked_add_signed(bytes as isize).unwrap(), 0),
        };
        let parts: [(TakePart, i64); 6] = [
            (|t| Ok(t.transpose()), 0),
            (|t| t.slice(0, 2..), -16),
            (|t| t.slice(1, 3..), 6),
            (|t| t.flip(0), -16),
            (|t| t.flip(1)?.index_axis(0, 1), -2),
            (|t| t.reshape([3, 2, 2])?.index_axis(1, 1), 4),
        ];
        for (part, bytes) in parts {
            let part = part(lent(device)).unwrap();
            assert_eq!(at(&part), expected(bytes), "{device}: {part:?}");
            let borrowed = TensorRef::from(&part);
            assert_eq!((borrowed.data().addr(), borrowed.byte_offset()), expected(bytes));
        }
        assert_eq!(at(&lent(device).slice(1, 4..).unwrap()), (0, 0), "no elements, no data");
        let error = lent(device).slice(0, 1..).unwrap().view::<i16>().unwrap_err();
        assert!(matches!(error, Error::NotHostAccessible { .. }));
    }
}

#[test]
fn slice_of_packed_elements_within_a_byte_is_refused() {
    // Each dtype, and the number of its elements that fill whole bytes.
    for (dtype, whole) in [("float4_e2m1fn", 2), ("float6_e2m3fn", 4), ("int12", 2), ("uint1", 8)] {
        let dtype: DataType = dtype.parse().unwrap();
        let bits = dtype.element_bits() as usize;
        let make =
            || Producer::new(vec![0_u8; 8 * bits], &[8, 8]).with(|p| p.tensor.dtype = dtype.into());
        let tensor = make().import().unwrap();
        let (packed, home) = (TensorRef::from(&tensor), tensor.data().addr());
        let check = |part: Result<TensorRef<'_>>, at: usize| match at % whole {
            0 => assert_eq!(part.unwrap().data().addr(), home + at * bits / 8),
            _ => assert_eq!(part.unwrap_err(), Error::SubbytePacked { dtype }),
        };
        for start in 0..8 {
            check(packed.slice(0, start..), 8 * start);
            check(packed.slice(1, start..), start);
            check(packed.index_axis(1, start), start);
            check(packed.slice(1, ..=start).unwrap().flip(1), start);
            check(packed.reshape([64]).unwrap().slice(0, start + 8..), start + 8);
            assert!(packed.slice(1, start..start).unwrap().is_empty());
            let part = make().import().unwrap().slice(1, start..);
            assert_eq!(part.is_ok(), start % whole == 0);
        }
        let padded = Producer::new(vec![0_u8; 64 * dtype.itemsize()], &[8, 8]).flags(4);
        let padded = padded.with(|p| p.tensor.dtype = dtype.into()).import().unwrap();
        let home = padded.data().addr();
        let part = padded.slice(1, 3..).unwrap();
        assert_eq!(part.data().addr(), home + 3 * dtype.itemsize());
    }
}

/// A tensor declared exclusive can be exported like any other, and is not the only handle then.
#[test]
fn exported_tensor_declared_exclusive_is_not_unique_while_exported_again() {
    let source = Tensor::from(vec![1_u32, 2, 3]).into_shared();
    let lent = take(source.to_raw()).unwrap();
    drop(source);
    // SAFETY: the source is gone, so this is the only handle on the vector.
    let exclusive = unsafe { lent.assume_exclusive() }.into_shared();
    let shared = exclusive.share();
    assert!(exclusive.try_into_tensor().is_err(), "otherwise it could be written while it is read");
    assert_eq!(elements(&shared), [1, 2, 3]);
}

#[test]
fn as_strided_of_elements_in_c_order_has_any_strides() {
    let numbers = || Tensor::from(vec![1, 2, 3, 4, 5, 6]);
    let repeated = numbers().as_strided([3, 2], [1, 1]).unwrap();
    assert_eq!(repeated.view::<i32>().unwrap().to_vec(), [1, 2, 2, 3, 3, 4]);
    assert!(numbers().as_strided([2, 0], [9, -9]).unwrap().is_empty());
    let mut repeated = numbers().as_strided([2, 6], [0, 1]).unwrap();
    assert_eq!(repeated.view_mut::<i32>().unwrap_err(), Error::Overlapping);
    assert_eq!(repeated.try_into_owner::<Vec<i32>>().unwrap(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn as_strided_outside_of_the_elements_is_refused() {
    let refused = |shape: &[usize], strides: &[isize]| {
        Tensor::from([1, 2, 3, 4, 5, 6]).as_strided(shape, strides).unwrap_err()
    };
    let outside = |lowest, highest| Error::OutOfBounds { lowest, highest, owner: 6 };
    assert_eq!(refused(&[2, 3], &[4, 1]), outside(0, 6));
    assert_eq!(refused(&[2], &[-1]), outside(-1, 0));
    assert_eq!(refused(&[3], &[isize::MAX]), Error::TooLarge);
    assert_eq!(refused(&[2], &[]), Error::StridesLength { ndim: 1, strides: 0 });
    let columns = Tensor::from([[1, 2], [3, 4]]).transpose();
    assert_eq!(columns.as_strided([4], [1]).unwrap_err(), Error::NotContiguous);
    assert_eq!(
        Tensor::from(vec![0_u8; 0]).as_strided([1], [1]).unwrap_err(),
        Error::OutOfBounds { lowest: 0, highest: 0, owner: 0 }
    );
}
