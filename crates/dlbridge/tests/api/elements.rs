//! Element types of other crates: the dtype, the bits, and the round trip.
#![cfg(any(feature = "half", feature = "num-complex"))]

use dlbridge::{DataType, Element, Tensor};

/// Passes values through a tensor and a C consumer and back.
fn there_and_back<T: Element + PartialEq + std::fmt::Debug>(values: &[T], dtype: &str) {
    let tensor = Tensor::from(values.to_vec());
    assert_eq!(tensor.dtype(), dtype.parse::<DataType>().unwrap());
    assert_eq!(tensor.nbytes(), size_of_val(values) as u128);
    // SAFETY: `into_raw` made the pointer here, and no other code has it.
    let tensor = unsafe { Tensor::from_raw(tensor.into_raw()) }.unwrap();
    assert_eq!(tensor.view::<T>().unwrap().as_slice(), Some(values));
    assert_eq!(tensor.to_copy().unwrap().view::<T>().unwrap().to_vec(), values);
    assert_eq!(tensor.try_into_owner::<Vec<T>>().unwrap(), values);
}

#[test]
#[cfg(feature = "half")]
fn half_precision_floats_round_trip() {
    use half::{bf16, f16};

    there_and_back(&[1.5, -2.0, 65504.0].map(f16::from_f32), "float16");
    there_and_back(&[1.5, -2.0, 3.0e38].map(bf16::from_f32), "bfloat16");
    // The two types share only their width.
    let error = Tensor::from(vec![f16::ONE]).view::<bf16>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected dtype bfloat16, found float16; request elements of dtype float16"
    );
    assert_eq!(Tensor::from(vec![f16::ONE]).view::<f16>().unwrap()[[0]].to_bits(), 0x3C00);
}

#[test]
#[cfg(feature = "num-complex")]
fn complex_numbers_round_trip() {
    use num_complex::Complex;

    there_and_back(&[Complex::new(1.0_f32, -1.0), Complex::new(0.0, 2.5)], "complex64");
    there_and_back(&[Complex::new(1.0_f64, -1.0)], "complex128");
    let tensor = Tensor::from(vec![Complex::new(1.0_f32, -1.0)]);
    // SAFETY: the tensor is alive, and its data is two floats, the real part first.
    let parts = unsafe { *tensor.data().cast::<[f32; 2]>() };
    assert_eq!(parts, [1.0, -1.0]);
}

#[test]
#[cfg(all(feature = "half", feature = "num-complex"))]
fn complex_numbers_of_half_precision_round_trip() {
    use half::f16;
    use num_complex::Complex;

    there_and_back(&[Complex::new(f16::ONE, f16::NEG_ONE)], "complex32");
}
