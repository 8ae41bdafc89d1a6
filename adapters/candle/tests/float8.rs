//! Candle's 8-bit floats are e4m3fn, value by value, and its powers of two are e8m0fnu.
//!
//! `DLBRIDGE_PYTHON` names a Python with PyTorch to compare with. Without it that comparison is skipped, or fails if
//! `DLBRIDGE_REQUIRE` is set.

use std::env;
use std::process::Command;

use candle_core::{DType, Device};
use dlbridge::{DataType, Tensor, TensorRef};
use dlbridge_candle::{CandleExt, TensorExt};
use dlbridge_testing::required;

/// A power of two, exact as `f32`.
fn power(exponent: i32) -> f32 {
    f32::from_bits(((127 + exponent) as u32) << 23)
}

/// A byte as e4m3fn: a sign, four bits of exponent with a bias of 7, three of mantissa. It lacks infinities, and
/// the only NaN has all bits of both.
fn e4m3fn(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 0xf), f32::from(byte & 7));
    let magnitude = match exponent {
        0xf if mantissa == 7.0 => f32::NAN,
        0 => mantissa / 8.0 * power(-6),
        _ => (1.0 + mantissa / 8.0) * power(exponent - 7),
    };
    if byte >> 7 == 1 { -magnitude } else { magnitude }
}

/// Compares numbers, with the sign of zero; two NaNs are the same.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn all_bytes() -> Vec<u8> {
    (0..=255).collect()
}

/// Candle's values of every byte as `float8_e4m3fn`.
fn values_of_candle() -> Vec<f32> {
    let tensor = Tensor::from_bytes(all_bytes(), DataType::FLOAT8_E4M3FN, [256], 0).unwrap();
    let candle = tensor.into_candle().unwrap();
    assert_eq!(candle.dtype(), DType::F8E4M3);
    candle.to_dtype(DType::F32).unwrap().to_vec1().unwrap()
}

#[test]
fn every_byte_has_the_value_of_e4m3fn() {
    for (byte, value) in (0..=255).zip(values_of_candle()) {
        assert!(same(value, e4m3fn(byte)), "{byte:#04x} is {value}, not {}", e4m3fn(byte));
    }
    assert_eq!(e4m3fn(0x7e), 448.0);
    assert_eq!(e4m3fn(0x78), 256.0, "an infinity in float8_e4m3");
    assert_eq!(e4m3fn(0x01), power(-9));
}

#[test]
fn every_value_is_exported_as_the_byte_of_e4m3fn() {
    let values: Vec<f32> = (0..=255).map(e4m3fn).collect();
    let candle = candle_core::Tensor::new(&*values, &Device::Cpu).unwrap();
    let tensor = candle.to_dtype(DType::F8E4M3).unwrap().into_tensor().unwrap();
    assert_eq!(tensor.dtype(), DataType::FLOAT8_E4M3FN);
    assert_eq!(tensor.dtype().code().code(), 10);
    let bytes = TensorRef::from(&tensor).as_bytes().unwrap();
    for (byte, &found) in (0..=255).zip(bytes) {
        let none = e4m3fn(byte).is_nan() && e4m3fn(found).is_nan();
        assert!(found == byte || none, "{byte:#04x} became {found:#04x}");
    }
}

/// A byte as e8m0fnu: eight bits of exponent with a bias of 127, as those of `f32`, without sign and mantissa.
fn e8m0fnu(byte: u8) -> f32 {
    match byte {
        0 => power(-126) / 2.0,
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(byte) << 23),
    }
}

/// Imports every byte into candle as `float8_e8m0fnu` and exports it; candle does not compute with it.
fn powers_of_candle() -> Vec<f32> {
    let tensor = Tensor::from_bytes(all_bytes(), DataType::FLOAT8_E8M0FNU, [256], 0).unwrap();
    let candle = tensor.into_candle().unwrap();
    assert_eq!(candle.dtype(), DType::F8E8M0);
    let tensor = candle.into_tensor().unwrap();
    assert_eq!(tensor.dtype(), DataType::FLOAT8_E8M0FNU);
    let bytes = TensorRef::from(&tensor).as_bytes().unwrap();
    bytes.iter().map(|&byte| e8m0fnu(byte)).collect()
}

/// PyTorch's values of every byte, from the Python that `DLBRIDGE_PYTHON` names. Returns `None` and prints the reason
/// if that Python is missing or its torch lacks the dtype; panics then if `DLBRIDGE_REQUIRE` is set.
fn values_of_torch(dtype: &str) -> Option<Vec<f32>> {
    let python =
        env::var_os("DLBRIDGE_PYTHON").ok_or("DLBRIDGE_PYTHON does not name a Python with torch");
    let python = required("PyTorch", python)?;
    let script = "import sys, torch; d = getattr(torch, sys.argv[1], None); \
         b = torch.arange(256, dtype=torch.uint8); \
         print('none') if d is None else print(*b.view(d).float().view(torch.int32).tolist())";
    let output = Command::new(python).args(["-c", script, dtype]).output().expect("a Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bits = String::from_utf8(output.stdout).unwrap();
    let bits = match bits.trim() {
        "none" => Err("this torch lacks it"),
        bits => Ok(bits),
    };
    let bits = required(&format!("{dtype} of PyTorch"), bits)?;
    let values: Vec<f32> = bits
        .split_whitespace()
        .map(|bits| f32::from_bits(bits.parse::<i32>().unwrap() as u32))
        .collect();
    assert_eq!(values.len(), 256);
    Some(values)
}

fn assert_torch_has(dtype: &str, values: Vec<f32>) {
    let torch = values_of_torch(dtype).into_iter().flatten();
    for (byte, (torch, candle)) in torch.zip(values).enumerate() {
        assert!(same(torch, candle), "{byte:#04x} is {torch} in torch, {candle} in candle");
    }
}

#[test]
fn torch_has_the_same_values() {
    assert_torch_has("float8_e4m3fn", values_of_candle());
}

#[test]
fn torch_has_the_same_powers() {
    assert_torch_has("float8_e8m0fnu", powers_of_candle());
}
