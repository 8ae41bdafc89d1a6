//! Copies from any layout to any other, against a model; conversions that say whether they copied.

mod common;

use std::borrow::Cow;
use std::fmt::Debug;

use common::{Producer, positions};
use dlbridge::{
    Access, CopyReason, DataType, DataTypeCode, Element, Error, Tensor, TensorRef, TensorRefMut,
};

/// An element of any size: several lanes of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
struct Lanes<const N: usize>([u8; N]);

// SAFETY: N bytes without padding, for which every bit pattern is valid.
unsafe impl<const N: usize> Element for Lanes<N> {
    const DTYPE: DataType = DataType::UINT8.with_lanes(N as u16);
}

impl<const N: usize> From<usize> for Lanes<N> {
    fn from(nth: usize) -> Self {
        Self(std::array::from_fn(|byte| (nth * 31 + byte * 7) as u8))
    }
}

type Layout<'a> = (&'a [usize], &'a [isize], usize);

/// Runs, transposes larger than a block of them, axes that become one, gaps, reversed and repeated
/// ones.
const LAYOUTS: &[Layout<'static>] = &[
    (&[], &[], 0),
    (&[1, 1], &[5, 5], 3),
    (&[60], &[1], 0),
    (&[60], &[-1], 59),
    (&[7, 9], &[9, 1], 0),
    (&[9, 7], &[1, 9], 0),
    (&[70, 45], &[1, 70], 0),
    (&[45, 70], &[-1, 45], 44),
    (&[33, 65], &[1, 33], 0),
    (&[3, 20, 31], &[1, 93, 3], 0),
    (&[20, 31, 3], &[31, 1, 620], 0),
    (&[2, 3, 4, 5], &[60, 20, 5, 1], 0),
    (&[5, 4, 3, 2], &[1, 5, 20, 60], 0),
    (&[4, 3, 5, 2], &[5, 40, 1, 20], 0),
    (&[6, 10], &[20, 2], 1),
    (&[6, 5], &[0, 1], 0),
    (&[5, 6], &[1, 0], 0),
    (&[3, 3], &[1, 1], 0),
    (&[4, 0, 3], &[1, 1, 1], 0),
];

/// Elements that end where the layout does.
fn exact<T: Element + From<usize>>((shape, strides, offset): Layout<'_>) -> (Vec<T>, Vec<usize>) {
    let at = positions(shape, strides, offset);
    let len = at.iter().max().map_or(0, |last| last + 1);
    ((0..len).map(T::from).collect(), at)
}

fn copies_are_the_model<T: Element + From<usize> + PartialEq + Debug>() {
    for &layout in LAYOUTS {
        let (elements, at) = exact::<T>(layout);
        if cfg!(miri) && at.len() > 100 {
            continue;
        }
        let expected: Vec<T> = at.iter().map(|&at| elements[at]).collect();
        let offset = if at.is_empty() { 0 } else { layout.2 };
        let tensor = Tensor::from_parts_strided(elements, layout.0, layout.1, offset).unwrap();
        let view = tensor.view::<T>().unwrap();
        assert_eq!(view.to_vec(), expected, "{layout:?}");
        let copy = tensor.to_copy().unwrap();
        assert_eq!(copy.view::<T>().unwrap().as_slice(), Some(&expected[..]), "{layout:?}");
        assert_eq!((copy.access(), copy.shape()), (Access::Exclusive, tensor.shape()));
        assert!(copy.is_empty() || copy.data().addr().is_multiple_of(256));
        match view.to_contiguous() {
            Cow::Borrowed(slice) => assert!(tensor.is_c_contiguous() && slice == expected),
            Cow::Owned(vec) => assert!(!tensor.is_c_contiguous() && vec == expected),
        }
        // And the other way: from adjacent elements into the layout, where it does not overlap.
        let mut unique = at.clone();
        unique.sort_unstable();
        unique.dedup();
        if unique.len() == at.len() {
            let mut target: Vec<T> = vec![T::from(9999); unique.last().map_or(0, |last| last + 1)];
            let mut written = target.clone();
            at.iter().zip(&expected).for_each(|(&at, &element)| written[at] = element);
            let whole = Tensor::from_parts_strided(target, layout.0, layout.1, offset);
            let mut whole = whole.unwrap();
            let into = TensorRefMut::try_from(&mut whole).unwrap();
            into.copy_from(&TensorRef::from(&copy)).unwrap();
            target = whole.try_into_owner().unwrap();
            assert_eq!(target, written, "{layout:?}");
        }
    }
}

macro_rules! sizes {
    ($($name:ident: $size:literal,)*) => {$(
        #[test]
        fn $name() {
            copies_are_the_model::<Lanes<$size>>();
        }
    )*};
}

