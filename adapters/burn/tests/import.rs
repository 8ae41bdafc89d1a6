//! Tensors become tensors of burn: the same memory, which burn writes only if it may.

use std::sync::Arc;

use burn_flex::{FlexTensor, Layout};
use burn_std::{Bytes, DType, Shape};
use burn_tensor::{Bool, Float, Int, Tensor as Burn};
use dlbridge::{Access, DataType, Element, Owner, RawParts, Tensor};
use dlbridge_burn::{BurnExt, Error, TensorExt};
use dlbridge_testing::{
    Counted, Drops, out_of_reach, repeat, through_c, written_by_another_handle,
};
use half::{bf16, f16};

fn address(flex: &FlexTensor) -> usize {
    flex.bytes().as_ptr().addr() + flex.layout().start_offset() * flex.dtype().size()
}

/// Twenty-four numbers of another library, `byte_offset` bytes into its memory.
fn foreign(access: Access, byte_offset: u64, shape: &[i64]) -> (Tensor, Drops) {
    let drops = Drops::default();
    let mut memory = vec![0_u64; 32];
    // SAFETY: bytes within the vector, and any bytes are valid numbers.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<u8>(), size_of_val(&*memory))
    };
    for (index, place) in bytes[byte_offset as usize..].chunks_exact_mut(4).take(24).enumerate() {
        place.copy_from_slice(&(index as f32).to_ne_bytes());
    }
    let data = memory.as_mut_ptr().cast();
    let owner = Counted::new(memory, &drops);
    let parts = RawParts { access, byte_offset, ..RawParts::new(data, DataType::FLOAT32) };
    // SAFETY: memory of the vector, which no other code has, and which stays where it is when the vector moves.
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, shape, None::<&[i64]>) };
    (tensor.unwrap(), drops)
}

