//! Compares typed views with a naive model, through every way to read and write an element.

use crate::common::{Counted, Nibble, Producer, indices, positions};
use dlbridge::{Access, DataType, Element, Error, Tensor, TensorSlice, TensorSliceMut};

/// A layout within 24 elements: shape, strides, and the position of the element at index zero.
type Layout = (&'static [usize], &'static [isize], usize);

const LAYOUTS: &[Layout] = &[
    (&[], &[], 7),
    (&[24], &[1], 0),
    (&[2, 3, 4], &[12, 4, 1], 0),
    (&[2, 3, 4], &[1, 2, 6], 0),
    (&[2, 3, 4], &[-12, 4, -1], 15),
    (&[4, 3, 2], &[1, 4, 12], 0),
    (&[3, 4], &[8, 2], 0),
    (&[3, 4], &[-8, -2], 23),
    (&[12], &[-2], 23),
    (&[5, 3], &[0, 1], 2),
    (&[3, 5], &[1, 0], 2),
    (&[2, 2, 2], &[0, 0, 0], 23),
    (&[4, 4], &[1, 1], 0),
    (&[1, 24], &[-9, 1], 0),
    (&[6, 1, 4], &[4, 99, 1], 0),
    (&[6, 4, 1], &[4, 1, -3], 0),
    (&[1, 1, 1], &[7, 8, 9], 23),
    (&[4, 2, 3], &[6, 3, 1], 0),
    (&[2, 2, 3], &[12, 3, 1], 6),
    (&[2, 0, 3], &[5, 5, 5], 0),
    (&[0], &[-1], 0),
    (&[3, 0], &[0, 0], 24),
];

fn values() -> Vec<u16> {
    (0..24).collect()
}

fn make((shape, strides, offset): Layout) -> Tensor {
    Tensor::from_parts_strided(values(), shape, strides, offset).unwrap()
}

/// Returns the elements of a layout, sorted by index.
fn model((shape, strides, offset): Layout) -> Vec<u16> {
    positions(shape, strides, offset).into_iter().map(|position| position as u16).collect()
}

/// Returns true if the elements are contiguous.
fn adjacent(elements: &[u16]) -> bool {
    elements.windows(2).all(|pair| pair[0] + 1 == pair[1])
}

#[test]
fn every_way_to_read_agrees_with_the_model() {
    for &layout in LAYOUTS {
        let (tensor, expected) = (make(layout), model(layout));
        let view = tensor.view::<u16>().unwrap();
        let name = format!("{layout:?}");
        assert_eq!((view.len(), view.is_empty()), (expected.len(), expected.is_empty()), "{name}");
        assert_eq!((tensor.len(), view.ndim()), (expected.len(), layout.0.len()), "{name}");
        assert_eq!(view.to_vec(), expected, "{name}");
        assert_eq!(view.iter().len(), expected.len(), "{name}");
        assert!(view.iter().eq(&expected), "{name}");
        let mut indices = indices(layout.0);
        let by_index = |indices: &[Vec<usize>]| -> Vec<u16> {
            indices.iter().map(|index| *view.get(index).unwrap()).collect()
        };
        assert_eq!(by_index(&indices), expected, "{name}");
        let slice = adjacent(&expected).then_some(&expected[..]);
        assert_eq!(view.as_slice(), slice, "{name}");
        assert_eq!(
            (tensor.is_c_contiguous(), <&[u16]>::try_from(view.clone()).ok()),
            (slice.is_some(), slice)
        );
        if let Some(first) = expected.first() {
            // SAFETY: the view has a first element.
            assert_eq!(unsafe { view.as_ptr().read() }, *first, "{name}");
        }
        indices.sort_by(|a, b| a.iter().rev().cmp(b.iter().rev()));
        assert_eq!(tensor.is_f_contiguous(), adjacent(&by_index(&indices)), "{name}");
    }
}

#[test]
fn comparison_reads_repeated_elements_once() {
    let shape = [1 << (usize::BITS - 8), 2, 3, 2];
    let tensors = [[1, 2], [1, 2], [1, 3]].map(Tensor::from);
    let views = tensors.each_ref().map(|x| x.view::<i32>().unwrap().broadcast_to(shape).unwrap());
    assert_eq!(views[0], views[1]);
    assert_ne!(views[0], views[2]);
}

