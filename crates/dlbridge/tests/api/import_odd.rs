//! Unusual managed tensors that a C producer may export: any strides, any alignment, any flags, invalid booleans,
//! elements narrower than a byte.

use std::ptr;

use crate::common::{Producer, dims, indices, positions, refused, take, through_both};
use dlbridge::sys::{DLDataType, kDLBool};
use dlbridge::{Access, DataType, DataTypeCode, Error, Tensor};

const READ_ONLY: u64 = dlbridge::sys::DLPACK_FLAG_BITMASK_READ_ONLY;
const IS_COPIED: u64 = dlbridge::sys::DLPACK_FLAG_BITMASK_IS_COPIED;
const PADDED: u64 = dlbridge::sys::DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;

/// Returns all bytes of a copy, which is contiguous.
fn bytes_of(copy: &Tensor) -> Vec<u8> {
    assert!(copy.is_c_contiguous() && copy.data().addr().is_multiple_of(256));
    let first = copy.data().cast::<u8>();
    // SAFETY: `to_copy` wrote `nbytes` bytes, and the tensor is alive.
    (0..copy.nbytes() as usize).map(|i| unsafe { first.add(i).read() }).collect()
}

#[test]
fn import_any_strides_reads_the_producers_elements() {
    let values: Vec<i64> = (0..24).collect();
    let layouts: [(&[usize], &[isize], usize); 6] = [
        (&[2, 3], &[3, 1], 0),
        (&[4, 6], &[1, 4], 0),
        (&[4, 3], &[-6, -2], 23),
        (&[3, 2, 2], &[0, -8, 1], 16),
        (&[24], &[-1], 23),
        (&[5, 1], &[0, 77], 3),
    ];
    for (shape, strides, offset) in layouts {
        let as_i64 = |&extent: &usize| extent as i64;
        let extents: Vec<i64> = shape.iter().map(as_i64).collect();
        let steps: Vec<i64> = strides.iter().map(|&stride| stride as i64).collect();
        // Half of the offset to the first element is in the address, half in the byte offset.
        let (base, rest) = (offset / 2, (offset - offset / 2) * 8);
        let make = || {
            Producer::new(values.clone(), &extents)
                .strides(&steps)
                .byte_offset(rest as u64)
                .with(|p| p.tensor.data = p.tensor.data.wrapping_byte_add(base * 8))
        };
        through_both(make, |tensor| {
            let tensor = tensor.unwrap();
            assert_eq!((tensor.shape(), tensor.strides()), (&extents[..], &steps[..]));
            let view = tensor.view::<i64>().unwrap();
            let expected: Vec<i64> =
                positions(shape, strides, offset).into_iter().map(|p| p as i64).collect();
            assert_eq!(view.to_vec(), expected, "{shape:?} {strides:?}");
            let by_index: Vec<i64> = indices(shape).iter().map(|i| *view.get(i).unwrap()).collect();
            assert_eq!(by_index, expected);
            assert_eq!(tensor.to_copy().unwrap().view::<i64>().unwrap().to_vec(), expected);
        });
    }
}

