//! Tensors of candle become tensors: the same memory, the same values, and a lock.

mod common;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use candle_core::op::BackpropOp;
use candle_core::{CpuStorage, DType, Device, IndexOp, InplaceOp1, Layout, Storage, Tensor};
use common::address;
use dlbridge::{Access, DataType, Element};
use dlbridge_candle::{CandleExt, Error, TensorExt};
use dlbridge_testing::{consume, through_c};
use half::{bf16, f16};

fn counted() -> Tensor {
    Tensor::arange(0_f32, 24.0, &Device::Cpu).unwrap().reshape((2, 3, 4)).unwrap()
}

/// Exports and imports the tensor; returns its values, read in place.
fn out_and_back<T: Element>(candle: &Tensor) -> Vec<T> {
    let tensor = candle.clone().into_tensor().unwrap();
    assert_eq!(tensor.shape(), candle.dims().iter().map(|&n| n as i64).collect::<Vec<_>>());
    assert_eq!((tensor.dtype(), tensor.access()), (T::DATA_TYPE, Access::Immutable));
    assert_eq!(tensor.data().addr(), address(candle), "not a copy");
    let values = tensor.view::<T>().unwrap().to_vec();
    let tensor = through_c(tensor);
    let back = tensor.into_candle().unwrap();
    assert_eq!(back.id(), candle.id(), "the same tensor of candle");
    back.zero_set().unwrap();
    values
}

#[test]
fn every_dtype_with_a_rust_type_is_exported_in_place() {
    fn one<T: Element + candle_core::WithDType + std::fmt::Debug>(values: [T; 4], dtype: DataType) {
        let candle = Tensor::from_slice(&values, (2, 2), &Device::Cpu).unwrap();
        assert_eq!(<T as Element>::DATA_TYPE, dtype);
        assert_eq!(out_and_back::<T>(&candle), values);
    }
    one([1_u8, 2, 3, 255], DataType::UINT8);
    one([1_u32, 2, 3, u32::MAX], DataType::UINT32);
    one([1_i16, -2, 3, i16::MIN], DataType::INT16);
    one([1_i32, -2, 3, i32::MIN], DataType::INT32);
    one([1_i64, -2, 3, i64::MIN], DataType::INT64);
    one([1.0, -2.0, 3.5, 65504.0].map(f16::from_f32), DataType::FLOAT16);
    one([1.0, -2.0, 3.5, 1e38].map(bf16::from_f32), DataType::BFLOAT16);
    one([1.0_f32, -2.0, 3.5, f32::MAX], DataType::FLOAT32);
    one([1.0_f64, -2.0, 3.5, f64::MAX], DataType::FLOAT64);
}

#[test]
fn floats_of_eight_bits_are_exported_in_place() {
    let bytes = [0x00, 0x38, 0x7e, 0xff];
    for (dtype, name) in
        [(DType::F8E4M3, DataType::FLOAT8_E4M3FN), (DType::F8E8M0, DataType::FLOAT8_E8M0FNU)]
    {
        let candle = Tensor::from_raw_buffer(&bytes, dtype, &[2, 2], &Device::Cpu).unwrap();
        let tensor = candle.clone().into_tensor().unwrap();
        assert_eq!((tensor.dtype(), tensor.data().addr()), (name, address(&candle)));
        assert_eq!(dlbridge::TensorRef::from(&tensor).as_bytes().unwrap(), bytes);
        assert_eq!(tensor.into_candle().unwrap().id(), candle.id());
    }
}

#[test]
fn bytes_that_candle_does_not_describe_are_refused_by_name() {
    for dtype in [DType::F4, DType::F6E2M3, DType::F6E3M2] {
        let candle = Tensor::from_raw_buffer(&[0; 4], dtype, &[4], &Device::Cpu).unwrap();
        let error = candle.clone().into_tensor().unwrap_err();
        assert!(matches!(error, Error::DType { dtype: refused } if refused == dtype));
        assert!(error.to_string().contains(dtype.as_str()), "{error}");
        // SAFETY: the tensor is refused, so no code can write it.
        let error = unsafe { candle.into_tensor_unlocked() }.unwrap_err();
        assert!(matches!(error, Error::DType { .. }));
    }
}