#[test]
fn get_outside_of_the_shape_returns_none() {
    let mut mutable = 0;
    for &layout in LAYOUTS {
        let mut tensor = make(layout);
        let (ndim, shape) = (layout.0.len(), layout.0);
        let view = tensor.view::<u16>().unwrap();
        let mut wrong: Vec<Vec<usize>> = vec![vec![0; ndim + 1]];
        wrong.extend((0..ndim).map(|axis| vec![0; axis]));
        for (axis, &extent) in shape.iter().enumerate() {
            for beyond in [extent, usize::MAX, 1 << (usize::BITS - 1)] {
                wrong.push((0..ndim).map(|a| if a == axis { beyond } else { 0 }).collect());
            }
        }
        assert!(wrong.iter().all(|index| view.get(index).is_none()), "{layout:?}");
        if let Ok(mut view) = tensor.view_mut::<u16>() {
            assert!(wrong.iter().all(|index| view.get_mut(index).is_none()), "{layout:?}");
            mutable += 1;
        }
    }
    assert!(mutable > 3, "{mutable}");
}

#[test]
#[should_panic(expected = "index [1, 3] is outside of shape [2, 3]")]
fn indexing_outside_panics() {
    let tensor = Tensor::from([[0_u8; 3]; 2]);
    let _ = tensor.view::<u8>().unwrap()[[1, 3]];
}

#[test]
#[should_panic(expected = "index [1] is outside of shape [2, 3]")]
fn indexing_with_too_few_numbers_panics() {
    let mut tensor = Tensor::from([[0_u8; 3]; 2]);
    let _ = tensor.view_mut::<u8>().unwrap()[[1]];
}

#[test]
#[should_panic(expected = "index [18446744073709551615, 0] is outside of shape [2, 3]")]
#[cfg(target_pointer_width = "64")]
fn writing_outside_panics() {
    let mut tensor = Tensor::from([[0_u8; 3]; 2]);
    tensor.view_mut::<u8>().unwrap()[[usize::MAX, 0]] = 1;
}

#[test]
fn every_way_to_write_reaches_its_element_and_no_other() {
    for &layout in LAYOUTS {
        let (shape, positions) = (layout.0, positions(layout.0, layout.1, layout.2));
        let mut sorted = positions.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() < positions.len() {
            assert_eq!(make(layout).view_mut::<u16>().unwrap_err(), Error::Overlapping);
            continue;
        }
        let mut expected = values();
        positions.iter().for_each(|&position| expected[position] += 100);
        let written = |write: &dyn Fn(&mut Tensor)| {
            let mut tensor = make(layout);
            write(&mut tensor);
            assert_eq!(tensor.try_into_owner::<Vec<u16>>().unwrap(), expected, "{layout:?}");
        };
        written(&|tensor| {
            let mut view = tensor.view_mut::<u16>().unwrap();
            assert_eq!(view.iter_mut().len(), positions.len());
            // All references are alive at the same time: they do not overlap.
            let all: Vec<&mut u16> = view.iter_mut().collect();
            all.into_iter().for_each(|element| *element += 100);
        });
        written(&|tensor| {
            let mut view = tensor.view_mut::<u16>().unwrap();
            for index in indices(shape) {
                *view.get_mut(&index).unwrap() += 100;
            }
        });
        written(&|tensor| {
            let mut view = tensor.view_mut::<u16>().unwrap();
            let contiguous = view.as_view().as_slice().is_some();
            assert_eq!(view.as_mut_slice().is_some(), contiguous);
            match view.as_mut_slice() {
                Some(slice) => slice.iter_mut().for_each(|element| *element += 100),
                None => view.iter_mut().for_each(|element| *element += 100),
            }
            assert_eq!(view.into_mut_slice().is_some(), contiguous);
        });
    }
    let mut tensor = Tensor::from([[1, 2], [3, 4]]);
    let mut view = tensor.view_mut::<i32>().unwrap();
    view[[1, 0]] += view[[0, 1]];
    assert_eq!((view.shape(), view.strides(), view[[1, 0]]), (&[2, 2][..], &[2, 1][..], 5));
    assert_eq!(view.into_view().to_vec(), [1, 2, 5, 4]);
}

