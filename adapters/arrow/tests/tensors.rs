//! Tensors to arrays: every dtype, any strides, write access, and the drop of the owner.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, Int32Array};
use arrow_buffer::ScalarBuffer;
use dlbridge::{Access, DataType, Element, Error as TensorError, Tensor};
use dlbridge_arrow::{ArrayExt, Error, TensorExt};
use dlbridge_testing::{
    foreign_strided, foreign_vec, misaligned, on_cuda, through_c, written_by_another_handle,
};
use half::{bf16, f16};

fn refused(result: Result<impl Debug, Error>) -> TensorError {
    match result.unwrap_err() {
        Error::Tensor(error) => error,
        error => panic!("{error:?} is not the tensor's"),
    }
}

/// Asserts that the elements are read in place, and that the owner is dropped with the last array.
#[track_caller]
fn into<P: ArrowPrimitiveType<Native: Element + Debug>>(values: [P::Native; 6]) {
    let (tensor, dropped) = foreign_vec(values.to_vec());
    let address = tensor.data().addr();
    let array = tensor.into_array().unwrap();
    assert_eq!(array.data_type(), &P::DATA_TYPE);
    let numbers = array.as_primitive::<P>();
    assert_eq!((numbers.values().as_ptr().addr(), &numbers.values()[..]), (address, &values[..]));
    let tail = array.slice(5, 1);
    drop(array);
    assert_eq!((tail.as_primitive::<P>().values()[0], dropped.count()), (values[5], 0));
    std::thread::spawn(move || drop(tail)).join().unwrap();
    assert_eq!(dropped.count(), 1);

    let (tensor, dropped) =
        foreign_strided(values.to_vec(), (&[1, 3, 2], &[6, 2, 1], 0), Access::Immutable);
    let address = tensor.data().addr();
    let array = tensor.into_fixed_size_list().unwrap();
    let rows = array.values().as_fixed_size_list().clone();
    assert_eq!((array.value_length(), rows.value_length()), (3, 2));
    assert_eq!(rows.values().as_primitive::<P>().values().as_ptr().addr(), address);
    let tensor = array.into_tensor().unwrap();
    assert_eq!((tensor.shape(), tensor.data().addr()), (&[1, 3, 2][..], address));
    assert_eq!(tensor.view::<P::Native>().unwrap().to_vec(), values);
    drop(rows);
    assert_eq!(dropped.count(), 0);
    drop(tensor);
    assert_eq!(dropped.count(), 1);

    let (tensor, dropped) = foreign_vec(values.to_vec());
    let copy = tensor.to_array().unwrap();
    drop(tensor);
    assert_eq!((dropped.count(), &copy.as_primitive::<P>().values()[..]), (1, &values[..]));
}

