//! Tensors become tensors of candle: the same memory where candle can, else one copy.

mod common;

use candle_core::{DType, Device, WithDType};
use common::address;
use dlbridge::{Access, DataType, Element, RawParts, Tensor, TensorRef};
use dlbridge_candle::{CandleExt, Error, TensorExt, TensorRefExt};
use dlbridge_testing::{Counted, Drops, out_of_reach};
use half::{bf16, f16};

#[test]
fn vectors_and_boxes_move() {
    fn one<T: Element + WithDType + PartialEq + std::fmt::Debug>(values: [T; 6]) {
        for boxed in [false, true] {
            let vec = values.to_vec();
            let first = vec.as_ptr().addr();
            let tensor = match boxed {
                true => Tensor::from_parts(vec.into_boxed_slice(), [2, 3]),
                false => Tensor::from_parts(vec, [2, 3]),
            };
            let candle = tensor.unwrap().into_candle().unwrap();
            assert_eq!((candle.dims(), candle.dtype()), (&[2, 3][..], <T as WithDType>::DTYPE));
            assert_eq!(address(&candle), first, "the vector moved");
            assert_eq!(candle.flatten_all().unwrap().to_vec1::<T>().unwrap(), values);
            candle.zero_set().unwrap();
        }
        let tensor = Tensor::from_parts(values.to_vec(), [2, 3]).unwrap();
        let copy = tensor.to_candle().unwrap();
        assert_ne!(address(&copy), tensor.data().addr(), "a copy");
        assert_eq!(copy.flatten_all().unwrap().to_vec1::<T>().unwrap(), values);
    }
    one([1_u8, 2, 3, 4, 5, 255]);
    one([1_u32, 2, 3, 4, 5, u32::MAX]);
    one([1_i16, 2, 3, 4, 5, i16::MIN]);
    one([1_i32, 2, 3, 4, 5, i32::MIN]);
    one([1_i64, 2, 3, 4, 5, i64::MIN]);
    one([1.0, 2.0, 3.0, 4.0, 5.0, 65504.0].map(f16::from_f32));
    one([1.0, 2.0, 3.0, 4.0, 5.0, 1e38].map(bf16::from_f32));
    one([1.0_f32, 2.0, 3.0, 4.0, 5.0, f32::MAX]);
    one([1.0_f64, 2.0, 3.0, 4.0, 5.0, f64::MAX]);
}

#[test]
fn floats_of_eight_bits_are_copied() {
    let bytes = vec![0x00, 0x38, 0x7e, 0xff];
    for (dtype, of_candle) in
        [(DataType::FLOAT8_E4M3FN, DType::F8E4M3), (DataType::FLOAT8_E8M0FNU, DType::F8E8M0)]
    {
        let tensor = Tensor::from_bytes(bytes.clone(), dtype, [2, 2], 0).unwrap();
        let first = tensor.data().addr();
        let candle = tensor.transpose().into_candle().unwrap();
        assert_eq!((candle.dtype(), candle.dims()), (of_candle, &[2, 2][..]));
        assert_ne!(address(&candle), first);
        let back = candle.into_tensor().unwrap();
        let back = dlbridge::TensorRef::from(&back).as_bytes().unwrap().to_vec();
        assert_eq!(back, [0x00, 0x7e, 0x38, 0xff]);
    }
}

#[test]
fn slice_of_a_vector_moves_with_the_vector() {
    let vec: Vec<i32> = (0..12).collect();
    let first = vec.as_ptr();
    let rows = Tensor::from_parts(vec, [4, 3]).unwrap().slice(0, 1..3).unwrap();
    let candle = rows.into_candle().unwrap();
    assert_eq!(address(&candle), first.wrapping_add(3).addr());
    assert_eq!(candle.to_vec2::<i32>().unwrap(), [[3, 4, 5], [6, 7, 8]]);
    let last = Tensor::from(vec![1_i64, 2]).index_axis(0, 1).unwrap().into_candle().unwrap();
    assert_eq!((last.dims().len(), last.to_scalar::<i64>().unwrap()), (0, 2));
}

