//! Elements at any address and in either byte order.

mod common;

use common::Producer;
use dlbridge::{DataType, Element, Error, Tensor, TensorRef, Unaligned};

/// Numbers lent from an odd address on.
fn misaligned<T: Element>(numbers: &[T]) -> (Tensor, usize) {
    let bytes = TensorRef::from(numbers).as_bytes().unwrap();
    let mut memory = vec![0_u8; bytes.len() + 16];
    let odd = usize::from(memory.as_ptr().addr().is_multiple_of(2));
    memory[odd..odd + bytes.len()].copy_from_slice(bytes);
    let producer = Producer::new(memory, &[numbers.len() as i64]);
    let tensor = producer.with(|p| p.tensor.dtype = T::DTYPE.into()).byte_offset(odd as u64);
    let tensor = tensor.import().unwrap();
    let address = tensor.data().addr();
    (tensor, address)
}

#[test]
fn what_is_misaligned_is_refused_as_it_is_and_read_as_unaligned() {
    let (tensor, address) = misaligned(&[1.5_f32, -2.0, 3.25]);
    let refused = Error::Misaligned { address, required: 4 };
    assert_eq!(tensor.view::<f32>().unwrap_err(), refused);
    let view = tensor.view::<Unaligned<f32>>().unwrap();
    assert!(view.iter().map(|x| x.get()).eq([1.5, -2.0, 3.25]));
    assert_eq!(view.flip(0).unwrap()[[0]].get(), 3.25);
    assert_eq!(
        tensor.view::<Unaligned<i32>>().unwrap_err(),
        Error::DataType { expected: DataType::INT32, found: DataType::FLOAT32 }
    );
    let copy = tensor.to_copy().unwrap();
    assert_eq!(copy.view::<f32>().unwrap().to_vec(), [1.5, -2.0, 3.25]);
    let (_, reason) = tensor.into_aligned(4).unwrap();
    assert_eq!(reason, Some(dlbridge::CopyReason::Misaligned { address, required: 4 }));
}

#[test]
fn aligned_elements_are_read_and_written_as_unaligned_too() {
    let mut tensor = Tensor::from(vec![1_u64, 2]);
    tensor.view_mut::<Unaligned<u64>>().unwrap()[[0]] = Unaligned::from(5);
    assert_eq!(tensor.try_into_owner::<Vec<u64>>().unwrap(), [5, 2]);
}

#[test]
fn unaligned_elements_own_too() {
    let tensor = Tensor::from(vec![[Unaligned::from(1_i32), Unaligned::from(2)]]);
    assert_eq!((tensor.dtype(), tensor.shape()), (DataType::INT32, &[1, 2][..]));
    assert_eq!(format!("{:?}", tensor.view::<Unaligned<i32>>().unwrap()[[0, 1]]), "Unaligned(2)");
    assert_eq!(Unaligned::from(1.0_f64), Unaligned::from(1.0));
}

#[test]
fn numbers_of_the_other_byte_order_are_read() {
    let swapped = |tensor: &Tensor| -> Vec<i64> {
        let view = tensor.view::<Unaligned<i64>>().unwrap();
        view.iter().map(|x| x.get_byte_swapped()).collect()
    };
    let (tensor, _) = misaligned(&[1_i64.swap_bytes(), (-2_i64).swap_bytes()]);
    assert_eq!(swapped(&tensor), [1, -2]);
    assert_eq!(Unaligned::from(7_u8).get_byte_swapped(), 7);
    let float = f32::from_bits(1.5_f32.to_bits().swap_bytes());
    assert_eq!(Unaligned::from(float).get_byte_swapped(), 1.5);
}

#[test]
#[cfg(feature = "num-complex")]
fn the_halves_of_a_complex_number_stay_where_they_are() {
    use num_complex::Complex;

    let swap = |x: f32| f32::from_bits(x.to_bits().swap_bytes());
    let number = Unaligned::from(Complex::new(swap(1.0), swap(2.0)));
    assert_eq!(number.get_byte_swapped(), Complex::new(1.0, 2.0));
}

#[test]
fn booleans_are_checked_at_any_address() {
    let tensor = Producer::new(vec![0_u8, 1, 2], &[3]);
    let tensor = tensor.with(|p| p.tensor.dtype = DataType::BOOL.into()).import().unwrap();
    let refused = tensor.view::<Unaligned<bool>>().unwrap_err();
    assert_eq!(refused, Error::InvalidElement { dtype: DataType::BOOL });
    let view = tensor.slice(0, ..2).unwrap();
    assert!(view.view::<Unaligned<bool>>().unwrap().iter().map(|x| x.get()).eq([false, true]));
}