#[test]
fn vectors_and_boxes_move_with_any_strides() {
    fn one<T: Element + PartialEq + std::fmt::Debug>(values: [T; 6]) {
        for boxed in [false, true] {
            let vec = values.to_vec();
            let first = vec.as_ptr();
            let tensor = match boxed {
                true => Tensor::from_parts(vec.into_boxed_slice(), [2, 3]),
                false => Tensor::from_parts(vec, [2, 3]),
            };
            let part = tensor.unwrap().flip(0).unwrap().step_by(1, 2).unwrap();
            let flex = part.into_flex().unwrap();
            assert_eq!(address(&flex), first.wrapping_add(3).addr());
            assert_eq!(flex.layout().strides(), [-3, 2]);
            let back = flex.into_tensor().unwrap();
            assert_eq!(back.dtype(), T::DATA_TYPE);
            let expected = [values[3], values[5], values[0], values[2]];
            assert_eq!(back.view::<T>().unwrap().to_vec(), expected);
            let copy = back.to_flex().unwrap();
            assert!(copy.is_contiguous());
            assert_eq!(copy.into_tensor().unwrap().view::<T>().unwrap().to_vec(), expected);
        }
    }
    one([1_u8, 2, 3, 4, 5, 6]);
    one([1_u16, 2, 3, 4, 5, 6]);
    one([1_u32, 2, 3, 4, 5, 6]);
    one([1_u64, 2, 3, 4, 5, 6]);
    one([1_i8, 2, 3, 4, 5, 6]);
    one([1_i16, 2, 3, 4, 5, 6]);
    one([1_i32, 2, 3, 4, 5, 6]);
    one([1_i64, 2, 3, 4, 5, 6]);
    one([1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(f16::from_f32));
    one([1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(bf16::from_f32));
    one([1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    one([1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.0]);
    one([true, false, true, true, false, false]);
}

#[test]
fn exclusive_memory_of_others_is_written_in_place() {
    let (tensor, drops) = foreign(Access::Exclusive, 8, &[4, 6]);
    let first = tensor.data().addr();
    let mut flex = tensor.into_flex().unwrap();
    assert_eq!(address(&flex), first);
    assert_eq!(flex.storage_mut::<f32>().as_ptr().addr(), first, "not copied");
    flex.storage_mut::<f32>()[0] = 100.0;
    let other = flex.clone();
    flex.storage_mut::<f32>()[0] = 200.0;
    assert_eq!(other.storage::<f32>()[0], 100.0, "burn copied what it shares");
    assert_ne!(address(&flex), address(&other));
    assert_eq!(drops.count(), 0);
    std::thread::spawn(move || drop(other)).join().unwrap();
    assert_eq!(drops.count(), 1);
}

#[test]
fn immutable_shared_tensor_is_copied_before_a_write() {
    let (tensor, drops) = foreign(Access::Immutable, 4, &[4, 6]);
    let tensor = tensor.into_shared();
    let mut flex = tensor.share().into_flex().unwrap();
    assert_eq!(address(&flex), tensor.data().addr(), "not copied");
    flex.storage_mut::<f32>()[0] = 100.0;
    assert_ne!(address(&flex), tensor.data().addr(), "copied");
    assert_eq!((flex.storage::<f32>()[0], flex.storage::<f32>()[23]), (100.0, 23.0));
    assert_eq!(tensor.view::<f32>().unwrap()[[0, 0]], 0.0);
    drop(tensor);
    assert_eq!(drops.count(), 1, "burn has dropped it");
}

#[test]
fn memory_that_others_may_write_is_refused() {
    let unstable = |access| Error::Tensor(dlbridge::Error::Unstable { access });
    let (tensor, drops) = foreign(Access::Shared, 4, &[4, 6]);
    let copy = tensor.to_flex().unwrap();
    assert_eq!(copy.storage::<f32>()[23], 23.0);
    assert_ne!(address(&copy), tensor.data().addr(), "copied");
    let error = tensor.into_flex().unwrap_err();
    assert_eq!((&error, drops.count()), (&unstable(Access::Shared), 1));
    for way_out in ["Tensor::assume_immutable", "copy the tensor"] {
        assert!(error.to_string().contains(way_out), "{error}");
    }
    let (tensor, drops) = foreign(Access::Shared, 0, &[4, 6]);
    assert_eq!(tensor.into_burn::<2, Float>().unwrap_err(), unstable(Access::Shared));
    assert_eq!(drops.count(), 1);
    let (tensor, drops) = foreign(Access::Shared, 0, &[4, 6]);
    assert_eq!(tensor.into_read_only().into_flex().unwrap_err(), unstable(Access::ReadOnly));
    assert_eq!(drops.count(), 1);

    let (tensor, drops) = foreign(Access::Shared, 4, &[4, 6]);
    let first = tensor.data().addr();
    // SAFETY: nothing writes the elements.
    let flex = unsafe { tensor.assume_immutable() }.into_flex().unwrap();
    assert_eq!((address(&flex), drops.count()), (first, 0));
    assert_eq!(flex.into_tensor().unwrap().access(), Access::Immutable);

    let mut mask = vec![1_u8, 0];
    let parts = RawParts::new(mask.as_mut_ptr().cast(), DataType::BOOL);
    // SAFETY: the vector owns two bytes, which nothing writes, and which stay where they are when it moves.
    let tensor = unsafe { Tensor::from_raw_parts(mask, parts, &[2], None::<&[i64]>) }.unwrap();
    assert_eq!(tensor.into_flex().unwrap_err(), unstable(Access::Shared));
}

#[test]
fn burn_computes_on_strided_memory_of_others() {
    let (tensor, drops) = foreign(Access::Immutable, 0, &[4, 6]);
    let first = tensor.data().addr();
    let turned = tensor.transpose().flip(1).unwrap();
    let last_row = turned.data().addr();
    let burn: Burn<2> = turned.into_burn().unwrap();
    let sums = burn.clone().sum_dim(1).into_data().try_to_vec::<f32>().unwrap();
    assert_eq!(sums, [36.0, 40.0, 44.0, 48.0, 52.0, 56.0]);
    let row = burn.clone().slice([0..1, 0..4]).into_data().try_to_vec::<f32>().unwrap();
    assert_eq!(row, [18.0, 12.0, 6.0, 0.0]);
    let back = burn.into_tensor().unwrap();
    assert_eq!((back.data().addr(), back.strides()), (last_row, &[1, -6][..]));
    assert_eq!(last_row - first, 18 * 4);
    drop(through_c(back));
    assert_eq!(drops.count(), 1);
}

#[test]
fn gaps_in_memory_of_others_are_refused() {
    let gaps = |part: fn(Tensor) -> Tensor| {
        let (tensor, drops) = foreign(Access::Exclusive, 0, &[4, 6]);
        let tensor = part(tensor);
        let expected = tensor.view::<f32>().unwrap().to_vec();
        assert_eq!(tensor.to_flex().unwrap().storage::<f32>(), expected);
        assert_eq!(tensor.into_flex().unwrap_err(), Error::Gaps);
        assert_eq!(drops.count(), 1);
    };
    gaps(|tensor| tensor.step_by(1, 2).unwrap());
    gaps(|tensor| tensor.slice(1, 0..5).unwrap());
    gaps(|tensor| tensor.index_axis(1, 2).unwrap());
    let (tensor, _) = foreign(Access::Exclusive, 0, &[4, 6]);
    let rows = tensor.slice(0, 1..3).unwrap();
    let first = rows.data().addr();
    let flex = rows.into_flex().unwrap();
    assert_eq!((address(&flex), flex.bytes().len()), (first, 48), "whole rows are without gaps");
}

#[test]
fn misaligned_tensor_is_refused_and_copied() {
    let (tensor, drops) = foreign(Access::Exclusive, 3, &[4, 6]);
    let copy = tensor.to_flex().unwrap();
    assert_eq!(copy.storage::<f32>(), (0..24).map(|n| n as f32).collect::<Vec<_>>());
    let error = tensor.into_flex().unwrap_err();
    assert!(matches!(error, Error::Tensor(dlbridge::Error::Misaligned { required: 4, .. })));
    assert_eq!(drops.count(), 1);
}

#[test]
fn tensors_without_dimensions_or_elements() {
    let (tensor, drops) = foreign(Access::Exclusive, 0, &[]);
    let first = tensor.data().addr();
    let flex = tensor.into_flex().unwrap();
    assert_eq!((flex.layout().num_dims(), address(&flex)), (0, first));
    drop(flex);
    assert_eq!(drops.count(), 1);
    for shape in [&[0][..], &[3, 0]] {
        let tensor = Tensor::from_parts(Vec::<f32>::new(), shape).unwrap();
        assert_eq!(tensor.to_flex().unwrap().layout().shape().to_vec(), shape);
        assert_eq!(tensor.into_flex().unwrap().layout().shape().to_vec(), shape);
    }
}

#[test]
fn dtypes_that_burn_lacks_are_refused_by_name() {
    use DataType as D;
    for (dtype, name) in [
        (D::COMPLEX64, "complex64"),
        (D::FLOAT8_E4M3FN, "float8_e4m3fn"),
        (D::FLOAT4_E2M1FN, "float4_e2m1fn"),
        (D::INT4, "int4"),
        (D::FLOAT32.with_lanes(2), "float32x2"),
    ] {
        let tensor = Tensor::zeroed(dtype, [4]).unwrap();
        assert_eq!(tensor.to_flex().unwrap_err(), Error::DataType { dtype });
        let error = tensor.into_flex().unwrap_err();
        assert!(error.to_string().contains(&format!("are {name},")), "{error}");
    }
}

#[test]
fn other_kinds_and_other_dimensions_are_refused() {
    let floats = || Tensor::from(vec![1.0_f32, 2.0]);
    let dtype = DataType::FLOAT32;
    let kind = |kind| Error::Kind { kind, dtype };
    assert_eq!(floats().into_burn::<1, Int>().unwrap_err(), kind("Int"));
    assert_eq!(floats().into_burn::<1, Bool>().unwrap_err(), kind("Bool"));
    let ndim = dlbridge::Error::Ndim { expected: 2, found: 1 };
    assert_eq!(floats().into_burn::<2, Float>().unwrap_err(), Error::Tensor(ndim));
    let mask: Burn<1, Bool> = Tensor::from(vec![true, false]).into_burn().unwrap();
    assert_eq!(mask.bool_not().into_data().try_to_vec::<bool>().unwrap(), [false, true]);
}

#[test]
fn invalid_bool_bytes_are_refused() {
    let tensor = || Tensor::from_bytes(vec![1_u8, 2], DataType::BOOL, [2], 0).unwrap();
    let expected = Error::Tensor(dlbridge::Error::InvalidElement { dtype: DataType::BOOL });
    assert_eq!(tensor().into_flex().unwrap_err(), expected);
    assert_eq!(tensor().to_flex().unwrap_err(), expected);
}

#[test]
fn memory_out_of_reach_of_the_cpu_is_refused() {
    let tensor = out_of_reach((), DataType::FLOAT32);
    let error = tensor.into_flex().unwrap_err();
    assert!(matches!(error, Error::Tensor(dlbridge::Error::NotHostAccessible { .. })));
}

/// A vector in a wrapper type, so that import cannot take the vector out.
struct Wrapped(Vec<f32>);

// SAFETY: forwards to the vector.
unsafe impl Owner for Wrapped {
    type Item = f32;
    const ACCESS: Access = Access::Exclusive;

    fn items(&mut self) -> *mut [f32] {
        self.0.items()
    }
}

#[test]
fn repeated_elements_have_no_gaps() {
    let tensor = Tensor::from_parts_strided(Wrapped(vec![1.0, 2.0]), [3, 2], [0, 1], 0).unwrap();
    let burn: Burn<2> = tensor.into_burn().unwrap();
    assert_eq!(
        (burn + 1.0).into_data().try_to_vec::<f32>().unwrap(),
        [2.0, 3.0, 2.0, 3.0, 2.0, 3.0]
    );
}

#[test]
#[cfg_attr(miri, ignore = "allocations never fail under Miri")]
fn copy_larger_than_memory_is_refused() {
    let expected = |bytes| Error::Tensor(dlbridge::Error::OutOfMemory { bytes, for_copy: true });
    let huge = Tensor::from_parts_strided(vec![0_u8], [1 << 46], [0], 0).unwrap();
    assert_eq!(huge.to_flex().unwrap_err(), expected(1 << 46));
    assert_eq!(huge.into_flex().unwrap().bytes(), [0], "not copied");
    let mut numbers = vec![0_u64; 2];
    let parts = RawParts {
        byte_offset: 1,
        ..RawParts::new(numbers.as_mut_ptr().cast(), DataType::FLOAT64)
    };
    // SAFETY: the vector owns the number at an odd address, which every index leads to.
    let odd =
        unsafe { Tensor::from_raw_parts(numbers, parts, &[1_i64 << 58], Some(&[0_i64])) }.unwrap();
    assert_eq!(odd.to_flex().unwrap_err(), expected(1 << 61));
}

enum Owners {
    Flex(FlexTensor),
    Vec(Vec<f32>),
}

#[test]
fn elements_outside_of_the_owner_are_not_taken_from_it() {
    static OTHERS: [f32; 4] = [7.0, 8.0, 9.0, 10.0];
    let shape = |extents: &[usize]| Layout::contiguous(Shape::from(extents.to_vec()));
    let integers = || {
        let bits = vec![1.0_f32.to_bits(), 2.0_f32.to_bits(), 3.0_f32.to_bits()];
        FlexTensor::new(Bytes::from_elems(bits), shape(&[3]), DType::U32)
    };
    let read_only = |first: *const u8| RawParts {
        access: Access::Immutable,
        ..RawParts::new(first.cast_mut().cast(), DataType::FLOAT32)
    };
    let owner = integers();
    let parts = read_only(owner.bytes().as_ptr());
    // SAFETY: the owner has three numbers of four bytes, which stay where they are when it moves.
    let floats = unsafe { Tensor::from_raw_parts(owner, parts, &[3], None::<&[i64]>) }.unwrap();
    let first = floats.data().addr();
    let flex = floats.into_flex().unwrap();
    assert_eq!((flex.dtype(), address(&flex)), (DType::F32, first));
    assert_eq!(flex.storage::<f32>(), [1.0, 2.0, 3.0]);

    let data = (&raw const OTHERS).cast();
    for strides in [[2_i64, 1], [1, 2]] {
        let owner = FlexTensor::new(Bytes::from_elems(vec![0.0_f32; 2]), shape(&[2]), DType::F32);
        // SAFETY: nothing writes the static, which any owner keeps.
        let others =
            unsafe { Tensor::from_raw_parts(owner, read_only(data), &[2, 2], Some(&strides)) };
        let flex = others.unwrap().into_flex().unwrap();
        assert_eq!(
            (address(&flex), flex.layout().strides()),
            (data.addr(), &strides.map(|stride| stride as isize)[..])
        );
        assert_eq!(flex.storage::<f32>(), OTHERS);
    }
    // SAFETY: nothing writes the static, which any owner keeps.
    let of_vec =
        unsafe { Tensor::from_raw_parts(vec![0.0_f32; 9], read_only(data), &[4], None::<&[i64]>) };
    let flex = of_vec.unwrap().into_flex().unwrap();
    assert_eq!((address(&flex), flex.storage::<f32>()), (data.addr(), &OTHERS[..]));
    for access in [Access::Shared, Access::ReadOnly] {
        let over = |owner: Owners| {
            let parts = RawParts { access, ..read_only(data) };
            // SAFETY: nothing writes the static, which any owner keeps.
            let tensor = unsafe {
                match owner {
                    Owners::Flex(owner) => {
                        Tensor::from_raw_parts(owner, parts, &[3], None::<&[i64]>)
                    }
                    Owners::Vec(owner) => {
                        Tensor::from_raw_parts(owner, parts, &[3], None::<&[i64]>)
                    }
                }
            };
            tensor.unwrap().into_flex().unwrap_err()
        };
        let refused = Error::Tensor(dlbridge::Error::Unstable { access });
        assert_eq!(over(Owners::Flex(integers())), refused);
        assert_eq!(over(Owners::Vec(vec![0.0; 9])), refused);
    }
    // SAFETY: nothing writes the static, which any owner keeps.
    let gaps = unsafe { Tensor::from_raw_parts(integers(), read_only(data), &[2], Some(&[2_i64])) };
    assert_eq!(gaps.unwrap().into_flex().unwrap_err(), Error::Gaps);
}

#[test]
fn read_only_tensor_that_another_handle_writes_is_refused() {
    let (read_only, writer) = written_by_another_handle();
    let access = Access::ReadOnly;
    assert_eq!(read_only.into_flex().err(), Some(dlbridge::Error::Unstable { access }.into()));
    drop(writer);
}

#[test]
fn shared_rust_data_needs_no_promise() {
    for tensor in [Tensor::from(Arc::<[i32]>::from([1, 2])), Tensor::from(&[1_i32, 2][..])] {
        let address = tensor.data().addr();
        assert_eq!(self::address(&tensor.into_flex().unwrap()), address);
    }
}

#[test]
fn burn_loop_of_exported_tensors_drops_on_a_small_stack() {
    repeat(Tensor::from(vec![1.0_f32, 2.0]), |tensor| {
        let source = tensor.into_shared();
        // SAFETY: just exported, and nothing writes the elements in this test.
        let shared = unsafe { Tensor::from_raw(source.to_raw()).unwrap().assume_immutable() };
        // The source lives on while burn imports the tensor, so that the owner of `shared` cannot be taken out.
        let flex = shared.into_flex().unwrap();
        drop(source);
        flex.into_tensor().unwrap()
    });
}

#[test]
fn burn_loop_of_transposes_drops_on_a_small_stack() {
    repeat(Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), |tensor| {
        tensor.transpose().into_flex().unwrap().into_tensor().unwrap()
    });
}
