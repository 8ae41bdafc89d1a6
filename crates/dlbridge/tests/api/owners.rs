//! Rust values as owners of tensors: the memory stays the same in both directions, in the value's shape or in another
//! one, which is checked.

use std::rc::Rc;
use std::sync::Arc;

use crate::common::{Counted, Nibble, take};
use dlbridge::{
    Access, DataType, DataTypeCode, Element, Error, Items, MAX_NDIM, Owner, RawParts, Tensor,
};

/// Makes a tensor from an owner of `T`, asserts its memory, shape and access, and returns the owner.
#[track_caller]
fn check<O: 'static, T: Element + PartialEq + std::fmt::Debug>(
    tensor: Tensor,
    elements: &[T],
    shape: &[i64],
    address: Option<*const T>,
    access: Access,
) -> O {
    assert_eq!((tensor.shape(), tensor.access()), (shape, access));
    assert_eq!((tensor.dtype(), tensor.len()), (T::DATA_TYPE, elements.len()));
    assert_eq!(tensor.is_c_contiguous(), tensor.view::<T>().unwrap().as_slice().is_some());
    assert_eq!(tensor.view::<T>().unwrap().as_slice(), Some(elements));
    if let Some(address) = address {
        assert_eq!(tensor.data().addr(), address.addr());
    }
    assert_eq!(tensor.data().is_null(), elements.is_empty());
    tensor.try_into_owner::<O>().expect("made from this type")
}

#[test]
fn containers_round_trip_without_a_copy() {
    use Access::{Exclusive, Immutable};
    let owner = vec![1.5_f64, 2.5];
    let at = Some(owner.as_ptr());
    let owner: Vec<f64> = check(owner.into(), &[1.5, 2.5], &[2], at, Exclusive);
    assert_eq!(Some(owner.as_ptr()), at);

    let owner: Box<[u16]> = Box::new([1, 2, 3]);
    let at = Some(owner.as_ptr());
    let owner: Box<[u16]> = check(owner.into(), &[1, 2, 3], &[3], at, Exclusive);
    assert_eq!(Some(owner.as_ptr()), at);

    let owner = Box::new([1_i8, 2, 3]);
    let at = Some(owner.as_ptr());
    let owner: Box<[i8; 3]> = check(owner.into(), &[1, 2, 3], &[3], at, Exclusive);
    assert_eq!(Some(owner.as_ptr()), at);

    let owner: Box<[i8; 3]> = check([1_i8, 2, 3].into(), &[1_i8, 2, 3], &[3], None, Exclusive);
    assert_eq!(*owner, [1, 2, 3]);

    let owner: Arc<[u32]> = Arc::from([4, 5]);
    let (at, clone) = (Some(owner.as_ptr()), Arc::clone(&owner));
    let owner: Arc<[u32]> = check(owner.into(), &[4, 5], &[2], at, Immutable);
    assert!(Arc::ptr_eq(&owner, &clone));

    static OWNER: [u64; 2] = [6, 7];
    let at = Some(OWNER.as_ptr());
    let owner: &'static [u64] = check(OWNER[..].into(), &[6, 7], &[2], at, Immutable);
    assert_eq!(Some(owner.as_ptr()), at);
}

#[test]
fn nested_arrays_become_dimensions() {
    use Access::{Exclusive, Immutable};
    let six = [1, 2, 3, 4, 5, 6];
    let owner = vec![[[1], [2]], [[3], [4]], [[5], [6]]];
    let at = Some(owner.as_ptr().cast());
    let _: Vec<[[i32; 1]; 2]> = check(owner.into(), &six, &[3, 2, 1], at, Exclusive);
    let owner: Box<[[i32; 3]]> = Box::new([[1, 2, 3], [4, 5, 6]]);
    let _: Box<[[i32; 3]]> = check(owner.into(), &six, &[2, 3], None, Exclusive);
    let _: Box<[[i32; 3]; 2]> =
        check([[1, 2, 3], [4, 5, 6]].into(), &six, &[2, 3], None, Exclusive);
    let owner: Arc<[[i32; 2]]> = Arc::from([[1, 2], [3, 4], [5, 6]]);
    let _: Arc<[[i32; 2]]> = check(owner.into(), &six, &[3, 2], None, Immutable);
    static OWNER: [[i32; 2]; 3] = [[1, 2], [3, 4], [5, 6]];
    let _: &'static [[i32; 2]] = check(OWNER[..].into(), &six, &[3, 2], None, Immutable);
    // Also in another shape.
    let tensor = Tensor::from_parts(vec![[1, 2], [3, 4], [5, 6]], [6]).unwrap();
    let _: Vec<[i32; 2]> = check(tensor, &six, &[6], None, Exclusive);
}