#[test]
fn any_strides_are_copied() {
    let rows = || Tensor::from_parts((0..6_u32).collect::<Vec<_>>(), [2, 3]).unwrap();
    let copied = |tensor: Tensor, expected: &[u32]| {
        let (bounds, first) =
            (dlbridge::TensorRef::from(&tensor).byte_bounds(), tensor.data().addr());
        let candle = tensor.into_candle().unwrap();
        let at = address(&candle) as isize - first as isize;
        assert!(!bounds.contains(&at), "a copy");
        assert!(candle.is_contiguous());
        assert_eq!(candle.flatten_all().unwrap().to_vec1::<u32>().unwrap(), expected);
    };
    copied(rows().transpose(), &[0, 3, 1, 4, 2, 5]);
    copied(rows().flip(0).unwrap(), &[3, 4, 5, 0, 1, 2]);
    copied(rows().step_by(1, 2).unwrap(), &[0, 2, 3, 5]);
    let zeros = Tensor::from_parts_strided(vec![4_u32, 5], [3, 2], [0, 1], 0).unwrap();
    copied(zeros, &[4, 5, 4, 5, 4, 5]);
}

#[test]
fn tensors_without_dimensions_or_elements() {
    let scalar = Tensor::from_parts(vec![2.5_f64], []).unwrap().into_candle().unwrap();
    assert_eq!(scalar.to_scalar::<f64>().unwrap(), 2.5);
    for shape in [&[0][..], &[3, 0], &[0, 2, 4]] {
        let empty = Tensor::from_parts(Vec::<f32>::new(), shape).unwrap();
        assert_eq!(empty.to_candle().unwrap().dims(), shape);
        assert_eq!(empty.into_candle().unwrap().dims(), shape);
    }
    let none = Tensor::from(vec![1_u8, 2]).slice(0, 1..1).unwrap().into_candle().unwrap();
    assert_eq!(none.elem_count(), 0);
}

#[test]
fn shared_or_foreign_memory_is_copied() {
    let shared = Tensor::from(vec![1_u8, 2, 3]).into_shared();
    let first = shared.data().addr();
    let copy = shared.share().into_candle().unwrap();
    assert_ne!(address(&copy), first);
    drop(copy);
    assert_eq!(shared.view::<u8>().unwrap().to_vec(), [1, 2, 3]);

    static STATIC: [u8; 3] = [1, 2, 3];
    let copy = Tensor::from(&STATIC).into_candle().unwrap();
    copy.zero_set().unwrap();
    assert_eq!(STATIC, [1, 2, 3], "only a copy was written");
    // A vector of bytes that mean something wider is not one of candle's.
    let bytes = Tensor::from_bytes(vec![0; 8], DataType::FLOAT32, [2], 0).unwrap();
    assert_eq!(bytes.into_candle().unwrap().to_vec1::<f32>().unwrap(), [0.0; 2]);
}

#[test]
fn misaligned_elements_are_copied() {
    let values = [1.0_f32, -2.0, 3.5, 4.25];
    let mut bytes = vec![0; 20];
    let offset = 1 + (4 - bytes.as_ptr().addr() % 4) % 4;
    for (place, value) in bytes[offset..].chunks_exact_mut(4).zip(values) {
        place.copy_from_slice(&value.to_ne_bytes());
    }
    let tensor = Tensor::from_bytes(bytes, DataType::FLOAT32, [2, 2], offset).unwrap();
    assert_eq!(tensor.data().addr() % 4, 1);
    assert_eq!(tensor.to_candle().unwrap().to_vec2::<f32>().unwrap(), [[1.0, -2.0], [3.5, 4.25]]);
    let columns = tensor.transpose().into_candle().unwrap();
    assert_eq!(columns.to_vec2::<f32>().unwrap(), [[1.0, 3.5], [-2.0, 4.25]]);
}