#[test]
fn any_strides_of_candle() {
    let candle = counted();
    let same = |view: &Tensor, strides: &[i64]| {
        let tensor = view.clone().into_tensor().unwrap();
        assert_eq!((tensor.strides(), tensor.data().addr()), (strides, address(view)));
        let expected = view.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(tensor.view::<f32>().unwrap().to_vec(), expected);
        assert_eq!(tensor.into_candle().unwrap().id(), view.id());
    };
    same(&candle, &[12, 4, 1]);
    same(&candle.t().unwrap(), &[12, 1, 4]);
    same(&candle.permute((2, 0, 1)).unwrap(), &[1, 12, 4]);
    same(&candle.narrow(1, 1, 2).unwrap(), &[12, 4, 1]);
    same(&candle.i((1, .., 2)).unwrap(), &[4]);
    same(&candle.i((1, 2, 3)).unwrap(), &[]);
    same(&candle.broadcast_as((5, 2, 3, 4)).unwrap(), &[0, 12, 4, 1]);
}

#[test]
fn tensors_without_dimensions_or_elements() {
    let scalar = Tensor::new(7_i64, &Device::Cpu).unwrap();
    assert_eq!(out_and_back::<i64>(&scalar), [7]);
    for shape in [&[0][..], &[0, 3], &[3, 0], &[2, 0, 4]] {
        let empty = Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
        let tensor = empty.clone().into_tensor().unwrap();
        assert!(tensor.data().is_null() && tensor.is_empty());
        assert_eq!(tensor.into_candle().unwrap().id(), empty.id());
    }
}

#[test]
fn shape_larger_than_the_storage_is_refused() {
    let storage = Storage::Cpu(CpuStorage::F32(vec![0.0; 5]));
    let wrong = Tensor::from_storage(storage, (2, 3), BackpropOp::none(), false);
    let expected = dlbridge::Error::OutOfBounds { lowest: 0, highest: 5, owner: 5 };
    let error = wrong.clone().into_tensor().unwrap_err();
    assert!(matches!(error, Error::Tensor(error) if error == expected));
    wrong.inplace_op1(&Replace(vec![1.0; 6])).unwrap();
    assert_eq!(out_and_back::<f32>(&wrong), [1.0; 6]);
}

#[test]
fn too_many_dimensions_are_refused() {
    let candle = Tensor::ones(vec![1; dlbridge::MAX_NDIM + 1], DType::U8, &Device::Cpu).unwrap();
    let error = candle.clone().into_tensor().unwrap_err();
    assert!(matches!(error, Error::Tensor(dlbridge::Error::InvalidNdim { .. })));
    candle.zero_set().unwrap();
}

/// Replaces the storage, which candle's safe API allows.
struct Replace(Vec<f32>);

impl InplaceOp1 for Replace {
    fn name(&self) -> &'static str {
        "replace"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        *storage = CpuStorage::F32(self.0.clone());
        Ok(())
    }
}

#[test]
fn writers_wait_and_readers_do_not() {
    let candle = counted();
    let tensor = candle.clone().into_tensor().unwrap();
    let part = tensor.index_axis(0, 1).unwrap();
    let (started, start) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    let writer = candle.clone();
    let writer = thread::spawn(move || {
        started.send(()).unwrap();
        writer.inplace_op1(&Replace(vec![-1.0; 24])).unwrap();
        done.send(()).unwrap();
    });
    start.recv().unwrap();
    assert!(is_done.recv_timeout(Duration::from_millis(200)).is_err(), "the tensor holds the lock");
    assert_eq!(part.view::<f32>().unwrap()[[0, 0]], 12.0);
    assert_eq!(candle.sum_all().unwrap().to_scalar::<f32>().unwrap(), 276.0);
    // The lock can be released on any thread.
    thread::spawn(move || drop(part)).join().unwrap();
    is_done.recv_timeout(Duration::from_secs(60)).expect("the lock is released");
    writer.join().unwrap();
    assert_eq!(candle.sum_all().unwrap().to_scalar::<f32>().unwrap(), -24.0);
}