#[test]
fn containers_without_elements_have_null_data() {
    use Access::{Exclusive, Immutable};
    let owner = Vec::<f32>::with_capacity(4);
    let owner: Vec<f32> = check::<_, f32>(owner.into(), &[], &[0], None, Exclusive);
    assert_eq!(owner.capacity(), 4);
    let owner: Box<[u8]> = Box::new([]);
    let _: Box<[u8]> = check::<_, u8>(owner.into(), &[], &[0], None, Exclusive);
    let _: Box<[u8; 0]> = check::<_, u8>([0_u8; 0].into(), &[], &[0], None, Exclusive);
    let owner: Arc<[u8]> = Arc::from([]);
    let _: Arc<[u8]> = check::<_, u8>(owner.into(), &[], &[0], None, Immutable);
    let _: &'static [u8] = check::<_, u8>(<&[u8]>::default().into(), &[], &[0], None, Immutable);
    let _: Vec<[u8; 0]> = check::<_, u8>(vec![[0_u8; 0]; 5].into(), &[], &[5, 0], None, Exclusive);
    let owner = vec![[[[0_u8; 2]; 0]; 3]; 5];
    let _: Vec<[[[u8; 2]; 0]; 3]> =
        check::<_, u8>(owner.into(), &[], &[5, 3, 0, 2], None, Exclusive);
}

#[test]
#[should_panic(expected = "memory that exists has a size that fits")]
fn more_empty_arrays_than_an_extent_can_count_panic() {
    let mut owner = vec![[0_u8; 0]];
    // SAFETY: arrays of zero elements need no memory, so any number of them is initialised.
    unsafe { owner.set_len(usize::MAX) };
    let _ = Tensor::from(owner);
}

#[test]
fn every_element_type_is_viewed_as_itself() {
    fn one<T: Element + PartialEq + std::fmt::Debug>(value: T, name: &str) {
        let tensor = Tensor::from(vec![value]);
        assert_eq!(
            (tensor.dtype().to_string(), tensor.nbytes()),
            (name.into(), size_of_val(&value) as u128)
        );
        assert_eq!(tensor.view::<T>().unwrap()[[0]], value);
    }
    one(-1_i8, "int8");
    one(-1_i16, "int16");
    one(-1_i32, "int32");
    one(-1_i64, "int64");
    one(i128::MIN, "int128");
    one(1_u8, "uint8");
    one(1_u16, "uint16");
    one(1_u32, "uint32");
    one(1_u64, "uint64");
    one(u128::MAX, "uint128");
    one(0.5_f32, "float32");
    one(0.5_f64, "float64");
    one(true, "bool");
    one(usize::MAX, &format!("uint{}", usize::BITS));
    one(isize::MIN, &format!("int{}", isize::BITS));
}

#[test]
fn shape_of_another_size_is_refused_and_the_owner_dropped() {
    let refused = |shape: &[usize]| {
        let (owner, dropped) = Counted::new(vec![0_u16; 6]);
        let error = Tensor::from_parts(owner, shape).unwrap_err();
        assert_eq!(dropped.get(), 1);
        error
    };
    let count = |shape| Error::ElementCount { shape, owner: 6 };
    assert_eq!(refused(&[5]), count(5));
    assert_eq!(refused(&[7]), count(7));
    assert_eq!(refused(&[]), count(1));
    assert_eq!(refused(&[6, 0]), count(0));
    assert_eq!(refused(&[usize::MAX]), Error::TooLarge);
    assert_eq!(refused(&[1, isize::MAX as usize, 2]), Error::TooLarge);
    assert_eq!(refused(&[1; MAX_NDIM + 1]), Error::InvalidNdim { ndim: MAX_NDIM as i64 + 1 });
    assert_eq!(Tensor::from_parts(vec![1_u8], [1; MAX_NDIM]).unwrap().ndim(), MAX_NDIM);
    assert_eq!(Tensor::from_parts(Vec::<u8>::new(), [0; MAX_NDIM]).unwrap().len(), 0);
}

