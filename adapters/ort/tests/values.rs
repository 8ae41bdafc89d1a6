//! Tensors as values of a real ONNX Runtime, and values as tensors.
//!
//! The tests are skipped without ONNX Runtime, and fail then if `DLBRIDGE_REQUIRE` is set.

mod support;

use std::ptr::{self, NonNull};
use std::thread;

use dlbridge::{Access, DataType, Device, Error as Refusal, RawParts, Tensor, TensorRef};
use dlbridge_ort::{Error, TensorExt, ValueExt};
use dlbridge_testing::{Counted, Drops, out_of_reach, through_c};
use ort::AsPointer;
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::value::{DynTensor, DynValue, Map, Sequence, TensorElementType};
use support::{environment, square};

const DTYPES: &str = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 \
                      float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu int2 uint2 int4 \
                      uint4 float4_e2m1fn";

/// A tensor of a dtype with distinct bytes, or valid `bool` bytes.
fn sample(dtype: DataType, elements: usize) -> Tensor {
    let len = (dtype.element_bits() as usize * elements).div_ceil(8);
    let byte = |place: usize| if dtype == DataType::BOOL { place % 2 } else { place + 1 } as u8;
    let bytes: Vec<u8> = (0..len).map(byte).collect();
    Tensor::from_bytes(bytes, dtype, [elements], 0).unwrap().to_copy().unwrap()
}

fn refusal(error: Error) -> Refusal {
    match error {
        Error::Tensor(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn every_dtype_round_trips_without_a_copy() {
    if environment().is_none() {
        return;
    }
    for name in DTYPES.split_whitespace() {
        let dtype: DataType = name.parse().unwrap();
        let tensor = sample(dtype, 5);
        let (address, bytes) =
            (tensor.data(), TensorRef::from(&tensor).as_bytes().unwrap().to_vec());
        let value = tensor.into_value().unwrap();
        assert_eq!(value.data_ptr(), address.cast_const(), "{name}");
        assert_eq!((&**value.shape(), value.size()), (&[5][..], Some(bytes.len())), "{name}");
        // SAFETY: the only value on its memory.
        let tensor = unsafe { value.into_tensor() }.unwrap();
        assert_eq!((tensor.data(), tensor.dtype()), (address, dtype), "{name}");
        assert_eq!((tensor.shape(), tensor.device()), (&[5][..], Device::CPU), "{name}");
        assert_eq!(tensor.is_read_only(), dtype == DataType::BOOL, "{name}");
        assert_eq!(TensorRef::from(&tensor).as_bytes().unwrap(), bytes, "{name}");
    }
}

#[test]
fn values_of_ort_itself_become_tensors() {
    if environment().is_none() {
        return;
    }
    for name in DTYPES.split_whitespace() {
        let dtype: DataType = name.parse().unwrap();
        let element = *sample(dtype, 1).into_value().unwrap().data_type();
        let value = DynTensor::new(&Allocator::default(), element, [2_usize, 3]).unwrap();
        let address = value.data_ptr();
        // SAFETY: the only value on its memory.
        let tensor = unsafe { value.into_tensor() }.unwrap();
        assert_eq!((tensor.data().cast_const(), tensor.dtype()), (address, dtype), "{name}");
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3][..], &[3, 1][..]), "{name}");
        assert!(
            TensorRef::from(&tensor).as_bytes().unwrap().iter().all(|&byte| byte == 0),
            "{name}"
        );
    }
}

#[test]
fn to_tensor_copies_every_dtype_into_memory_of_its_own() {
    if environment().is_none() {
        return;
    }
    for name in DTYPES.split_whitespace() {
        let dtype: DataType = name.parse().unwrap();
        for elements in [5, 0] {
            let tensor = sample(dtype, elements);
            let bytes = TensorRef::from(&tensor).as_bytes().unwrap().to_vec();
            let value = tensor.into_value().unwrap();
            let copy = value.to_tensor().unwrap();
            assert_eq!((copy.access(), copy.dtype()), (Access::Exclusive, dtype), "{name}");
            assert_eq!(copy.shape(), [elements as i64], "{name}");
            assert_eq!(TensorRef::from(&copy).as_bytes().unwrap(), bytes, "{name}");
            if elements > 0 {
                assert_ne!(copy.data().cast_const(), value.data_ptr(), "{name}");
            }
        }
    }
}

