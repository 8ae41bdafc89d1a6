//! Foreign tensors become tensors of tract by a copy.

use std::sync::Arc;

use dlbridge::{Access, DataType, Tensor};
use dlbridge_testing::{foreign, out_of_reach};
use dlbridge_tract::{Error, TensorExt};
use half::bf16;
use tract_data::prelude::{Tensor as Tract, tensor1, tensor2};

fn address(tract: &Tract) -> usize {
    tract.as_bytes().as_ptr().addr()
}

#[test]
fn tensor_of_any_access_is_copied() {
    for access in [Access::Exclusive, Access::Shared, Access::Immutable] {
        let (tensor, drops) = foreign(&[1.0_f32, 2.0, 3.0], &[3], access);
        let first = tensor.data().addr();
        let copy = tensor.to_tract().unwrap();
        assert_eq!((&copy, drops.count()), (&tensor1(&[1.0_f32, 2.0, 3.0]), 0));
        assert_ne!(address(&copy), first);
        let tract: Arc<Tract> = tensor.into_tract().unwrap();
        assert_eq!((&*tract, drops.count()), (&copy, 1));
    }
}

#[test]
fn any_strides_are_copied() {
    let matrix = || Tensor::from([[1, 2, 3], [4, 5, 6]]);
    let copied = |tensor: Tensor| tensor.to_tract().unwrap();
    assert_eq!(copied(matrix().transpose()), tensor2(&[[1, 4], [2, 5], [3, 6]]));
    assert_eq!(copied(matrix().slice(1, 1..).unwrap()), tensor2(&[[2, 3], [5, 6]]));
    assert_eq!(copied(matrix().flip(0).unwrap()), tensor2(&[[4, 5, 6], [1, 2, 3]]));
    let repeated = Tensor::from_parts_strided(vec![1, 2], [2, 2], [0, 1], 0).unwrap();
    assert_eq!(copied(repeated), tensor2(&[[1, 2], [1, 2]]));
    let truth = Tensor::from(vec![true, false, false]).flip(0).unwrap();
    assert_eq!(copied(truth), tensor1(&[false, false, true]));
}

#[test]
fn misaligned_elements_are_copied() {
    let elements = [1.0_f32, 2.0, 3.0];
    let mut bytes = vec![0; 20];
    let offset = bytes.as_ptr().align_offset(4) + 1;
    for (place, element) in bytes[offset..].chunks_exact_mut(4).zip(elements) {
        place.copy_from_slice(&element.to_ne_bytes());
    }
    let tensor = Tensor::from_bytes(bytes, DataType::FLOAT32, [3], offset).unwrap();
    assert_eq!(tensor.data().addr() % 4, 1);
    assert_eq!(tensor.to_tract().unwrap(), tensor1(&elements));
}

#[test]
fn dtypes_that_tract_lacks_are_refused() {
    let refused = |tensor: Tensor| {
        let error = Error::DataType { dtype: tensor.dtype() };
        assert_eq!(tensor.to_tract().unwrap_err(), error);
        assert_eq!(tensor.into_tract().unwrap_err(), error);
    };
    refused(Tensor::from(vec![bf16::ONE]));
    refused(Tensor::from(vec![1_i128]));
    refused(Tensor::from(vec![1_u128]));
    for dtype in [
        DataType::FLOAT8_E4M3FN,
        DataType::UINT4,
        DataType::FLOAT32.with_lanes(2),
        #[cfg(not(feature = "complex"))]
        DataType::COMPLEX64,
    ] {
        refused(Tensor::zeroed(dtype, [2]).unwrap());
    }
}

#[test]
fn refusals_drop_the_tensor_once() {
    let (tensor, drops) = foreign(&[bf16::ONE], &[1], Access::Exclusive);
    let error = Error::DataType { dtype: DataType::BFLOAT16 };
    assert_eq!((tensor.into_tract().unwrap_err(), drops.count()), (error, 1));

    let not_bool = Tensor::from_bytes(vec![2_u8], DataType::BOOL, [1], 0).unwrap();
    let error = dlbridge::Error::InvalidElement { dtype: DataType::BOOL };
    assert_eq!(not_bool.into_tract().unwrap_err(), Error::Tensor(error));

    let many = Tensor::from_parts_strided(vec![1_u64], [1 << 61], [0], 0).unwrap();
    assert_eq!(many.into_tract().unwrap_err(), Error::Tensor(dlbridge::Error::TooLarge));
}

#[test]
fn other_devices_are_refused() {
    let tensor = out_of_reach((), DataType::UINT8);
    let device = tensor.device();
    let error = Error::Tensor(dlbridge::Error::NotHostAccessible { device });
    assert_eq!(tensor.to_tract().unwrap_err(), error);
    assert_eq!(tensor.into_tract().unwrap_err(), error);
}