#[test]
fn layout_within_the_owner_is_accepted() {
    let taken = |shape: &[usize], strides: &[isize], offset| {
        let tensor = Tensor::from_parts_strided(vec![0_u8, 1, 2, 3, 4, 5], shape, strides, offset);
        let tensor = tensor.unwrap();
        tensor.view::<u8>().unwrap().to_vec()
    };
    assert_eq!(taken(&[6], &[-1], 5), [5, 4, 3, 2, 1, 0]);
    assert_eq!(taken(&[2, 2], &[3, -2], 2), [2, 0, 5, 3]);
    assert_eq!(taken(&[2, 3], &[0, 0], 5), [5; 6]);
    assert_eq!(taken(&[], &[], 5), [5]);
    assert_eq!(taken(&[1, 1], &[isize::MIN, isize::MAX], 3), [3]);
    // A tensor without elements reaches no memory, so any offset and stride is fine.
    assert_eq!(taken(&[0], &[isize::MIN], usize::MAX), [0_u8; 0]);
    assert_eq!(taken(&[9, 0], &[7, 7], 1000), [0_u8; 0]);
}

#[test]
fn layout_outside_of_the_owner_is_refused_and_the_owner_dropped() {
    let refused = |shape: &[usize], strides: &[isize], offset| {
        let (owner, dropped) = Counted::new(vec![0_u16; 6]);
        let error = Tensor::from_parts_strided(owner, shape, strides, offset).unwrap_err();
        assert_eq!(dropped.get(), 1);
        error
    };
    let outside = |lowest, highest| Error::OutOfBounds { lowest, highest, owner: 6 };
    assert_eq!(refused(&[7], &[1], 0), outside(0, 6));
    assert_eq!(refused(&[6], &[1], 1), outside(1, 6));
    assert_eq!(refused(&[6], &[-1], 4), outside(-1, 4));
    assert_eq!(refused(&[2, 2], &[3, -2], 1), outside(-1, 4));
    assert_eq!(refused(&[], &[], 6), outside(6, 6));
    let far = isize::MAX as usize;
    assert_eq!(refused(&[], &[], far), outside(isize::MAX as i64, isize::MAX as i64));
    if usize::BITS == 64 {
        assert_eq!(refused(&[1], &[1], far + 1), Error::TooLarge);
        assert_eq!(refused(&[2], &[-1], usize::MAX), Error::TooLarge);
        assert_eq!(refused(&[2], &[isize::MAX], 5), Error::TooLarge);
        assert_eq!(refused(&[3], &[isize::MAX], 0), Error::TooLarge);
    }
    assert_eq!(refused(&[2], &[isize::MIN], 5), outside(isize::MIN as i64 + 5, 5));
    assert_eq!(refused(&[2], &[1, 1], 0), Error::StridesLength { ndim: 1, strides: 2 });
    assert_eq!(refused(&[2, 1], &[], 0), Error::StridesLength { ndim: 2, strides: 0 });
    assert_eq!(refused(&[0, far, 2], &[0; 3], 0), Error::TooLarge);
    assert_eq!(
        Tensor::from_parts_strided(Vec::<u8>::new(), [], [], 0).unwrap_err(),
        Error::OutOfBounds { lowest: 0, highest: 0, owner: 0 }
    );
}