sizes! {
    elements_of_1_byte: 1,
    elements_of_2_bytes: 2,
    elements_of_3_bytes: 3,
    elements_of_4_bytes: 4,
    elements_of_8_bytes: 8,
    elements_of_16_bytes: 16,
    elements_of_20_bytes: 20,
}

#[test]
fn from_one_order_into_another() {
    let source = Tensor::from((0..24).collect::<Vec<i32>>()).reshape([2, 3, 4]).unwrap();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for other in [[0, 1, 2], [2, 0, 1], [2, 1, 0]] {
            let from = TensorRef::from(&source).permute(order).unwrap();
            let from = from.flip(1).unwrap();
            let shape: Vec<usize> = from.shape().iter().map(|&n| n as usize).collect();
            // A target that is adjacent when its axes are taken in the other order.
            let mut target = vec![-1; 24];
            let adjacent: Vec<usize> = other.iter().map(|&axis| shape[axis]).collect();
            let mut back = [0; 3];
            other.iter().enumerate().for_each(|(nth, &axis)| back[axis] = nth);
            let into = TensorRefMut::from(&mut target).reshape(adjacent).unwrap();
            let mut into = into.permute(back).unwrap();
            into.as_tensor_ref_mut().copy_from(&from).unwrap();
            let found = into.as_tensor_ref().view::<i32>().unwrap().to_vec();
            assert_eq!(found, from.view::<i32>().unwrap().to_vec());
        }
    }
}

#[test]
fn what_differs_is_not_copied() {
    let source = [[1_u8, 2, 3], [4, 5, 6]];
    let mut target = [[0_u8; 3]; 2];
    let mut copy = |source: TensorRef<'_>| TensorRefMut::from(&mut target).copy_from(&source);
    let dtype = Error::DataType { expected: DataType::UINT8, found: DataType::INT8 };
    assert_eq!(copy(TensorRef::from(&[[0_i8; 3]; 2])), Err(dtype));
    assert_eq!(copy(TensorRef::from(&[0_u8; 6])), Err(Error::Ndim { expected: 2, found: 1 }));
    let extent = Error::Extent { axis: 1, expected: 3, found: 2 };
    assert_eq!(copy(TensorRef::from(&[[0_u8; 2]; 2])), Err(extent));
    let cuda = Producer::new(vec![0_u8; 6], &[2, 3]).device(2, 0).import().unwrap();
    assert!(matches!(copy(TensorRef::from(&cuda)), Err(Error::NotHostAccessible { .. })));
    assert_eq!(copy(TensorRef::from(&source)), Ok(()));
    assert_eq!(target, source);
}

#[test]
fn packed_elements_are_copied_by_whole_bytes() {
    let dtype: DataType = "uint4".parse().unwrap();
    let make = |bytes: &[u8], n: usize| Tensor::from_bytes(bytes.to_vec(), dtype, [n], 0).unwrap();
    let (source, mut target) = (make(&[0x21, 0x43], 4), make(&[0xff, 0xff], 4));
    let into = TensorRefMut::try_from(&mut target).unwrap();
    into.copy_from(&TensorRef::from(&source)).unwrap();
    assert_eq!(target.try_into_owner::<Vec<u8>>().unwrap(), [0x21, 0x43]);
    let (three, mut target) = (make(&[0x21, 0x43], 3), make(&[0xff, 0xff], 3));
    let mut copy = |source: &Tensor| {
        TensorRefMut::try_from(&mut target).unwrap().copy_from(&TensorRef::from(source))
    };
    assert_eq!(copy(&three), Err(Error::SubbytePacked { dtype }));
    assert_eq!(copy(&three.to_unpacked().unwrap()), Err(Error::SubbytePacked { dtype }));
    assert_eq!(target.try_into_owner::<Vec<u8>>().unwrap(), [0xff, 0xff]);
}