#[test]
fn import_ignores_the_stride_of_an_axis_of_extent_one() {
    for stride in [-9, 0, i64::MIN, i64::MAX] {
        let make = || Producer::new(vec![1_u32, 2, 3], &[1, 3]).strides(&[stride, 1]).flags(2);
        through_both(make, |tensor| {
            let mut tensor = tensor.unwrap();
            assert_eq!(tensor.strides(), [stride, 1]);
            assert!(tensor.is_c_contiguous() && tensor.is_f_contiguous());
            let view = tensor.view::<u32>().unwrap();
            assert_eq!((view.as_slice(), view[[0, 2]]), (Some(&[1, 2, 3][..]), 3));
            if tensor.access() == Access::Exclusive {
                let mut view = tensor.view_mut::<u32>().unwrap();
                view.iter_mut().for_each(|x| *x += 1);
                assert_eq!(view.into_mut_slice(), Some(&mut [2, 3, 4][..]));
            }
        });
    }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn broadcast_of_billions_is_imported_and_read() {
    let make = || {
        Producer::new(vec![1.0_f32, 2.0, 3.0, 4.0], &[1 << 31, 4]).strides(&[0, 1]).flags(IS_COPIED)
    };
    let mut tensor = make().import().unwrap();
    assert_eq!((tensor.len(), tensor.nbytes()), (1 << 33, 1 << 35));
    assert!(!tensor.is_c_contiguous());
    let view = tensor.view::<f32>().unwrap();
    assert_eq!((view[[(1 << 31) - 1, 2]], view.as_slice()), (3.0, None));
    assert_eq!((view.iter().len(), view.iter().nth(5)), (1 << 33, Some(&2.0)));
    assert_eq!(view.get([1 << 31, 0]), None);
    assert_eq!(tensor.view_mut::<f32>().unwrap_err(), Error::Overlapping);
}

#[test]
fn boolean_repeated_by_stride_zero_is_checked_once() {
    let lent = |value: u8| {
        let bool = Producer::new(vec![value], &[isize::MAX as i64 >> 1, 1]).strides(&[0, 5]);
        bool.with(|p| p.tensor.dtype = DataType::BOOL.into()).import().unwrap()
    };
    assert!(lent(1).view::<bool>().unwrap()[[usize::MAX >> 3, 0]]);
    let refused = Error::InvalidElement { dtype: DataType::BOOL };
    assert_eq!(lent(2).view::<bool>().unwrap_err(), refused);
}

#[test]
fn import_misaligned_shape_and_strides_succeeds() {
    let odd = |producer: &mut Producer, dims: &[i64]| {
        let bytes: Vec<u8> = dims.iter().flat_map(|dim| dim.to_ne_bytes()).collect();
        // One of two neighbours is odd.
        let first = producer.keep([vec![0; 2], bytes.clone()].concat());
        let first = first.wrapping_add(1 - first.addr() % 2);
        // SAFETY: the write stays within the memory just allocated, which is two bytes longer.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), first, bytes.len()) };
        first.cast::<i64>()
    };
    let make = || {
        Producer::new(vec![1_u8, 2, 3, 4, 5, 6], &[3, 2]).with(|p| {
            (p.tensor.shape, p.tensor.strides) = (odd(p, &[3, 2]), odd(p, &[1, 3]));
            assert!(p.tensor.shape.addr() % 2 == 1 && p.tensor.strides.addr() % 2 == 1);
        })
    };
    through_both(make, |tensor| {
        let tensor = tensor.unwrap();
        assert_eq!(tensor.view::<u8>().unwrap().to_vec(), [1, 4, 2, 5, 3, 6]);
    });
}

#[test]
fn misaligned_elements_are_imported_and_a_copy_aligns_them() {
    let values = [1.5_f32, -2.0, 3.25];
    let make = || {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let mut room = [vec![0; 4], bytes.clone()].concat();
        let askew = (1..=4).find(|at| (room.as_ptr().addr() + at) % 4 == 1).unwrap();
        room[askew..askew + bytes.len()].copy_from_slice(&bytes);
        Producer::new(room, &[3])
            .byte_offset(askew as u64)
            .with(|p| p.tensor.dtype = DataType::FLOAT32.into())
    };
    through_both(make, |tensor| {
        let tensor = tensor.unwrap();
        let error = Error::Misaligned { address: tensor.data().addr(), required: 4 };
        assert_eq!(tensor.data().addr() % 4, 1);
        assert_eq!(tensor.view::<f32>().unwrap_err(), error);
        assert_eq!(tensor.to_copy().unwrap().view::<f32>().unwrap().to_vec(), values);
    });
}

#[test]
fn import_flags_set_the_access() {
    let future = 1 << 63 | 1 << 3;
    for (flags, access, kept) in [
        (0, Access::Shared, 0),
        (READ_ONLY, Access::ReadOnly, READ_ONLY),
        (IS_COPIED, Access::Exclusive, IS_COPIED),
        (READ_ONLY | IS_COPIED, Access::ReadOnly, READ_ONLY | IS_COPIED),
        (future, Access::Shared, 0),
        (future | READ_ONLY, Access::ReadOnly, READ_ONLY),
    ] {
        let producer = Producer::new(vec![1_i32, 2], &[2]).flags(flags);
        let deleted = producer.deleted();
        let mut tensor = producer.import().unwrap();
        assert_eq!((tensor.access(), tensor.flags()), (access, kept));
        assert_eq!(tensor.is_read_only(), access == Access::ReadOnly);
        let written = tensor.view_mut::<i32>().map(|mut view| view[[0]] = 5);
        let expected = match access {
            Access::Exclusive => Ok(()),
            Access::Shared => Err(Error::Shared),
            Access::ReadOnly | Access::Immutable => Err(Error::ReadOnly),
        };
        assert_eq!(written, expected);
        assert_eq!(deleted.get(), 0);
        drop(tensor);
        assert_eq!(deleted.get(), 1);
    }
    // The legacy struct lacks flags.
    let legacy = Producer::new(vec![1_i32, 2], &[2]).flags(IS_COPIED).import_legacy().unwrap();
    assert_eq!((legacy.access(), legacy.flags()), (Access::Shared, 0));
}

#[test]
fn flags_survive_a_second_export() {
    for flags in [0, READ_ONLY, IS_COPIED, READ_ONLY | IS_COPIED, PADDED, PADDED | READ_ONLY] {
        let fp4 = DataType::FLOAT4_E2M1FN;
        let make = || Producer::new(vec![0_u8; 4], &[4]).with(|p| p.tensor.dtype = fp4.into());
        let tensor = make().flags(flags).import().unwrap();
        assert_eq!(tensor.flags(), flags);
        assert_eq!(take(tensor.into_raw()).unwrap().flags(), flags);
    }
}

#[test]
fn imported_tensor_is_exported_with_a_full_description() {
    let producer = Producer::new(vec![1_u16, 2, 3, 4], &[3]).byte_offset(2).flags(READ_ONLY);
    let (deleted, data) = (producer.deleted(), producer.tensor.data);
    let managed = producer.import().unwrap().into_raw();
    // SAFETY: `managed` was just exported, and is not freed yet.
    let (flags, tensor) = unsafe { ((*managed).flags, (*managed).dl_tensor) };
    assert_eq!((flags, tensor.data.addr()), (READ_ONLY, data.addr() + 2));
    assert_eq!((dims(&tensor), tensor.byte_offset), ((vec![3], vec![1]), 0));
    assert_eq!(deleted.get(), 0);
    crate::common::delete(managed);
    assert_eq!(deleted.get(), 1);
}

#[test]
fn boolean_view_with_other_bytes_than_zero_or_one_is_refused() {
    let bools = |bytes: &[u8]| {
        Producer::new(bytes.to_vec(), &[bytes.len() as i64])
            .with(|p| p.tensor.dtype = DataType::BOOL.into())
    };
    through_both(
        || bools(&[0, 1, 1]),
        |tensor| {
            let tensor = tensor.unwrap();
            assert_eq!(tensor.view::<bool>().unwrap().to_vec(), [false, true, true]);
        },
    );
    for bad in [2, 128, 255] {
        through_both(
            || bools(&[0, 1, bad]),
            |tensor| {
                let tensor = tensor.unwrap();
                let error = Error::InvalidElement { dtype: DataType::BOOL };
                assert_eq!(tensor.view::<bool>().unwrap_err(), error);
                assert_eq!(tensor.view_bool_as_u8().unwrap().to_vec(), [0, 1, bad]);
            },
        );
    }
    // Every byte that the layout reaches must be a valid boolean, and no other byte.
    let every_second = |bytes| bools(bytes).strides(&[2]).with(|p| p.tensor.ndim = 1);
    let two = |bytes: &'static [u8]| move || every_second(bytes).with(|p| shorten(p, 2));
    through_both(two(&[1, 9, 0, 9]), |tensor| assert!(tensor.unwrap().view::<bool>().is_ok()));
    through_both(two(&[1, 0, 9, 0]), |tensor| assert!(tensor.unwrap().view::<bool>().is_err()));
    // A mutable view checks the bytes, too.
    let mut tensor = bools(&[3]).flags(IS_COPIED).import().unwrap();
    let error = Error::InvalidElement { dtype: DataType::BOOL };
    assert_eq!(tensor.view_mut::<bool>().unwrap_err(), error);
}

/// Reduces the first extent.
fn shorten(producer: &mut Producer, extent: i64) {
    producer.tensor.shape = producer.keep(vec![extent]);
}

#[test]
fn boolean_of_another_width_is_not_viewed_as_bool_or_byte() {
    let dtype = DLDataType { code: kDLBool, bits: 1, lanes: 1 };
    let tensor = Producer::new(vec![0b101_u8], &[3]).with(|p| p.tensor.dtype = dtype).import();
    let tensor = tensor.unwrap();
    assert!(matches!(tensor.view::<bool>().unwrap_err(), Error::DataType { .. }));
    assert!(matches!(tensor.view_bool_as_u8().unwrap_err(), Error::DataType { .. }));
    assert!(matches!(tensor.view::<u8>().unwrap_err(), Error::DataType { .. }));
    assert_eq!(bytes_of(&tensor.to_copy().unwrap()), [0b101]);
}

#[test]
fn packed_elements_share_bytes_and_padded_elements_do_not() {
    let fp4 = |flags: u64, bytes: &[u8], extent: i64| {
        Producer::new(bytes.to_vec(), &[extent])
            .with(|p| p.tensor.dtype = DataType::FLOAT4_E2M1FN.into())
            .flags(flags)
    };
    let packed = fp4(0, &[0x21, 0x43, 0x05], 5).import().unwrap();
    assert_eq!((packed.nbytes(), packed.is_subbyte_padded()), (3, false));
    let copy = packed.to_copy().unwrap();
    assert_eq!((copy.flags(), bytes_of(&copy)), (IS_COPIED, vec![0x21, 0x43, 0x05]));

    let padded = fp4(PADDED, &[1, 2, 3, 4, 5], 5).import().unwrap();
    assert_eq!((padded.nbytes(), padded.is_subbyte_padded()), (5, true));
    let copy = padded.to_copy().unwrap();
    assert_eq!((copy.flags(), bytes_of(&copy)), (IS_COPIED | PADDED, vec![1, 2, 3, 4, 5]));
    assert_eq!(padded.into_raw_legacy().unwrap_err().1, Error::LegacySubbytePadded);

    // Every other element of the nibbles 1, 0, 2, 0, 3.
    let strided = |flags| fp4(flags, &[1, 2, 3, 4, 5], 3).strides(&[2]).import().unwrap();
    assert_eq!(bytes_of(&strided(0).to_copy().unwrap()), [0x21, 0x03]);
    assert_eq!(bytes_of(&strided(PADDED).to_copy().unwrap()), [1, 3, 5]);
    let backwards = fp4(PADDED, &[1, 2, 3], 3).strides(&[-1]);
    let backwards = backwards.byte_offset(2).import().unwrap();
    assert_eq!(bytes_of(&backwards.to_copy().unwrap()), [3, 2, 1]);
    assert_eq!(bytes_of(&fp4(0, &[], 0).import().unwrap().to_copy().unwrap()), [0_u8; 0]);
}

#[test]
fn size_of_packed_elements_is_counted_in_bits() {
    let six = DataType::FLOAT6_E2M3FN;
    let nbytes = |dtype, extent| {
        let tensor = Producer::new(vec![0_u8; 8], &[extent]).with(|p| p.tensor.dtype = dtype);
        tensor.import().unwrap().nbytes()
    };
    assert_eq!((nbytes(six.into(), 1), nbytes(six.into(), 4), nbytes(six.into(), 5)), (1, 3, 4));
    // Three lanes of 6 bits.
    assert_eq!(nbytes(six.with_lanes(3).into(), 3), 7);
    assert_eq!(nbytes(DataType::new(DataTypeCode::INT, 4, 2).into(), 3), 3);

    // Five elements in three bytes fit where five bytes would wrap around. No code reads them.
    let last = ptr::without_provenance_mut(usize::MAX - 3);
    let make = |flags| move || Producer::at(last, DataType::FLOAT4_E2M1FN, &[5]).flags(flags);
    through_both(make(0), |tensor| assert_eq!(tensor.unwrap().nbytes(), 3));
    assert_eq!(make(PADDED)().import().unwrap_err(), Error::TooLarge);
    let seven = || Producer::at(last, DataType::FLOAT4_E2M1FN, &[7]);
    refused(seven, Error::TooLarge);
}