#[test]
fn every_number_is_imported_in_place() {
    into::<Int8Type>([1, -2, 3, 4, 5, 6]);
    into::<Int16Type>([1, -2, 3, 4, 5, 6]);
    into::<Int32Type>([1, -2, 3, 4, 5, 6]);
    into::<Int64Type>([1, -2, 3, 4, 5, 6]);
    into::<UInt8Type>([1, 2, 3, 4, 5, 6]);
    into::<UInt16Type>([1, 2, 3, 4, 5, 6]);
    into::<UInt32Type>([1, 2, 3, 4, 5, 6]);
    into::<UInt64Type>([1, 2, 3, 4, 5, 6]);
    into::<Float16Type>([1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(f16::from_f32));
    into::<Float32Type>([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    into::<Float64Type>([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn dtypes_that_arrow_lacks_are_refused_by_name() {
    let others = [
        DataType::BFLOAT16,
        DataType::COMPLEX64,
        DataType::COMPLEX128,
        DataType::INT128,
        DataType::UINT128,
        DataType::FLOAT8_E4M3FN,
        DataType::FLOAT4_E2M1FN,
        DataType::FLOAT32.with_lanes(4),
    ];
    for dtype in others {
        let make = || Tensor::zeroed(dtype, [4, 2]).unwrap();
        let no_type = |error: Error| {
            assert!(error.to_string().contains(&dtype.to_string()), "{error}");
            assert!(matches!(error, Error::NoArrowType { dtype: found } if found == dtype));
        };
        no_type(make().into_array().unwrap_err());
        no_type(make().to_array().unwrap_err());
        no_type(make().into_record_batch(["a", "b"]).unwrap_err());
        no_type(make().to_record_batch(["a", "b"]).unwrap_err());
        no_type(make().into_fixed_shape_tensor("a").unwrap_err());
        assert_eq!(make().into_buffer().unwrap().len() as u128, make().nbytes());
    }
    assert!(matches!(Tensor::from(vec![true]).into_array(), Err(Error::Bits)));
    assert!(matches!(Tensor::from([[true]]).into_record_batch(["a"]), Err(Error::Bits)));
    let decimals = Tensor::from(vec![1_i128, 2]).into_primitive_array::<Decimal128Type>().unwrap();
    assert_eq!(decimals.values()[..], [1, 2], "of the type that the caller names");
    let bytes = Tensor::from(vec![bf16::from_f32(1.0)]).into_buffer().unwrap();
    assert_eq!(bytes.as_slice(), bf16::from_f32(1.0).to_ne_bytes());
}

#[test]
fn booleans_are_checked_and_packed() {
    let array = Tensor::from([[true, false], [false, true], [true, true]]).to_array().unwrap();
    let bits = array.as_fixed_size_list().values().as_boolean().clone();
    assert_eq!(bits.values().values(), [0b11_1001]);
    let (mut bytes, _) = foreign_vec(vec![1_u8, 2]);
    bytes.view_mut::<u8>().unwrap()[[0]] = 0;
    let parts = dlbridge::RawParts::new(bytes.data(), DataType::BOOL);
    // SAFETY: two bytes, which the other tensor keeps alive and nothing writes.
    let bools = unsafe { Tensor::from_raw_parts(bytes, parts, &[2], None::<&[i64]>) }.unwrap();
    let invalid = TensorError::InvalidElement { dtype: DataType::BOOL };
    assert_eq!(refused(bools.to_array()), invalid);
}

#[test]
#[cfg_attr(miri, ignore = "allocations never fail under Miri")]
fn repeated_elements_beyond_memory_are_refused() {
    const BYTES: usize = 1 << 45;
    let bools = Tensor::from_parts_strided(vec![true], [BYTES], [0], 0).unwrap();
    assert_eq!(
        refused(bools.to_array()),
        TensorError::OutOfMemory { bytes: BYTES, for_copy: true }
    );
    let bytes = Tensor::from_parts_strided(vec![1_u8], [BYTES], [0], 0).unwrap();
    assert_eq!(
        refused(bytes.to_array()),
        TensorError::OutOfMemory { bytes: BYTES, for_copy: true }
    );
    let bools = Tensor::from_parts_strided(vec![true], [BYTES, 1], [0, 0], 0).unwrap();
    let error = refused(bools.to_record_batch(["a"]));
    assert_eq!(error, TensorError::OutOfMemory { bytes: BYTES, for_copy: true });
}

#[test]
fn other_order_than_c_is_refused_and_dropped_or_copied() {
    let values = || (0..12).collect::<Vec<i32>>();
    let layouts: [(dlbridge_testing::Layout<'_>, &[i32]); 5] = [
        ((&[3, 2], &[1, 3], 0), &[0, 3, 1, 4, 2, 5]),
        ((&[3], &[2], 1), &[1, 3, 5]),
        ((&[3], &[-1], 5), &[5, 4, 3]),
        ((&[2, 2], &[0, 1], 4), &[4, 5, 4, 5]),
        ((&[2, 2], &[3, 1], 0), &[0, 1, 3, 4]),
    ];
    for (layout, expected) in layouts {
        let make = || foreign_strided(values(), layout, Access::Immutable);
        let (tensor, dropped) = make();
        assert_eq!(refused(tensor.into_array()), TensorError::NotContiguous);
        assert_eq!(dropped.count(), 1);
        let (tensor, dropped) = make();
        assert_eq!(refused(tensor.into_buffer()), TensorError::NotContiguous);
        assert_eq!(dropped.count(), 1);
        let (tensor, dropped) = make();
        let copy = tensor.to_array().unwrap();
        drop(tensor);
        let copy = copy.into_tensor().unwrap();
        assert_eq!((copy.shape(), dropped.count()), (layout.0, 1));
        assert_eq!(copy.view::<i32>().unwrap().to_vec(), expected);
    }
    let (tensor, _) = foreign_strided(values(), (&[1, 3, 1], &[99, 1, -7], 2), Access::Immutable);
    assert_eq!(
        tensor.into_array().unwrap().len(),
        1,
        "strides of dimensions of extent 1 do not matter"
    );
}

#[test]
fn memory_that_others_may_write_is_refused() {
    let make = |access| foreign_strided(vec![1_i32, 2], (&[2, 1], &[1, 2], 0), access);
    for into in [
        |tensor: Tensor| tensor.into_array().map(drop),
        |tensor: Tensor| tensor.into_buffer().map(drop),
        |tensor: Tensor| tensor.into_record_batch(["a"]).map(drop),
        |tensor: Tensor| tensor.into_fixed_shape_tensor("a").map(drop),
    ] {
        for access in [Access::Shared, Access::ReadOnly] {
            let (tensor, dropped) = make(access);
            assert_eq!(refused(into(tensor)), TensorError::Unstable { access });
            assert_eq!(dropped.count(), 1);
            let (tensor, dropped) = make(access);
            // SAFETY: nothing writes the vector.
            into(unsafe { tensor.assume_immutable() }).unwrap();
            assert_eq!(dropped.count(), 1);
        }
    }
    let (tensor, _) = make(Access::Shared);
    assert_eq!(tensor.to_array().unwrap().len(), 2, "no other code has the copy");
    let (tensor, _) = make(Access::Shared);
    assert_eq!(tensor.to_record_batch(["a"]).unwrap().num_rows(), 2);
}

#[test]
fn shared_tensor_is_not_taken_from_other_holders() {
    let array = Int32Array::from(vec![1, 2, 3]);
    let address = array.values().as_ptr().addr();
    let tensor = array.into_tensor().unwrap().try_into_immutable().unwrap().into_shared();
    let shared = tensor.share().into_array().unwrap();
    assert_eq!(shared.as_primitive::<Int32Type>().values().as_ptr().addr(), address);
    let last = tensor.share();
    drop((tensor, shared));
    let array = last.into_primitive_array::<Int32Type>().unwrap();
    assert_eq!(array.values().as_ptr().addr(), address);
    assert!(array.into_builder().is_ok(), "the last holder gets the buffer itself");
}

#[test]
fn shape_dtype_device_and_alignment_are_checked() {
    let (tensor, dropped) = foreign_vec(vec![1_i32, 2]);
    let wrong = refused(tensor.into_primitive_array::<Float32Type>());
    assert_eq!(
        wrong,
        TensorError::DataType { expected: DataType::FLOAT32, found: DataType::INT32 }
    );
    assert_eq!(dropped.count(), 1);
    let (tensor, dropped) = foreign_strided(vec![1_i32], (&[], &[], 0), Access::Exclusive);
    assert_eq!(refused(tensor.into_array()), TensorError::Ndim { expected: 1, found: 0 });
    assert_eq!(dropped.count(), 1);
    let (tensor, _) = foreign_strided(vec![7_i32], (&[], &[], 0), Access::Exclusive);
    assert_eq!(tensor.into_scalar_buffer::<i32>().unwrap()[..], [7]);
    let (tensor, _) = foreign_vec(vec![1_i32, 2]);
    let ndim = TensorError::Ndim { expected: 2, found: 1 };
    assert_eq!(refused(tensor.into_fixed_size_list()), ndim);
    let (tensor, _) = foreign_strided(vec![1_i32; 4], (&[2, 2], &[2, 1], 0), Access::Exclusive);
    let ndim = TensorError::Ndim { expected: 1, found: 2 };
    assert_eq!(refused(tensor.into_primitive_array::<Int32Type>()), ndim);
    for access in [Access::Exclusive, Access::Shared] {
        let (tensor, dropped) = on_cuda(access);
        let device = tensor.device();
        assert_eq!(refused(tensor.into_array()), TensorError::NotHostAccessible { device });
        assert_eq!(dropped.count(), 1);
        let (tensor, _) = on_cuda(access);
        assert_eq!(refused(tensor.into_buffer()), TensorError::NotHostAccessible { device });
        let (tensor, _) = on_cuda(access);
        assert_eq!(refused(tensor.to_array()), TensorError::NotHostAccessible { device });
    }
    let (tensor, dropped) = misaligned();
    let address = tensor.data().addr();
    assert_eq!(refused(tensor.into_array()), TensorError::Misaligned { address, required: 4 });
    assert_eq!(dropped.count(), 1);
    assert_eq!(misaligned().0.to_array().unwrap().len(), 2, "a copy is aligned");
    let (tensor, _) = misaligned();
    let address = tensor.data().addr();
    assert_eq!(tensor.into_buffer().unwrap().as_ptr().addr(), address, "bytes need no alignment");
}

#[test]
fn lists_longer_than_arrows_limit_are_refused() {
    let too_many = i32::MAX as usize + 1;
    let (tensor, _) = foreign_vec(vec![1_u8]);
    let wide = tensor.slice(0, ..0).unwrap().reshape([0, too_many]).unwrap();
    let limit = TensorError::ExtentLimit { axis: 1, limit: i32::MAX as usize, found: too_many };
    assert_eq!(refused(wide.into_array()), limit);
    let (tensor, _) = foreign_vec(vec![1_u8]);
    let wide = tensor.slice(0, ..0).unwrap().reshape([0, 1 << 16, 1 << 15]).unwrap();
    let error = wide.into_fixed_shape_tensor("x").unwrap_err();
    assert!(error.to_string().contains("2147483648 elements"), "{error}");
    assert!(matches!(error, Error::ListSize { len } if len == too_many));
}

#[test]
fn arrays_round_trip_through_c() {
    let array: ArrayRef = std::sync::Arc::new(Int32Array::from(vec![1, 2, 3]));
    let address = array.as_primitive::<Int32Type>().values().as_ptr().addr();
    let tensor = through_c(array.into_tensor().unwrap());
    let array = tensor.into_primitive_array::<Int32Type>().unwrap();
    assert_eq!((array.values().as_ptr().addr(), &array.values()[..]), (address, &[1, 2, 3][..]));
    assert!(array.into_builder().is_ok(), "it is the same buffer");

    let (tensor, dropped) = foreign_vec(vec![1.0_f64, 2.0]);
    let buffer: ScalarBuffer<f64> = tensor.into_scalar_buffer().unwrap();
    let managed = dlbridge_arrow::BufferExt::into_tensor(buffer).into_raw();
    assert_eq!(dropped.count(), 0);
    // SAFETY: `into_raw` just exported it, and nothing else imports it.
    drop(unsafe { Tensor::from_raw(managed) }.unwrap());
    assert_eq!(dropped.count(), 1);
}

#[test]
fn empty_tensor_drops_its_owner() {
    let (tensor, dropped) = foreign_strided(vec![1_i64, 2], (&[0], &[1], 1), Access::Shared);
    let array = tensor.into_array().unwrap();
    assert_eq!((array.len(), dropped.count()), (0, 1));
    let (tensor, _) = foreign_vec(vec![1_u8, 2, 3]);
    let odd = dlbridge_arrow::BufferExt::into_tensor(tensor.into_buffer().unwrap().slice(1));
    assert_eq!(odd.slice(0, ..0).unwrap().into_array().unwrap().len(), 0);
}

#[test]
fn read_only_tensor_that_another_handle_writes_is_refused() {
    let (read_only, writer) = written_by_another_handle();
    let access = Access::ReadOnly;
    assert_eq!(refused(read_only.into_array().map(drop)), TensorError::Unstable { access });
    drop(writer);
}

#[test]
fn shared_rust_data_needs_no_promise() {
    for tensor in [Tensor::from(Arc::<[i32]>::from([1, 2])), Tensor::from(&[1_i32, 2][..])] {
        let address = tensor.data().addr();
        let array = tensor.into_primitive_array::<Int32Type>().unwrap();
        assert_eq!(array.values().as_ptr().addr(), address);
    }
}
