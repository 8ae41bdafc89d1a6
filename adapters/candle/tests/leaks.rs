//! Counts allocations, and checks that every path frees all of them once. An allocator counts what the test's thread
//! does. Miri detects leaks and double frees itself.

#![cfg(not(miri))]

use candle_core::{Device, Tensor};
use dlbridge::DataType;
use dlbridge_candle::{CandleExt, TensorExt};
use dlbridge_testing::{Counting, consume, large_allocations};

/// Large enough that only elements need such an allocation.
const ELEMENTS: usize = 4096;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns how often `f` allocates memory for elements. Asserts that `f` frees everything.
fn copies(f: impl FnOnce()) -> usize {
    large_allocations(ELEMENTS, f)
}

/// Two rows of elements whose bytes are all 1.
fn rows(dtype: DataType) -> dlbridge::Tensor {
    let bytes = vec![1; 2 * ELEMENTS * dtype.itemsize()];
    dlbridge::Tensor::from_bytes(bytes, dtype, [2, ELEMENTS], 0).unwrap()
}

#[test]
fn moved_vectors_are_not_copied() {
    let vector = || dlbridge::Tensor::from(vec![1_i64; ELEMENTS]);
    assert_eq!(copies(|| drop(vector())), 1);
    assert_eq!(copies(|| drop(vector().into_candle().unwrap())), 1);
    assert_eq!(copies(|| drop(vector().slice(0, 9..).unwrap().into_candle().unwrap())), 1);
    let there_and_back = || {
        let tensor = vector().into_candle().unwrap().into_tensor().unwrap();
        drop(tensor.into_candle().unwrap());
    };
    assert_eq!(copies(there_and_back), 1);
}

#[test]
fn copied_tensors_are_copied_once() {
    for dtype in [DataType::FLOAT32, DataType::FLOAT8_E4M3FN, DataType::FLOAT8_E8M0FNU] {
        assert_eq!(copies(|| drop(rows(dtype))), 1);
        assert_eq!(copies(|| drop(rows(dtype).into_candle().unwrap())), 2, "{dtype}");
        assert_eq!(copies(|| drop(rows(dtype).to_candle().unwrap())), 2, "{dtype}");
        assert_eq!(copies(|| drop(rows(dtype).transpose().into_candle().unwrap())), 2, "{dtype}");
    }
    let part = || {
        let values = vec![1_u8; 3 * ELEMENTS];
        let candle = Tensor::from_vec(values, 3 * ELEMENTS, &Device::Cpu).unwrap();
        let tensor = candle.into_tensor().unwrap().slice(0, ELEMENTS..).unwrap();
        drop(tensor.into_candle().unwrap());
    };
    assert_eq!(copies(part), 2);
    let misaligned = || {
        let bytes = vec![1; 4 * ELEMENTS + 4];
        let odd = 1 + (4 - bytes.as_ptr().addr() % 4) % 4;
        let tensor = dlbridge::Tensor::from_bytes(bytes, DataType::FLOAT32, [ELEMENTS - 1], odd);
        drop(tensor.unwrap().into_candle().unwrap());
    };
    assert_eq!(copies(misaligned), 2);
}

#[test]
fn consumers_and_refusals_free_everything() {
    copies(|| {
        let candle = Tensor::new(&[1_u8, 2, 3], &Device::Cpu).unwrap();
        consume(candle.into_tensor().unwrap());
    });
    copies(|| drop(rows(DataType::BOOL).into_candle().unwrap_err()));
    copies(|| {
        let bytes = [0; 4];
        let dtype = candle_core::DType::F4;
        let candle = Tensor::from_raw_buffer(&bytes, dtype, &[4], &Device::Cpu).unwrap();
        drop(candle.into_tensor().unwrap_err());
    });
}