#[test]
fn to_tensor_of_a_value_that_is_written_later_keeps_its_elements() {
    if environment().is_none() {
        return;
    }
    let mut value = ort::value::Tensor::from_array(([2_usize], vec![1.0_f32, 2.0])).unwrap();
    let copy = value.to_tensor().unwrap();
    value.extract_tensor_mut().1[0] = 5.0;
    assert_eq!(copy.view::<f32>().unwrap().to_vec(), [1.0, 2.0]);
    drop(value);
    assert_eq!(copy.view::<f32>().unwrap().to_vec(), [1.0, 2.0]);
}

#[test]
fn dtypes_that_onnx_runtime_lacks_are_refused_by_name() {
    if environment().is_none() {
        return;
    }
    for name in ["int128", "float8_e4m3", "float6_e2m3fn", "complex32", "float32x4", "uint1"] {
        let dtype: DataType = name.parse().unwrap();
        let error = sample(dtype, 2).into_value().unwrap_err();
        assert!(matches!(error, Error::DataType { dtype: found } if found == dtype), "{error}");
        assert!(error.to_string().contains(name), "{error}");
        // SAFETY: no model runs on the input.
        let input = unsafe { sample(dtype, 2).into_input() };
        assert!(matches!(input, Err(Error::DataType { .. })), "{name}");
    }
    // ONNX names these types, but ONNX Runtime refuses values of them.
    for name in ["complex64", "complex128"] {
        let error = sample(name.parse().unwrap(), 2).into_value().unwrap_err();
        assert!(matches!(error, Error::Ort(_)), "{error}");
        assert!(error.to_string().contains("not supported"), "{error}");
    }
}

#[test]
fn values_other_than_tensors_are_refused_by_name() {
    if environment().is_none() {
        return;
    }
    let strings = ort::value::Tensor::from_string_array(([2_usize], &["a", "b"][..])).unwrap();
    assert!(matches!(strings.to_tensor(), Err(Error::ElementType { .. })));
    // SAFETY: the only value on its memory.
    let error = unsafe { strings.into_tensor() }.unwrap_err();
    assert!(matches!(error, Error::ElementType { element: TensorElementType::String }), "{error}");
    assert!(error.to_string().contains("String"), "{error}");
    let one = ort::value::Tensor::from_array(([1_usize], vec![1.0_f32])).unwrap();
    let sequence = Sequence::new([one]).unwrap();
    assert!(matches!(sequence.to_tensor(), Err(Error::NotATensor { .. })));
    // SAFETY: the only value on its memory.
    let error = unsafe { sequence.into_tensor() }.unwrap_err();
    assert!(matches!(error, Error::NotATensor { .. }), "{error}");
    assert!(error.to_string().contains("Sequence"), "{error}");
    let map = Map::<i64, f32>::new([(1, 2.0)]).unwrap();
    // SAFETY: the only value on its memory.
    let error = unsafe { map.into_tensor() }.unwrap_err();
    assert!(matches!(error, Error::NotATensor { .. }), "{error}");
    assert!(error.to_string().contains("Map"), "{error}");
}

#[test]
fn sparse_value_is_refused() {
    if environment().is_none() {
        return;
    }
    let (host, shape, mut value) = (Allocator::default(), [3_i64], ptr::null_mut());
    let element = TensorElementType::Float32.into();
    // SAFETY: a value without any numbers yet, made by the allocator.
    let value: DynValue = unsafe {
        let make = ort::api().CreateSparseTensorAsOrtValue;
        let made = make(host.ptr().cast_mut(), shape.as_ptr(), 1, element, &mut value);
        ort::Error::result_from_status(made).unwrap();
        DynValue::from_ptr(NonNull::new(value).unwrap(), Some(&host))
    };
    assert!(value.dtype().is_tensor(), "for ort");
    assert!(matches!(value.to_tensor(), Err(Error::NotATensor { .. })));
    // SAFETY: the only value on its memory.
    let error = unsafe { value.into_tensor() }.unwrap_err();
    assert!(matches!(error, Error::NotATensor { .. }), "{error}");
    assert!(error.to_string().contains("a sparse Tensor"), "{error}");
}