#[test]
fn slice_of_a_candle_tensor_is_copied() {
    let candle = candle_core::Tensor::arange(0_i64, 6, &Device::Cpu).unwrap();
    let candle = candle.reshape((2, 3)).unwrap();
    let values = |tensor: Tensor| {
        let part = tensor.into_candle().unwrap();
        assert_ne!(part.id(), candle.id());
        let values = part.flatten_all().unwrap().to_vec1::<i64>().unwrap();
        // Neither is locked, and what is written to the one is not in the other.
        part.zero_set().unwrap();
        candle.inplace_op1(&Touch).unwrap();
        assert_eq!(candle.to_vec2::<i64>().unwrap(), [[0, 1, 2], [3, 4, 5]], "a copy");
        values
    };
    let out = || candle.clone().into_tensor().unwrap();
    assert_eq!(values(out().transpose()), [0, 3, 1, 4, 2, 5]);
    assert_eq!(values(out().flip(1).unwrap()), [2, 1, 0, 5, 4, 3]);
    assert_eq!(values(out().slice(0, 1..).unwrap()), [3, 4, 5]);
    assert_eq!(values(out().reshape([6]).unwrap()), [0, 1, 2, 3, 4, 5]);
    assert!(values(out().slice(0, 1..1).unwrap()).is_empty());
}

#[test]
fn shared_candle_tensor_is_copied_until_the_last_holder() {
    let candle = candle_core::Tensor::arange(0_i64, 6, &Device::Cpu).unwrap();
    let first = candle.clone().into_tensor().unwrap().into_shared();
    let second = first.share();
    let copy = first.share().into_candle().unwrap();
    assert_ne!(address(&copy), address(&candle), "other holders have the tensor too");
    copy.zero_set().unwrap();
    drop(first);
    assert_eq!(second.into_candle().unwrap().id(), candle.id(), "the last holder");
    candle.inplace_op1(&Touch).unwrap();
    assert_eq!(candle.to_vec1::<i64>().unwrap(), [0, 1, 2, 3, 4, 5]);
}

/// Locks the storage for writing, and does nothing.
struct Touch;

impl candle_core::InplaceOp1 for Touch {
    fn name(&self) -> &'static str {
        "touch"
    }

    fn cpu_fwd(
        &self,
        _: &mut candle_core::CpuStorage,
        _: &candle_core::Layout,
    ) -> candle_core::Result<()> {
        Ok(())
    }
}

#[test]
fn dtypes_that_candle_lacks_are_refused_by_name() {
    use DataType as D;
    let refused = [
        (D::BOOL, "bool"),
        (D::INT8, "int8"),
        (D::UINT16, "uint16"),
        (D::UINT64, "uint64"),
        (D::COMPLEX64, "complex64"),
        (D::FLOAT8_E4M3, "float8_e4m3"),
        (D::FLOAT8_E4M3FNUZ, "float8_e4m3fnuz"),
        (D::FLOAT8_E5M2, "float8_e5m2"),
        (D::FLOAT4_E2M1FN, "float4_e2m1fn"),
        (D::FLOAT6_E2M3FN, "float6_e2m3fn"),
        (D::FLOAT6_E3M2FN, "float6_e3m2fn"),
        (D::FLOAT32.with_lanes(2), "float32x2"),
    ];
    for (dtype, name) in refused {
        let tensor = Tensor::zeroed(dtype, [4]).unwrap();
        let error = tensor.to_candle().unwrap_err();
        assert!(error.to_string().contains(&format!("are {name},")), "{error}");
        let error = tensor.into_candle().unwrap_err();
        assert!(matches!(error, Error::DataType { dtype: found } if found == dtype));
    }
}

