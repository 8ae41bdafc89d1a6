//! Elements at any address, and in either byte order.

use crate::common::Producer;
use dlbridge::{DataType, Element, Error, Tensor, TensorRef, TensorSlice, Unaligned};

/// Imports numbers that begin `skip` bytes after an aligned address, and end with their buffer.
fn lent<T: Element>(values: &[T], skip: usize, shape: &[i64]) -> Tensor {
    let size = size_of_val(values);
    let mut memory = vec![0_u128; (size + skip).div_ceil(16)];
    // SAFETY: the elements are free of padding, and `memory` is large enough.
    unsafe {
        let to = memory.as_mut_ptr().cast::<u8>().add(skip);
        values.as_ptr().cast::<u8>().copy_to_nonoverlapping(to, size);
    }
    let mut producer = Producer::new(memory, shape);
    producer.tensor.dtype = T::DATA_TYPE.into();
    producer.byte_offset(skip as u64).flags(2).import().unwrap()
}

#[test]
fn misaligned_elements_are_read_as_unaligned() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(values: [T; 6]) {
        for skip in 0..align_of::<T>() + 1 {
            let mut tensor = lent(&values, skip, &[2, 3]);
            let view = tensor.view::<T>().map(|view| view.to_vec());
            if skip % align_of::<T>() == 0 {
                assert_eq!(view.unwrap(), values);
            } else {
                let (address, required) = (tensor.data().addr(), align_of::<T>());
                let error = Error::Misaligned { address, required };
                assert_eq!(view.unwrap_err(), error);
                assert_eq!(tensor.view_mut::<T>().unwrap_err(), error);
                let copy = tensor.to_copy().unwrap();
                assert_eq!(copy.view::<T>().unwrap().as_slice(), Some(&values[..]));
            }
            let view = tensor.view::<Unaligned<T>>().unwrap();
            assert!(view.iter().map(|element| element.get()).eq(values));
            let turned = view.transpose().flip(0).unwrap().to_vec();
            let order = [2, 5, 1, 4, 0, 3];
            assert!(turned.into_iter().map(Unaligned::get).eq(order.map(|at| values[at])));
            let slice = view.as_slice().unwrap();
            assert_eq!((slice[5].get(), slice[5]), (values[5], Unaligned::from(values[5])));
            let mut view = tensor.view_mut::<Unaligned<T>>().unwrap();
            view[[1, 1]] = values[0].into();
            assert_eq!(view[[1, 1]].get(), values[0]);
            let slice = TensorSlice::<Unaligned<T>>::try_from(tensor).unwrap();
            assert_eq!(format!("{:?}", slice[3]), format!("Unaligned({:?})", values[3]));
        }
    }
    check([1_u8, 2, 3, 4, 5, 6]);
    check([-1_i16, 2, 3, 4, 5, 6]);
    check([0.5_f32, 1.5, 2.5, 3.5, 4.5, 5.5]);
    check([0.5_f64, 1.5, 2.5, 3.5, 4.5, 5.5]);
    check([u128::MAX, 1, 2, 3, 4, 5]);
    #[cfg(feature = "num-complex")]
    check([1, 2, 3, 4, 5, 6].map(|i| num_complex::Complex::new(i as f32, -1.0)));
}

#[test]
fn unaligned_element_has_the_dtype_and_alignment_one() {
    fn check<T: Element>() {
        assert_eq!((size_of::<Unaligned<T>>(), align_of::<Unaligned<T>>()), (size_of::<T>(), 1));
        assert_eq!(<Unaligned<T> as Element>::DATA_TYPE, T::DATA_TYPE);
        assert_eq!(<Unaligned<T> as Element>::CHECK.is_some(), T::CHECK.is_some());
    }
    check::<f32>();
    check::<u128>();
    check::<bool>();
    check::<Unaligned<f64>>();
    let owner = vec![Unaligned::from(1.5_f32); 3];
    let tensor = Tensor::from(owner.clone());
    assert_eq!(tensor.dtype(), DataType::FLOAT32);
    assert_eq!(tensor.try_into_owner::<Vec<Unaligned<f32>>>().unwrap(), owner);
}

#[test]
fn unaligned_booleans_are_checked() {
    let tensor =
        Producer::new(vec![1_u8, 0, 2], &[3]).with(|p| p.tensor.dtype = DataType::BOOL.into());
    let tensor = tensor.import().unwrap();
    let error = Error::InvalidElement { dtype: DataType::BOOL };
    assert_eq!(tensor.view::<Unaligned<bool>>().unwrap_err(), error);
    let part = TensorRef::from(&tensor).slice(0, ..2).unwrap();
    assert_eq!(part.view::<Unaligned<bool>>().unwrap()[[0]], Unaligned::from(true));
}

/// Four lanes as one element.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(16))]
struct Quad([u32; 4]);

// SAFETY: the type is four numbers without padding, and every bit pattern is a valid value.
unsafe impl Element for Quad {
    const DATA_TYPE: DataType = DataType::UINT32.with_lanes(4);
}

#[test]
fn numbers_of_the_other_byte_order_are_swapped_on_access() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(values: &[T], swapped: &[T]) {
        let tensor = lent(swapped, 1, &[swapped.len() as i64]);
        let view = tensor.view::<Unaligned<T>>().unwrap();
        let read: Vec<T> = view.iter().map(|element| element.get_byte_swapped()).collect();
        assert_eq!(read, values);
        let copy = TensorRef::from(&tensor).to_byte_swapped().unwrap();
        assert_eq!(copy.view::<T>().unwrap().to_vec(), values);
    }
    check(&[1_u8, 2], &[1, 2]);
    check(&[0x0102_i16, -2], &[0x0201, (-2_i16).swap_bytes()]);
    check(&[1.5_f32], &[f32::from_bits(1.5_f32.to_bits().swap_bytes())]);
    check(&[-2.5_f64], &[f64::from_bits((-2.5_f64).to_bits().swap_bytes())]);
    check(&[1_u128 << 9], &[(1_u128 << 9).swap_bytes()]);
    let lanes = [1, 2, 0x0102_0304, u32::MAX - 1];
    check(&[Quad(lanes)], &[Quad(lanes.map(u32::swap_bytes))]);
    #[cfg(feature = "num-complex")]
    {
        use num_complex::Complex;
        let swap = |number: f32| f32::from_bits(number.to_bits().swap_bytes());
        check(&[Complex::new(1.5, 0.25)], &[Complex::new(swap(1.5), swap(0.25))]);
    }
    // Numbers of a big-endian file read the same on every machine.
    let file = [0x3F_u8, 0xC0, 0, 0];
    let number = Unaligned::from(f32::from_ne_bytes(file));
    let native =
        if cfg!(target_endian = "little") { number.get_byte_swapped() } else { number.get() };
    assert_eq!(native, 1.5);
}