#[test]
fn a_value_on_another_device_is_refused_by_its_name() {
    if environment().is_none() {
        return;
    }
    let (device, kind) = (AllocationDevice::CUDA, AllocatorType::Device);
    let cuda = MemoryInfo::new(device, 0, kind, MemoryType::Default).unwrap();
    let (mut bytes, shape, mut value) = ([0_u8; 4], [1_i64], ptr::null_mut());
    let element = TensorElementType::Float32.into();
    // SAFETY: four bytes for one float; no code reads memory that is declared on a device.
    let value: DynTensor = unsafe {
        let data = bytes.as_mut_ptr().cast();
        let make = ort::api().CreateTensorWithDataAsOrtValue;
        let made = make(cuda.ptr(), data, 4, shape.as_ptr(), 1, element, &mut value);
        ort::Error::result_from_status(made).unwrap();
        DynTensor::from_ptr(NonNull::new(value).unwrap(), Some(&Allocator::default()))
    };
    let copy = value.to_tensor().unwrap_err();
    assert!(matches!(&copy, Error::Device { name } if name == "Cuda"), "{copy}");
    // SAFETY: the only value on its memory.
    let error = unsafe { value.into_tensor() }.unwrap_err();
    assert!(matches!(&error, Error::Device { name } if name == "Cuda"), "{error}");
}

#[test]
fn a_tensor_is_dropped_with_the_last_value() {
    if environment().is_none() {
        return;
    }
    let (tensor, drops) = square(Access::Exclusive);
    let value = tensor.into_value().unwrap();
    assert_eq!(drops.count(), 0);
    // SAFETY: the only value on its memory.
    let tensor = through_c(unsafe { value.into_tensor() }.unwrap());
    assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(drops.count(), 0);
    thread::spawn(move || drop(tensor)).join().unwrap();
    assert_eq!(drops.count(), 1);
    let (tensor, drops) = square(Access::ReadOnly);
    // SAFETY: no model runs on the input.
    let input = unsafe { tensor.into_input() }.unwrap();
    thread::spawn(move || drop(input)).join().unwrap();
    assert_eq!(drops.count(), 1);
}

#[test]
fn refused_tensor_is_dropped_once() {
    if environment().is_none() {
        return;
    }
    let refused = |access, convert: fn(Tensor) -> Option<Error>| {
        let (tensor, drops) = square(access);
        let error = convert(tensor).unwrap();
        assert_eq!(drops.count(), 1);
        refusal(error)
    };
    let transposed = refused(Access::Exclusive, |t| t.transpose().into_value().err());
    assert_eq!(transposed, Refusal::NotContiguous);
    assert_eq!(refused(Access::Shared, |t| t.into_value().err()), Refusal::Shared);
    assert_eq!(refused(Access::ReadOnly, |t| t.into_value().err()), Refusal::ReadOnly);
    let expected = Refusal::DataType { expected: DataType::INT32, found: DataType::FLOAT32 };
    assert_eq!(refused(Access::Exclusive, |t| t.into_value_of::<i32>().err()), expected);
    // ONNX Runtime itself refuses this value.
    let (mut floats, drops) = (vec![0.0_f32; 4], Drops::default());
    let data = floats.as_mut_ptr().cast();
    let owner = Counted::new(floats, &drops);
    let parts = RawParts { access: Access::Exclusive, ..RawParts::new(data, DataType::COMPLEX64) };
    // SAFETY: four floats are two complex numbers, which no other code has, and which stay where they are when the
    // vector moves.
    let complex = unsafe { Tensor::from_raw_parts(owner, parts, &[2], None::<&[i64]>) }.unwrap();
    assert!(matches!(complex.into_value(), Err(Error::Ort(_))));
    assert_eq!(drops.count(), 1);
}

#[test]
fn elements_must_be_on_the_host_and_aligned() {
    if environment().is_none() {
        return;
    }
    let odd = || {
        let mut bytes = vec![0_u8; 12];
        let first = (bytes.as_ptr().addr() + 1) % 2;
        bytes[first + 1..first + 5].copy_from_slice(&1.5_f32.to_ne_bytes());
        Tensor::from_bytes(bytes, DataType::FLOAT32, [1], first + 1).unwrap()
    };
    // SAFETY: no model runs on the input.
    let error = refusal(unsafe { odd().into_input() }.unwrap_err());
    assert!(matches!(error, Refusal::Misaligned { required: 4, .. }), "{error}");
    let copy = odd().to_value().unwrap();
    assert_eq!(copy.try_extract_tensor::<f32>().unwrap().1, [1.5]);
    let far = out_of_reach((), DataType::FLOAT32);
    let device = far.device();
    let error = refusal(far.to_value().unwrap_err());
    assert_eq!(error, Refusal::NotHostAccessible { device });
    // SAFETY: no model runs on the input.
    let error = refusal(unsafe { far.into_input() }.unwrap_err());
    assert_eq!(error, Refusal::NotHostAccessible { device });
}