#[test]
fn copy_equals_the_model_in_c_order() {
    fn same<T: Element + PartialEq + std::fmt::Debug>(layout: Layout, of: fn(u8) -> T) {
        let (shape, strides, offset) = layout;
        let values = (0..24).map(of).collect::<Vec<T>>();
        let tensor = Tensor::from_parts_strided(values, shape, strides, offset).unwrap();
        let copy = tensor.to_copy().unwrap();
        let expected: Vec<T> = model(layout).into_iter().map(|value| of(value as u8)).collect();
        assert_eq!(copy.view::<T>().unwrap().as_slice(), Some(&expected[..]), "{layout:?}");
        assert_eq!((copy.shape(), copy.dtype()), (tensor.shape(), tensor.dtype()));
        assert_eq!((copy.access(), copy.data().addr() % 256), (Access::Exclusive, 0));
        assert_eq!(copy.data().is_null(), expected.is_empty());
        let c_order = Tensor::from_parts(expected, shape).unwrap();
        assert_eq!(copy.strides(), c_order.strides());
        assert_ne!(copy.data().addr(), tensor.data().addr().max(1));
    }
    for &layout in LAYOUTS {
        same::<i128>(layout, |i| -i128::from(i));
        if !cfg!(miri) {
            same::<u8>(layout, |i| i);
            same::<u16>(layout, u16::from);
            same::<bool>(layout, |i| i % 3 == 0);
        }
    }
}

#[test]
fn copy_is_exclusive() {
    let tensor = Tensor::from(&[1_u8, 2, 3][..]);
    let mut copy = tensor.to_copy().unwrap();
    copy.view_mut::<u8>().unwrap()[[0]] = 9;
    assert_eq!(tensor.view::<u8>().unwrap().to_vec(), [1, 2, 3]);
    assert_eq!(copy.view::<u8>().unwrap().to_vec(), [9, 2, 3]);
}

#[test]
fn view_of_another_dtype_is_refused() {
    let mut tensor = Tensor::from(vec![1_i32, 2]);
    let error = |expected| Error::DataType { expected, found: DataType::INT32 };
    assert_eq!(tensor.view::<u32>().unwrap_err(), error(DataType::UINT32));
    assert_eq!(tensor.view::<f32>().unwrap_err(), error(DataType::FLOAT32));
    assert_eq!(tensor.view::<i64>().unwrap_err(), error(DataType::INT64));
    assert_eq!(tensor.view::<bool>().unwrap_err(), error(DataType::BOOL));
    assert_eq!(tensor.view_bool_as_u8().unwrap_err(), error(DataType::BOOL));
    assert_eq!(tensor.view_mut::<u32>().unwrap_err(), error(DataType::UINT32));
    let lanes = Producer::new(vec![1.0_f32, 2.0], &[1]);
    let lanes = lanes.with(|p| p.tensor.dtype.lanes = 2).import().unwrap();
    assert!(lanes.view::<f32>().is_err() && lanes.view::<f64>().is_err());
    assert!(Tensor::from(vec![true]).view::<u8>().is_err());
    assert!(Tensor::from(Vec::<u8>::new()).view::<i8>().is_err());
}

#[test]
fn packed_elements_are_not_viewed_as_bytes() {
    // Four elements in two bytes. The allocation has four bytes, so that a wrong view of four stays in it.
    let lent = |flags| {
        Producer::new(vec![0x21_u8, 0x43, 0, 0], &[4])
            .with(|p| p.tensor.dtype = DataType::FLOAT4_E2M1FN.into())
            .flags(flags)
            .import()
            .unwrap()
    };
    assert_eq!(lent(4).view::<Nibble>().unwrap().len(), 4);
    let error = Error::SubbytePacked { dtype: DataType::FLOAT4_E2M1FN };
    assert_eq!(lent(0).view::<Nibble>().unwrap_err(), error);
    assert_eq!(lent(2).view_mut::<Nibble>().unwrap_err(), error);
    assert_eq!(TensorSlice::<Nibble>::try_from(lent(0)).unwrap_err(), error);
}