#[test]
fn wrong_raw_parts_are_refused_and_the_owner_dropped() {
    let refused = |shape: &[i128], strides: Option<&[u64]>, change: fn(&mut RawParts)| {
        let (mut owner, dropped) = Counted::new(vec![0_u16; 6]);
        let mut parts = RawParts::new(owner.owner.as_mut_ptr().cast(), DataType::UINT16);
        change(&mut parts);
        // SAFETY: a layout that is not refused lies within the vector's heap memory, which stays in place.
        let error = unsafe { Tensor::from_raw_parts(owner, parts, shape, strides) }.unwrap_err();
        assert_eq!(dropped.get(), 1);
        error
    };
    let as_it_is = |_: &mut RawParts| {};
    assert_eq!(refused(&[-1], None, as_it_is), Error::NegativeExtent { axis: 0, extent: -1 });
    assert_eq!(refused(&[1, 1 << 64], None, as_it_is), Error::TooLarge);
    assert_eq!(refused(&[2], Some(&[u64::MAX]), as_it_is), Error::TooLarge);
    let lengths = Error::StridesLength { ndim: 1, strides: 2 };
    assert_eq!(refused(&[2], Some(&[1, 1]), as_it_is), lengths);
    let ndim = Error::InvalidNdim { ndim: MAX_NDIM as i64 + 1 };
    assert_eq!(refused(&[1; MAX_NDIM + 1], None, as_it_is), ndim);
    let null = Error::NullPointer { field: "the data of a tensor with elements" };
    assert_eq!(refused(&[6], None, |p| p.data = std::ptr::null_mut()), null);
    let dtype = DataType::new(DataTypeCode::UINT, 16, 0);
    let invalid = Error::InvalidDataType { dtype };
    assert_eq!(refused(&[6], None, |p| p.dtype = p.dtype.with_lanes(0)), invalid);
    assert_eq!(refused(&[6], None, |p| p.byte_offset = u64::MAX), Error::TooLarge);
}

/// A pixel of three channels, as one element of three lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Rgb(u8, u8, u8);

// SAFETY: three bytes without padding, and every bit pattern is a valid value.
unsafe impl Element for Rgb {
    const DATA_TYPE: DataType = DataType::UINT8.with_lanes(3);
}

#[test]
fn custom_element_type_round_trips() {
    let pixels = vec![[Rgb(1, 2, 3), Rgb(4, 5, 6)]];
    let tensor = Tensor::from(pixels.clone());
    assert_eq!((tensor.dtype().to_string(), tensor.nbytes()), ("uint8x3".into(), 6));
    assert_eq!(tensor.view::<Rgb>().unwrap()[[0, 1]], Rgb(4, 5, 6));
    assert!(tensor.view::<u8>().is_err());
    let copy = tensor.to_copy().unwrap();
    assert_eq!(copy.view::<Rgb>().unwrap().to_vec(), pixels.concat());
}

#[test]
fn sub_byte_rust_elements_are_exported_as_padded() {
    let tensor = Tensor::from(vec![Nibble(1), Nibble(2), Nibble(3)]);
    assert_eq!((tensor.nbytes(), tensor.is_subbyte_padded()), (3, true));
    let copy = tensor.to_copy().unwrap();
    assert_eq!(copy.view::<Nibble>().unwrap().to_vec(), [Nibble(1), Nibble(2), Nibble(3)]);
}

/// An owner of size zero; the test also has one with a large alignment.
struct Constants;
#[repr(align(4096))]
struct Aligned([f32; 3]);

// SAFETY: the memory is that of a constant, valid for ever and never written.
unsafe impl Owner for Constants {
    type Item = f32;
    const ACCESS: Access = Access::ReadOnly;

    fn items(&mut self) -> *mut [f32] {
        static VALUES: [f32; 2] = [1.0, 2.0];
        (&raw const VALUES[..]).cast_mut()
    }
}

#[test]
fn custom_owners_of_any_size_and_alignment_work() {
    let tensor = take(Tensor::from_parts(Constants, [2]).unwrap().into_raw()).unwrap();
    assert_eq!(tensor.access(), Access::ReadOnly);
    assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [1.0, 2.0]);
    assert!(tensor.try_into_owner::<Constants>().is_ok());

    // The block has the alignment of the owner in it.
    let parts = RawParts::new(std::ptr::null_mut(), DataType::FLOAT32);
    // SAFETY: the tensor is empty, so no code reads the NULL pointer.
    let tensor = unsafe { Tensor::from_raw_parts(Aligned([1.0; 3]), parts, &[0], Some(&[1])) };
    let tensor = tensor.unwrap();
    assert_eq!((tensor.as_raw().addr() % 4096, tensor.strides()), (0, &[1][..]));
    assert_eq!(tensor.try_into_owner::<Aligned>().unwrap().0, [1.0; 3]);
}