#[test]
fn new_lock_waits_behind_a_writer() {
    const SOON: Duration = Duration::from_millis(200);
    const LATE: Duration = Duration::from_secs(60);
    let candle = counted();
    let tensor = candle.clone().into_tensor().unwrap();
    let (done, is_done) = mpsc::channel();
    let start = |what: fn(Tensor) -> Tensor| {
        let (candle, done) = (candle.clone(), done.clone());
        thread::spawn(move || done.send(what(candle)));
    };
    let out: fn(Tensor) -> Tensor = |candle| candle.into_tensor().unwrap().into_candle().unwrap();
    let unlocked: fn(Tensor) -> Tensor = |candle| {
        // SAFETY: dropped at once, and nothing replaces the storage.
        let tensor = unsafe { candle.clone().into_tensor_unlocked() }.unwrap();
        drop(tensor);
        candle
    };
    let set: fn(Tensor) -> Tensor = |candle| {
        let var = candle_core::Var::zeros((2, 3, 4), DType::F32, &Device::Cpu).unwrap();
        var.set(&candle).unwrap();
        candle
    };
    for what in [out, unlocked, set] {
        start(what);
        is_done.recv_timeout(LATE).expect("no writer waits, so a second reader does not");
    }
    start(|candle| {
        candle.zero_set().unwrap();
        candle
    });
    assert!(is_done.recv_timeout(SOON).is_err(), "the tensor holds the lock");
    start(|candle| candle.sum_all().unwrap());
    let sum = is_done.recv_timeout(LATE).expect("operations continue");
    assert_eq!(sum.to_scalar::<f32>().unwrap(), 276.0);
    for what in [out, unlocked, set] {
        start(what);
        assert!(is_done.recv_timeout(SOON).is_err(), "the call waits behind the writer");
    }
    drop(tensor);
    for _ in 0..4 {
        let candle = is_done.recv_timeout(LATE).expect("all waiting calls continue");
        assert_eq!(candle.sum_all().unwrap().to_scalar::<f32>().unwrap(), 0.0);
    }
}

#[test]
fn a_consumer_releases_the_lock() {
    let candle = counted();
    consume(candle.clone().into_tensor().unwrap());
    candle.zero_set().unwrap();
    assert_eq!(candle.sum_all().unwrap().to_scalar::<f32>().unwrap(), 0.0);
}

#[test]
fn refusals_release_the_lock() {
    let candle = Tensor::from_raw_buffer(&[0; 4], DType::F4, &[4], &Device::Cpu).unwrap();
    candle.clone().into_tensor().unwrap_err();
    struct DoNothing;
    impl InplaceOp1 for DoNothing {
        fn name(&self) -> &'static str {
            "nothing"
        }
        fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
            Ok(())
        }
    }
    candle.inplace_op1(&DoNothing).unwrap();
}

#[test]
fn unlocked_tensors_see_what_candle_writes() {
    let candle = counted();
    // SAFETY: nothing is written while a view is alive, and nothing replaced.
    let tensor = unsafe { candle.clone().into_tensor_unlocked() }.unwrap();
    assert_eq!((tensor.access(), tensor.data().addr()), (Access::ReadOnly, address(&candle)));
    candle.zero_set().unwrap();
    assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [0.0; 24]);
    assert_eq!(tensor.into_candle().unwrap().id(), candle.id());
    // SAFETY: nothing is written while a view is alive, and nothing replaced.
    let tensor = unsafe { candle.clone().into_tensor_unlocked() }.unwrap();
    assert_eq!(tensor.try_into_owner::<Tensor>().unwrap().id(), candle.id());
}