#[test]
fn the_owner_is_dropped_once_on_every_path() {
    let tensor = |dtype| {
        let drops = Drops::default();
        let owner = Counted::new(vec![0_u8; 8], &drops);
        (Tensor::from_bytes(owner, dtype, [2], 0).unwrap(), drops)
    };

    let (float32, drops) = tensor(DataType::FLOAT32);
    let candle = float32.into_candle().unwrap();
    assert_eq!(drops.count(), 1, "copied");
    drop(candle);
    let (complex, drops) = tensor(DataType::COMPLEX32);
    complex.into_candle().unwrap_err();
    assert_eq!(drops.count(), 1, "refused");
    let (kept, drops) = tensor(DataType::INT16);
    drop(kept.to_candle().unwrap());
    drop(dlbridge::TensorRef::from(&kept).to_candle().unwrap());
    assert_eq!(drops.count(), 0, "borrowed");
    let moved = std::thread::spawn(move || kept.into_candle().unwrap()).join().unwrap();
    assert_eq!((drops.count(), moved.elem_count()), (1, 2));
}

#[test]
fn memory_out_of_reach_of_the_cpu_is_refused() {
    let error = out_of_reach((), DataType::FLOAT32).into_candle().unwrap_err();
    assert!(matches!(error, Error::Tensor(dlbridge::Error::NotHostAccessible { .. })));
}

#[test]
#[cfg_attr(miri, ignore = "allocations never fail under Miri")]
fn copy_larger_than_memory_is_refused() {
    let expected = dlbridge::Error::OutOfMemory { bytes: 1 << 46, for_copy: true };
    let huge = || Tensor::from_parts_strided(vec![0_u8], [1 << 46], [0], 0).unwrap();
    let error = huge().to_candle().unwrap_err();
    assert!(matches!(error, Error::Tensor(error) if error == expected));
    let error = huge().into_candle().unwrap_err();
    assert!(matches!(error, Error::Tensor(error) if error == expected));
    let bytes = vec![0; 16];
    let offset = 1 + (8 - bytes.as_ptr().addr() % 8) % 8;
    let odd = Tensor::from_bytes(bytes, DataType::FLOAT64, [1], offset).unwrap();
    let odd = TensorRef::from(&odd).broadcast_to([1 << 58]).unwrap();
    let error = odd.to_candle().unwrap_err();
    let expected = dlbridge::Error::OutOfMemory { bytes: 1 << 61, for_copy: true };
    assert!(matches!(error, Error::Tensor(error) if error == expected));
}

#[test]
fn elements_outside_of_the_owner_are_copied() {
    static OTHERS: [i32; 4] = [7, 8, 9, 10];
    let read_only =
        |data| RawParts { access: Access::ReadOnly, ..RawParts::new(data, DataType::INT32) };

    let vec = vec![0x0100_0000_i32.to_le(), 2_i32.to_le(), 0];
    let first = vec.as_ptr();
    let parts = RawParts { byte_offset: 3, ..read_only(first.cast_mut().cast()) };
    // SAFETY: the vector owns the two numbers at an odd address, and stays where it is when it moves.
    let odd = unsafe { Tensor::from_raw_parts(vec, parts, &[2], None::<&[i64]>) }.unwrap();
    let candle = odd.into_candle().unwrap();
    let values = candle.to_vec1::<i32>().unwrap().into_iter().map(i32::from_le);
    assert_eq!(values.collect::<Vec<_>>(), [0x0201, 0]);
    assert_eq!(candle.storage_and_layout().1.start_offset(), 0);

    let data = (&raw const OTHERS).cast_mut().cast();
    for owner in [vec![1_i32, 2], Vec::new()] {
        // SAFETY: nothing writes the static, which any owner keeps.
        let others =
            unsafe { Tensor::from_raw_parts(owner, read_only(data), &[2, 2], None::<&[i64]>) };
        let candle = others.unwrap().into_candle().unwrap();
        assert_eq!(candle.to_vec2::<i32>().unwrap(), [[7, 8], [9, 10]]);
        assert_ne!(address(&candle), data.addr(), "a copy");
    }
}

#[test]
fn vector_out_of_reach_of_the_cpu_is_refused() {
    let error = out_of_reach(vec![1.0_f32; 2], DataType::FLOAT32).into_candle().unwrap_err();
    assert!(matches!(error, Error::Tensor(dlbridge::Error::NotHostAccessible { .. })));
}