/// An owner implements this twice, so a call is ambiguous and does not compile; any other type implements it once.
trait NoOwner<Answer> {
    const IT_IS_NONE: () = ();
}
struct ItIsOne;
impl<T> NoOwner<()> for T {}
impl<T: Owner> NoOwner<ItIsOne> for T {}

#[test]
fn thread_bound_or_borrowed_types_are_not_owners() {
    let () = <Rc<[f32]> as NoOwner<_>>::IT_IS_NONE;
    let () = <Vec<Rc<f32>> as NoOwner<_>>::IT_IS_NONE;
    let () = <Vec<char> as NoOwner<_>>::IT_IS_NONE;
    let () = <&'static mut [f32] as NoOwner<_>>::IT_IS_NONE;
    fn tensors_and_items_cross_threads<T: Send + Sync, I: Items>() {}
    tensors_and_items_cross_threads::<Tensor, [[f32; 2]; 3]>();
}

#[test]
#[cfg(feature = "std")]
fn panic_of_an_owners_drop_does_not_leave_the_deleter() {
    use crate::common::{delete, delete_the_legacy};

    struct Furious(Counted<Vec<u8>>);
    impl Drop for Furious {
        fn drop(&mut self) {
            panic!("this owner always panics; the test expects it");
        }
    }
    // SAFETY: the memory is that of the inner owner, which this keeps.
    unsafe impl Owner for Furious {
        type Item = u8;
        const ACCESS: Access = Access::Exclusive;

        fn items(&mut self) -> *mut [u8] {
            self.0.items()
        }
    }
    let consumers: [fn(Tensor); 4] = [
        |tensor| delete(tensor.into_raw()),
        |tensor| delete_the_legacy(tensor.into_raw_legacy().unwrap()),
        |tensor| delete(tensor.into_shared().to_raw()),
        drop,
    ];
    for consume in consumers {
        let (owner, dropped) = Counted::new(vec![1, 2, 3]);
        consume(Tensor::from_parts(Furious(owner), [3]).unwrap());
        assert_eq!(dropped.get(), 1, "the rest of the owner is still dropped");
    }
}

#[test]
fn reference_to_a_constant_array_becomes_a_tensor() {
    let tensor = Tensor::from(b"abc");
    assert_eq!((tensor.shape(), tensor.access()), (&[3][..], Access::Immutable));
    let nested = Tensor::from(&[[1_i32, 2], [3, 4]]);
    assert_eq!(nested.view::<i32>().unwrap()[[1, 0]], 3);
    let home = tensor.try_into_owner::<&'static [u8]>().unwrap();
    assert_eq!(home, b"abc");
}

#[test]
fn last_tensor_that_shares_an_owner_returns_it() {
    type Owner = Counted<Vec<u8>>;
    let (owner, dropped) = Counted::new(vec![1_u8, 2, 3]);
    let first = Tensor::from_parts(owner, [3]).unwrap().into_shared();
    let (second, third) = (first.share(), first.share().into_shared().share());
    let second = second.try_into_owner::<Owner>().expect_err("two other tensors share it");
    drop(first);
    drop(third);
    let second = second.try_into_owner::<Vec<u8>>().expect_err("another type");
    let second = second.slice(0, 1..).unwrap().into_shared();
    let shared = second.share();
    assert!(second.try_into_tensor().is_ok(), "sharing keeps the tensor that owns the memory");
    assert_eq!((shared.shape(), dropped.get()), (&[2][..], 0));
    let owner = shared.try_into_owner::<Owner>().expect("no other tensor shares it");
    assert_eq!((&owner.owner[..], dropped.get()), (&[1, 2, 3][..], 0));
    drop(owner);
    assert_eq!(dropped.get(), 1);
}

#[test]
fn owner_that_became_invalid_is_not_returned_by_the_last_share() {
    let tensor = Tensor::from(vec![true, false]).into_shared();
    let shared = tensor.share();
    // SAFETY: the tensor has two bytes and was made exclusive, and no view of it is alive.
    unsafe { tensor.data().cast::<u8>().write(2) };
    drop(tensor);
    let shared = shared.try_into_owner::<Vec<bool>>().expect_err("2 is not a bool");
    assert_eq!(shared.view_bool_as_u8().unwrap().to_vec(), [2, 0]);
}