#[test]
fn mutable_view_needs_exclusive_data() {
    let lent = || Producer::new(vec![1_u8], &[1]);
    assert_eq!(lent().import().unwrap().view_mut::<u8>().unwrap_err(), Error::Shared);
    assert_eq!(lent().import_legacy().unwrap().view_mut::<u8>().unwrap_err(), Error::Shared);
    let read_only = lent().flags(1).import();
    assert_eq!(read_only.unwrap().view_mut::<u8>().unwrap_err(), Error::ReadOnly);
    let mut shared = Tensor::from(std::sync::Arc::<[u8]>::from([1_u8]));
    assert_eq!(shared.view_mut::<u8>().unwrap_err(), Error::ReadOnly);
}

#[test]
fn booleans_are_viewed_as_bool_or_byte() {
    let mut tensor = Tensor::from_parts_strided(vec![true, false, false], [3], [-1], 2).unwrap();
    assert_eq!(tensor.view::<bool>().unwrap().to_vec(), [false, false, true]);
    assert_eq!(tensor.view_bool_as_u8().unwrap().to_vec(), [0, 0, 1]);
    tensor.view_mut::<bool>().unwrap()[[0]] = true;
    assert_eq!(tensor.try_into_owner::<Vec<bool>>().unwrap(), [true, false, true]);
}

#[test]
fn owned_slice_keeps_its_tensor_alive() {
    let (owner, dropped) = Counted::new(vec![1_u32, 2, 3, 4]);
    let slice = TensorSlice::<u32>::try_from(Tensor::from_parts(owner, [2, 2]).unwrap()).unwrap();
    assert_eq!((&slice[..], dropped.get()), (&[1, 2, 3, 4][..], 0));
    assert_eq!(format!("{slice:?}"), format!("{:?}", Tensor::from([[0_u32; 2]; 2])));
    let mut slice = TensorSliceMut::<u32>::try_from(slice.into_tensor()).unwrap();
    slice.reverse();
    assert_eq!(slice[..], [4, 3, 2, 1]);
    let tensor = slice.into_tensor();
    assert_eq!(tensor.view::<u32>().unwrap()[[0, 0]], 4);
    drop(TensorSlice::<u32>::try_from(tensor).unwrap());
    assert_eq!(dropped.get(), 1);
    let empty = TensorSliceMut::<u64>::try_from(Tensor::from(Vec::<u64>::new())).unwrap();
    assert!(empty.is_empty());
}

#[test]
fn owned_slice_needs_contiguous_elements_and_mutable_needs_exclusive() {
    let (owner, dropped) = Counted::new(vec![1_u32, 2, 3, 4]);
    let strided = Tensor::from_parts_strided(owner, [2], [2], 0).unwrap();
    assert_eq!(TensorSlice::<u32>::try_from(strided).unwrap_err(), Error::NotContiguous);
    assert_eq!(dropped.get(), 1);
    let strided = Tensor::from_parts_strided(vec![1_u32, 2], [2], [-1], 1).unwrap();
    assert_eq!(TensorSliceMut::<u32>::try_from(strided).unwrap_err(), Error::NotContiguous);
    let lent = Producer::new(vec![1_u32], &[1]).import().unwrap();
    assert_eq!(TensorSliceMut::<u32>::try_from(lent).unwrap_err(), Error::Shared);
    let constant = Tensor::from(&[1_u32][..]);
    assert_eq!(TensorSliceMut::<u32>::try_from(constant).unwrap_err(), Error::ReadOnly);
    let other = TensorSlice::<u32>::try_from(Tensor::from(vec![1_i32]));
    let error = Error::DataType { expected: DataType::UINT32, found: DataType::INT32 };
    assert_eq!(other.unwrap_err(), error);
    let mut strided = Tensor::from_parts_strided(vec![1_u32, 2], [2], [-1], 1).unwrap();
    let view = strided.view_mut::<u32>().unwrap();
    assert_eq!(<&mut [u32]>::try_from(view).unwrap_err(), Error::NotContiguous);
}