#[test]
fn tensors_of_no_and_one_element_become_values() {
    if environment().is_none() {
        return;
    }
    let drops = Drops::default();
    let one = Tensor::from_parts(Counted::new(vec![7.0_f32], &drops), []).unwrap();
    let value = one.into_value_of::<f32>().unwrap();
    assert_eq!((value.shape().len(), value.extract_tensor().1), (0, &[7.0][..]));
    // SAFETY: the only value on its memory.
    assert_eq!(unsafe { value.into_tensor() }.unwrap().shape(), [0_i64; 0]);
    assert_eq!(drops.count(), 1);
    let nothing = Tensor::from_parts(Counted::new(Vec::<f32>::new(), &drops), [0, 3]).unwrap();
    let value = nothing.into_value_of::<f32>().unwrap();
    assert_eq!((&**value.shape(), value.extract_tensor().1), (&[0, 3][..], &[][..]));
    // SAFETY: the only value on its memory.
    let tensor = unsafe { value.into_tensor() }.unwrap();
    assert_eq!((tensor.shape(), tensor.data().is_null()), (&[0, 3][..], true));
    assert_eq!(&**tensor.into_value().unwrap().shape(), [0, 3]);
    assert_eq!(drops.count(), 2);
}

#[test]
fn strided_tensors_are_refused_and_copied_by_to_value() {
    if environment().is_none() {
        return;
    }
    let base = || Tensor::from([[1_i64, 2, 3], [4, 5, 6]]);
    let parts: [(&str, Tensor, &[i64]); 4] = [
        ("transposed", base().transpose(), &[1, 4, 2, 5, 3, 6]),
        ("steps", base().step_by(1, 2).unwrap(), &[1, 3, 4, 6]),
        ("backwards", base().flip(1).unwrap(), &[3, 2, 1, 6, 5, 4]),
        (
            "repeated",
            Tensor::from_parts_strided(vec![1_i64, 2, 3], [2, 3], [0, 1], 0).unwrap(),
            &[1, 2, 3, 1, 2, 3],
        ),
    ];
    for (name, tensor, expected) in parts {
        let value = tensor.to_value().unwrap();
        assert_ne!(value.data_ptr(), tensor.data().cast_const(), "{name}");
        assert_eq!(**value.shape(), *tensor.shape(), "{name}");
        assert_eq!(value.try_extract_tensor::<i64>().unwrap().1, expected, "{name}");
        // SAFETY: no model runs on the input.
        let error = refusal(unsafe { tensor.into_input() }.unwrap_err());
        assert_eq!(error, Refusal::NotContiguous, "{name}");
    }
    let rows = base().slice(0, 1..2).unwrap();
    let address = rows.data();
    let value = rows.into_value().unwrap();
    assert_eq!(value.data_ptr(), address.cast_const(), "the rows are contiguous");
    assert_eq!(value.try_extract_tensor::<i64>().unwrap().1, [4, 5, 6]);
}

#[test]
fn value_round_trip_returns_the_same_object() {
    if environment().is_none() {
        return;
    }
    let value =
        DynTensor::new(&Allocator::default(), TensorElementType::Float32, [2_usize, 3]).unwrap();
    let object = value.ptr();
    // SAFETY: the only value on its memory.
    let tensor = unsafe { value.into_tensor() }.unwrap();
    assert_eq!(tensor.access(), Access::Shared);
    let value = tensor.into_value().unwrap();
    assert_eq!(value.ptr(), object);
    // SAFETY: the only value on its memory.
    let tensor = unsafe { value.into_tensor() }.unwrap();
    let tensor = through_c(tensor);
    let value = tensor.into_value().unwrap();
    assert_eq!(value.ptr(), object);
    // An input is a value of its own over the same memory, so that its protection lasts as long as it does.
    // SAFETY: the only value on its memory.
    let tensor = unsafe { value.into_tensor() }.unwrap();
    let address = tensor.data().cast_const();
    // SAFETY: no model runs on the input.
    let input = unsafe { tensor.into_input() }.unwrap();
    let seen = input.as_value();
    assert_ne!(seen.ptr(), object);
    assert_eq!(seen.try_extract_tensor::<f32>().unwrap().1.as_ptr().cast(), address);
    // Values without elements, and of booleans, become inputs too.
    let nothing =
        DynTensor::new(&Allocator::default(), TensorElementType::Float32, [0_usize]).unwrap();
    // SAFETY: the only value on its memory.
    let nothing = unsafe { nothing.into_tensor() }.unwrap();
    // SAFETY: no model runs on the input.
    assert_eq!(**unsafe { nothing.into_input() }.unwrap().shape(), [0]);
    let booleans = ort::value::Tensor::from_array(([2_usize], vec![true, false])).unwrap();
    let address = booleans.data_ptr();
    // SAFETY: the only value on its memory.
    let tensor = unsafe { booleans.into_tensor() }.unwrap();
    assert_eq!(tensor.access(), Access::Immutable);
    // SAFETY: no model runs on the input.
    let input = unsafe { tensor.into_input() }.unwrap();
    let seen = input.as_value();
    let (_, elements) = seen.try_extract_tensor::<bool>().unwrap();
    assert_eq!((elements.as_ptr().cast(), elements), (address, &[true, false][..]));
    // A slice does not become the value again.
    let whole = || {
        let value = DynTensor::new(&Allocator::default(), TensorElementType::Float32, [2_usize, 3]);
        // SAFETY: the only value on its memory.
        unsafe { value.unwrap().into_tensor() }.unwrap()
    };
    let part = whole().slice(0, 1..2).unwrap();
    let address = part.data();
    // SAFETY: no model runs on the input.
    let input = unsafe { part.into_input() }.unwrap();
    assert_eq!(&**input.shape(), [1, 3]);
    let part = input.as_value();
    assert_eq!(part.try_extract_tensor::<f32>().unwrap().1.as_ptr().cast(), address.cast_const());
    assert_eq!(refusal(whole().slice(0, 0..1).unwrap().into_value().unwrap_err()), Refusal::Shared);
    assert_eq!(refusal(whole().transpose().into_value().unwrap_err()), Refusal::NotContiguous);
    let backwards = whole().flip(0).unwrap().into_value().unwrap_err();
    assert_eq!(refusal(backwards), Refusal::NotContiguous);
    // Another tensor over the same memory does not become the value either.
    let shared = whole().into_shared();
    assert_eq!(refusal(shared.share().into_value().unwrap_err()), Refusal::ReadOnly);
}