#[test]
fn the_bytes_of_each_number_are_reversed_and_nothing_else() {
    let bytes: Vec<u8> = (0..48).collect();
    let numbers = |dtype: DataType, number: usize| {
        let count = 48 / dtype.itemsize();
        let tensor = Tensor::from_bytes(bytes.clone(), dtype, [count], 0).unwrap();
        let mut expected = bytes.clone();
        expected.chunks_exact_mut(number).for_each(<[u8]>::reverse);
        let swapped = TensorRef::from(&tensor).to_byte_swapped().unwrap();
        assert_eq!(TensorRef::from(&swapped).as_bytes().unwrap(), expected, "{dtype}");
        // Every other element, in its place.
        let mut tensor = tensor;
        let strided = TensorRefMut::try_from(&mut tensor).unwrap().step_by(0, 2).unwrap();
        strided.swap_bytes().unwrap();
        let whole = tensor.try_into_owner::<Vec<u8>>().unwrap();
        for (nth, element) in whole.chunks_exact(dtype.itemsize()).enumerate() {
            let at = nth * dtype.itemsize();
            let model = if nth % 2 == 0 { &expected } else { &bytes };
            assert_eq!(element, &model[at..at + element.len()], "{dtype} {nth}");
        }
    };
    numbers(DataType::UINT8, 1);
    numbers(DataType::BOOL, 1);
    numbers(DataType::INT16, 2);
    numbers(DataType::new(DataTypeCode::UINT, 24, 1), 3);
    numbers(DataType::FLOAT32, 4);
    numbers(DataType::FLOAT32.with_lanes(3), 4);
    numbers(DataType::FLOAT64, 8);
    numbers(DataType::COMPLEX64, 4);
    numbers(DataType::COMPLEX128, 8);
    numbers(DataType::INT128, 16);
    let dtype = DataType::new(DataTypeCode::COMPLEX, 8, 1);
    let halves = Tensor::from_bytes(vec![1], dtype, [1], 0).unwrap();
    let refused = TensorRef::from(&halves).to_byte_swapped().unwrap_err();
    assert_eq!(refused, Error::NoByteOrder { dtype });
}

#[test]
fn what_is_so_already_is_not_copied() {
    let rows = Tensor::from([[1, 2], [3, 4]]);
    let address = rows.data();
    let (rows, reason) = rows.into_contiguous().unwrap();
    assert_eq!((rows.data(), reason), (address, None));
    let (rows, reason) = rows.into_exclusive().unwrap();
    assert_eq!((rows.data(), reason), (address, None));
    let (rows, reason) = rows.into_aligned(4).unwrap();
    assert_eq!((rows.data(), reason), (address, None));
    assert!(rows.try_into_owner::<Box<[[i32; 2]; 2]>>().is_ok());
    let opencl =
        Producer::at(std::ptr::without_provenance_mut(3), DataType::UINT8, &[4]).device(4, 0);
    let handle = opencl.import().unwrap();
    assert_eq!(handle.into_aligned(256).unwrap().1, None, "a handle is no address");
}

#[test]
fn what_is_not_so_is_copied_and_says_why() {
    let why = |result: dlbridge::Result<(Tensor, Option<CopyReason>)>| {
        let (copy, reason) = result.unwrap();
        assert_eq!((copy.access(), copy.is_c_contiguous()), (Access::Exclusive, true));
        (copy.view::<u16>().unwrap().to_vec(), reason.expect("a reason"))
    };
    let columns = Tensor::from([[1_u16, 2], [3, 4]]).transpose();
    let (elements, reason) = why(columns.into_contiguous());
    assert_eq!((elements, reason), (vec![1, 3, 2, 4], CopyReason::NotContiguous));
    assert_eq!(reason.to_string(), "the elements were not adjacent in C order");
    let (_, reason) = why(Tensor::from(&[1_u16][..]).into_exclusive());
    assert_eq!((reason, &*reason.to_string()), (CopyReason::ReadOnly, "the data was read-only"));
    let shared = Producer::new(vec![1_u16], &[1]).import().unwrap();
    let (_, reason) = why(shared.into_exclusive());
    assert_eq!(reason, CopyReason::Shared);
    assert_eq!(reason.to_string(), "the data was shared with its producer");
    let repeated = Tensor::from_parts_strided(vec![7_u16], [3], [0], 0).unwrap();
    let (elements, reason) = why(repeated.into_exclusive());
    assert_eq!((elements, reason), (vec![7, 7, 7], CopyReason::Overlapping));
    assert_eq!(reason.to_string(), "the strides made elements overlap");
    let tensor = Tensor::from(vec![1_u16; 300]);
    let odd = usize::from(tensor.data().addr().is_multiple_of(256));
    let tensor = tensor.slice(0, odd..odd + 2).unwrap();
    let address = tensor.data().addr();
    let (elements, reason) = why(tensor.into_aligned(256));
    assert_eq!((elements, reason), (vec![1, 1], CopyReason::Misaligned { address, required: 256 }));
    let text = format!("the data at {address:#x} was not aligned to 256 bytes");
    assert_eq!(reason.to_string(), text);
}

#[test]
#[should_panic(expected = "cannot align to 512")]
fn a_copy_is_aligned_to_256_bytes_and_no_more() {
    let _ = Tensor::from(vec![1]).into_aligned(512);
}