#[test]
fn invalid_bool_bytes_are_refused() {
    if environment().is_none() {
        return;
    }
    let bytes = |bytes: Vec<u8>| Tensor::from_bytes(bytes, DataType::BOOL, [2], 0).unwrap();
    let error = refusal(bytes(vec![0, 2]).into_value().unwrap_err());
    assert_eq!(error, Refusal::InvalidElement { dtype: DataType::BOOL });
    // SAFETY: no model runs on the input.
    assert!(unsafe { bytes(vec![0, 2]).into_read_only().into_input() }.is_err());
    let immutable = bytes(vec![0, 1]).try_into_immutable().unwrap();
    // SAFETY: no model runs on the input.
    assert!(unsafe { immutable.into_input() }.is_ok());
    // SAFETY: no model runs on the input.
    let read_only = unsafe { bytes(vec![0, 1]).into_read_only().into_input() };
    assert!(matches!(read_only, Err(Error::UnstableBool { access: Access::ReadOnly })));
    let value = bytes(vec![0, 1]).into_value_of::<bool>().unwrap();
    assert_eq!(value.extract_tensor().1, [false, true]);
    // SAFETY: the only value on its memory.
    let tensor = unsafe { value.into_tensor() }.unwrap();
    assert!(tensor.is_read_only(), "for consumers");
    assert_eq!(tensor.into_value_of::<bool>().unwrap().extract_tensor().1, [false, true]);
    let mut owner = vec![true, false];
    let parts = RawParts::new(owner.as_mut_ptr().cast(), DataType::BOOL);
    // SAFETY: two bytes, which nothing writes.
    let shared = || unsafe { Tensor::from_raw_parts((), parts, &[2], None::<&[i64]>) }.unwrap();
    // SAFETY: no model runs on the input.
    let input = unsafe { shared().into_input() };
    assert!(matches!(input, Err(Error::UnstableBool { access: Access::Shared })));
    let copy = shared().to_value().unwrap();
    assert_eq!(copy.try_extract_tensor::<bool>().unwrap().1, [true, false]);
}

#[test]
fn padded_elements_are_packed_by_a_copy() {
    if environment().is_none() {
        return;
    }
    let padded = || sample(DataType::INT4, 3).to_unpacked().unwrap();
    let error = padded().into_value().unwrap_err();
    assert!(matches!(error, Error::SubbytePadded { dtype: DataType::INT4 }), "{error}");
    assert!(error.to_string().contains("to_value"), "{error}");
    // SAFETY: the only value on its memory.
    let tensor = unsafe { padded().to_value().unwrap().into_tensor() }.unwrap();
    assert!(
        tensor.view_subbyte().unwrap().iter().eq([1, 0, 2]),
        "the low half of a byte is the first"
    );
}
