//! Copies between any two layouts, of elements of any size, in buffers that end exactly where the
//! layouts end.

use std::borrow::Cow;

use crate::common::Producer;
use crate::common::model::{Layout, Op, Rng};
use dlbridge::{
    Access, DataType, DataTypeCode, Element, Error, Tensor, TensorRef, TensorRefMut, Unaligned,
};

/// An element of any size.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
struct Bytes<const N: usize>([u8; N]);

// SAFETY: N bytes, and every bit pattern is a valid value.
unsafe impl<const N: usize> Element for Bytes<N> {
    const DATA_TYPE: DataType = DataType::UINT8.with_lanes(N as u16);
}

impl<const N: usize> Bytes<N> {
    /// Returns bytes that differ for each position and within each element.
    fn at(position: usize) -> Self {
        Self(std::array::from_fn(|i| (position * 31 + position / 256 + i * 7) as u8))
    }
}

const CASES: usize = if cfg!(miri) { 2 } else { 200 };
const ELEMENTS: usize = if cfg!(miri) { 10 } else { 300 };

/// Copies elements of each size.
macro_rules! same {
    ($rng:expr, $layout:expr; $($size:literal)*) => {
        $(same::<$size>($rng, $layout);)*
    };
}

/// Copies a layout in every way, to C order and to another random layout.
fn same<const N: usize>(rng: &mut Rng, layout: &Layout) {
    let tensor = layout.tensor(Bytes::<N>::at);
    let model = layout.model();
    let expected: Vec<_> = model.positions.iter().map(|&at| Bytes::<N>::at(at)).collect();
    let of = || format!("{N} bytes, {layout:?}");
    let view = tensor.view::<Bytes<N>>().unwrap();
    assert!(view.to_vec() == expected, "{}", of());
    let contiguous = view.to_contiguous();
    assert!(contiguous[..] == expected[..], "{}", of());
    assert_eq!(matches!(contiguous, Cow::Borrowed(_)), model.is_adjacent(), "{}", of());

    let copy = tensor.to_copy().unwrap();
    assert!(copy.view::<Bytes<N>>().unwrap().as_slice() == Some(&expected[..]), "{}", of());
    assert_eq!((copy.shape(), copy.dtype()), (tensor.shape(), tensor.dtype()));
    assert_eq!((copy.access(), copy.data().addr() % 256), (Access::Exclusive, 0));
    let c_order = Tensor::from_parts(expected.clone(), &layout.shape).unwrap();
    assert_eq!(copy.strides(), c_order.strides());

    let target_layout = Layout::of_shape(rng, layout.shape.clone(), false);
    let nothing = Bytes([0xEE; N]);
    let mut target = target_layout.tensor(|_| nothing);
    let target_mut = TensorRefMut::try_from(&mut target).unwrap();
    target_mut.copy_from(&TensorRef::from(&tensor)).unwrap();
    let mut written = vec![nothing; target_layout.len];
    for (&at, &element) in target_layout.model().positions.iter().zip(&expected) {
        written[at] = element;
    }
    let owner = target.try_into_owner::<Vec<Bytes<N>>>().unwrap();
    assert!(owner == written, "{} to {target_layout:?}", of());
}

#[test]
fn copies_of_random_layouts_agree_with_the_model() {
    let mut rng = Rng::new(5);
    for _ in 0..CASES {
        let layout = Layout::random(&mut rng, ELEMENTS, true);
        same!(&mut rng, &layout; 1 2 3 4 5 8 12 16 17 32);
    }
}

#[test]
fn transposes_larger_than_a_block_agree_with_the_model() {
    let mut rng = Rng::new(6);
    let shapes: &[&[usize]] = &[
        &[70, 45, 3],
        &[3, 70, 45],
        &[33, 65],
        &[2, 1537],
        &[1537, 2],
        &[31, 1025],
        &[512, 3, 5],
        &[64, 2, 64],
    ];
    // The square below is enough for Miri.
    for shape in shapes.iter().take(if cfg!(miri) { 0 } else { shapes.len() }) {
        for _ in 0..2 {
            let layout = Layout::of_shape(&mut rng, shape.to_vec(), false);
            same!(&mut rng, &layout; 1 2 3 4 8 16);
        }
    }
    let square: Vec<Vec<u32>> = (0..40).map(|i| (0..40).map(|j| i * 40 + j).collect()).collect();
    let tensor = Tensor::from_parts(square.concat(), [40, 40]).unwrap().transpose();
    let expected = (0..40).flat_map(|j| square.iter().map(move |row| row[j]));
    assert!(tensor.to_copy().unwrap().view::<u32>().unwrap().iter().copied().eq(expected));
}

#[test]
fn copy_of_a_broadcast_has_all_elements() {
    let mut rng = Rng::new(7);
    for _ in 0..CASES {
        let layout = Layout::random(&mut rng, ELEMENTS / 8, false);
        let (tensor, model) = (layout.tensor(|at| at as u64), layout.model());
        let op = Op::broadcast(&mut rng, &layout.shape);
        let Op::BroadcastTo(shape) = &op else { unreachable!() };
        let wide = TensorRef::from(&tensor).broadcast_to(shape).unwrap();
        let expected: Vec<u64> = model.apply(&op).positions.iter().map(|&at| at as u64).collect();
        let copy = wide.to_copy().unwrap();
        assert_eq!(copy.view::<u64>().unwrap().as_slice(), Some(&expected[..]), "{layout:?}");
    }
    let endless = TensorRef::from(&[0_u16]).broadcast_to([isize::MAX as usize]).unwrap();
    assert_eq!(endless.to_copy().unwrap_err(), Error::TooLarge);
    assert_eq!(endless.nbytes(), 2 * isize::MAX as u128);
}

#[test]
fn copy_that_is_refused_writes_nothing() {
    let refused = |source: &TensorRef<'_>, error: Error| {
        let mut values = [[1_u8, 2, 3], [4, 5, 6]];
        assert_eq!(TensorRefMut::from(&mut values).copy_from(source).unwrap_err(), error);
        assert_eq!(values, [[1, 2, 3], [4, 5, 6]]);
    };
    let dtype = Error::DataType { expected: DataType::UINT8, found: DataType::INT8 };
    refused(&TensorRef::from(&[[0_i8; 3]; 2]), dtype);
    refused(&TensorRef::from(&[0_u8; 6]), Error::Ndim { expected: 2, found: 1 });
    refused(&TensorRef::from(&[[0_u8; 1]; 2]), Error::Extent { axis: 1, expected: 3, found: 1 });
    refused(&TensorRef::from(&[[0_u8; 3]; 0]), Error::Extent { axis: 0, expected: 2, found: 0 });
    let place = std::ptr::without_provenance_mut(0x1000);
    let elsewhere = Producer::at(place, DataType::UINT8, &[2, 3]).device(2, 1).import().unwrap();
    let error = Error::NotHostAccessible { device: elsewhere.device() };
    refused(&TensorRef::from(&elsewhere), error);
    assert_eq!(elsewhere.to_copy().unwrap_err(), error);
    // SAFETY: no other code uses that memory.
    let mut elsewhere = unsafe { elsewhere.assume_exclusive() };
    let target = TensorRefMut::try_from(&mut elsewhere).unwrap();
    assert_eq!(target.copy_from(&TensorRef::from(&[[0_u8; 3]; 2])).unwrap_err(), error);
    assert_eq!(TensorRefMut::try_from(&mut elsewhere).unwrap().swap_bytes().unwrap_err(), error);
    assert_eq!(elsewhere.into_contiguous().unwrap().1, None);
}

/// Imports an exclusive tensor of packed elements, in exactly the bytes that they need.
fn packed(dtype: DataType, shape: &[i64], bytes: &[u8]) -> Tensor {
    let tensor = Producer::new(bytes.to_vec(), shape).with(|p| p.tensor.dtype = dtype.into());
    tensor.flags(2).import().unwrap()
}

#[test]
fn packed_elements_are_copied_only_to_the_same_layout_of_whole_bytes() {
    let dtype = DataType::FLOAT4_E2M1FN;
    let bytes = |tensor: &Tensor, len| {
        // SAFETY: the tensor is alive, and its data has `len` bytes.
        unsafe { std::slice::from_raw_parts(tensor.data().cast::<u8>(), len) }.to_vec()
    };
    for len in 0..6 {
        let tensor = packed(dtype, &[len], &[0x21, 0x43, 0x65][..len as usize / 2 + 1]);
        let (copy, size) = (tensor.to_copy().unwrap(), tensor.nbytes() as usize);
        assert_eq!((copy.shape(), copy.is_subbyte_padded()), (&[len][..], false));
        if len > 0 {
            assert_eq!(bytes(&copy, size), bytes(&tensor, size));
        }
    }
    let square = packed(dtype, &[2, 2], &[0x21, 0x43]);
    let part = TensorRef::from(&square).slice(0, 1..).unwrap();
    assert_eq!(bytes(&part.to_copy().unwrap(), 1), [0x43]);
    assert_eq!(bytes(&TensorRef::from(&square).transpose().to_copy().unwrap(), 2), [0x31, 0x42]);

    let error = Error::SubbytePacked { dtype };
    let into = |target: &mut Tensor, source: TensorRef<'_>| {
        TensorRefMut::try_from(target).unwrap().copy_from(&source)
    };
    let mut target = packed(dtype, &[2, 2], &[0, 0]);
    assert_eq!(into(&mut target, TensorRef::from(&square)), Ok(()));
    assert_eq!(bytes(&target, 2), [0x21, 0x43]);
    assert_eq!(into(&mut target, TensorRef::from(&square).transpose()), Err(error));
    let mut turned = packed(dtype, &[2, 2], &[0, 0]).transpose();
    assert_eq!(into(&mut turned, TensorRef::from(&square)), Err(error));
    let padded = Tensor::from([[crate::common::Nibble(1); 2]; 2]);
    assert_eq!(into(&mut target, TensorRef::from(&padded)), Err(error));
    let mut padded = padded;
    assert_eq!(into(&mut padded, TensorRef::from(&square)), Err(error));
    // Half of the last byte does not belong to the tensor.
    let mut odd = packed(dtype, &[3], &[0, 0]);
    let three = packed(dtype, &[3], &[0x21, 0x43]);
    assert_eq!(into(&mut odd, TensorRef::from(&three)), Err(error));
    assert_eq!((bytes(&target, 2), bytes(&odd, 2)), (vec![0x21, 0x43], vec![0, 0]));
    let mut empty = packed(dtype, &[0, 3], &[]);
    assert_eq!(into(&mut empty, TensorRef::from(&packed(dtype, &[0, 3], &[]))), Ok(()));
}

#[test]
fn byte_swap_reverses_the_bytes_of_each_number() {
    fn check<const N: usize>(layout: &Layout, dtype: DataType, number: usize) {
        let values: Vec<_> = (0..layout.len).map(Bytes::<N>::at).collect();
        let parts = Producer::new(values.clone(), &[values.len() as i64]);
        let reversed = |element: Bytes<N>| {
            let mut bytes = element.0;
            bytes.chunks_mut(number).for_each(<[u8]>::reverse);
            Bytes(bytes)
        };
        let (shape, strides) = (&layout.shape, &layout.strides);
        let signed = |&number: &usize| number as i64;
        let tensor = parts.with(|p| {
            p.tensor.dtype = dtype.into();
            p.tensor.ndim = shape.len() as i32;
            p.tensor.shape = p.keep(shape.iter().map(signed).collect());
            p.tensor.strides = p.keep(strides.iter().map(|&stride| stride as i64).collect());
            p.tensor.byte_offset = (layout.offset * N) as u64;
            p.flags = 2;
        });
        let data = tensor.tensor.data.cast::<Bytes<N>>();
        let mut tensor = tensor.import().unwrap();
        let mut expected = values.clone();
        let copy = TensorRef::from(&tensor).to_byte_swapped().unwrap();
        assert_eq!((copy.dtype(), copy.is_c_contiguous()), (dtype, true));
        let copied = copy.data().cast::<Bytes<N>>();
        for (nth, &at) in layout.model().positions.iter().enumerate() {
            expected[at] = reversed(values[at]);
            // SAFETY: the copy has the same number of elements as `expected`.
            assert!(unsafe { copied.add(nth).read() } == expected[at], "{dtype} {layout:?}");
        }
        TensorRefMut::try_from(&mut tensor).unwrap().swap_bytes().unwrap();
        // SAFETY: the producer's memory, which lives as long as the tensor.
        let seen = unsafe { std::slice::from_raw_parts(data, values.len()) };
        assert!(seen == expected, "{dtype} {layout:?}");
    }
    let mut rng = Rng::new(8);
    let complex = |bits| DataType::new(DataTypeCode::COMPLEX, bits, 1);
    for _ in 0..CASES {
        let layout = Layout::random(&mut rng, ELEMENTS / 4, false);
        check::<1>(&layout, DataType::INT8, 1);
        check::<1>(&layout, DataType::BOOL, 1);
        check::<2>(&layout, DataType::BFLOAT16, 2);
        check::<2>(&layout, complex(16), 1);
        check::<3>(&layout, DataType::new(DataTypeCode::UINT, 24, 1), 3);
        check::<4>(&layout, DataType::FLOAT32, 4);
        check::<4>(&layout, complex(32), 2);
        check::<4>(&layout, DataType::new(DataTypeCode::BCOMPLEX, 32, 1), 2);
        check::<6>(&layout, DataType::UINT16.with_lanes(3), 2);
        check::<8>(&layout, DataType::COMPLEX64, 4);
        check::<16>(&layout, DataType::INT128, 16);
        check::<32>(&layout, DataType::COMPLEX64.with_lanes(4), 4);
    }
    for dtype in [
        DataType::new(DataTypeCode::INT, 12, 1),
        DataType::FLOAT4_E2M1FN.with_lanes(2),
        DataType::new(DataTypeCode::COMPLEX, 24, 1),
        complex(8),
    ] {
        let error = Error::NoByteOrder { dtype };
        let mut tensor = packed(dtype, &[1], &[1, 2, 3]);
        assert_eq!(TensorRef::from(&tensor).to_byte_swapped().unwrap_err(), error);
        assert_eq!(TensorRefMut::try_from(&mut tensor).unwrap().swap_bytes().unwrap_err(), error);
    }
}

#[test]
fn append_mapped_of_small_elements_of_every_layout_equals_iter() {
    // One dimension longer than a block of the loops, also under Miri.
    let [rows, columns] = if cfg!(miri) { [5, 35] } else { [37, 41] };
    let bytes: Vec<u8> = (0..3 * rows * columns).map(|i| (i % 251) as u8).collect();
    let cube = Tensor::from_parts(bytes, [3, rows, columns]).unwrap();
    let cube = TensorRef::from(&cube);
    let layouts = [
        cube.clone(),
        cube.transpose(),
        cube.permute([1, 0, 2]).unwrap(),
        cube.flip(1).unwrap(),
        cube.flip(2).unwrap(),
        cube.step_by(2, 3).unwrap(),
        cube.slice(2, 1..columns - 1).unwrap(),
        cube.index_axis(0, 1).unwrap().broadcast_to([2, rows, columns]).unwrap(),
        cube.slice(1, 0..0).unwrap(),
    ];
    for layout in layouts {
        let view = layout.view::<u8>().unwrap();
        let mut to: Vec<f64> = Vec::new();
        view.append_mapped(&mut to, f64::from).unwrap();
        assert_eq!(to, view.iter().map(|&byte| f64::from(byte)).collect::<Vec<_>>());
    }
}

#[test]
fn append_mapped_converts_all_elements_in_c_order() {
    let tensor = Tensor::from([[1_i64, 2, 3], [4, 5, 6]]);
    let mut to = vec![0.5];
    tensor.view::<i64>().unwrap().append_mapped(&mut to, |value| value as f64).unwrap();
    assert_eq!(to, [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let strided = tensor.transpose().flip(0).unwrap().step_by(1, 2).unwrap();
    let mut to = Vec::new();
    strided.view::<i64>().unwrap().append_mapped(&mut to, |value| value as u8).unwrap();
    assert_eq!(to, [3, 2, 1]);
    let empty = Tensor::from(Vec::<i64>::new());
    empty.view::<i64>().unwrap().append_mapped(&mut to, |value| value as u8).unwrap();
    assert_eq!(to, [3, 2, 1]);
}

#[test]
fn concatenated_tensors_follow_one_another() {
    let columns = Tensor::from([[1, 2, 3], [4, 5, 6]]).transpose();
    let (row, none) = (Tensor::from([[7, 8]]), Tensor::zeros::<i32>([0, 2]).unwrap());
    let tensors = [&columns, &none, &row, &columns].map(TensorRef::from);
    let whole = TensorRef::concatenate_while(&tensors, 4096, || true).unwrap().unwrap();
    assert_eq!((whole.shape(), whole.access()), (&[7, 2][..], Access::Exclusive));
    assert_eq!(whole.data().addr() % 4096, 0);
    let expected = [1, 4, 2, 5, 3, 6, 7, 8, 1, 4, 2, 5, 3, 6];
    assert_eq!(whole.view::<i32>().unwrap().to_vec(), expected);
    let empty = TensorRef::concatenate_while(&tensors[1..2], 1, || true).unwrap().unwrap();
    assert_eq!(empty.shape(), [0, 2]);
    assert!(TensorRef::concatenate_while(&tensors, 1, || false).unwrap().is_none());
}

#[test]
fn concatenation_of_unlike_tensors_is_refused() {
    let first = Tensor::from([[1, 2]]);
    let refusal = |other: Tensor| {
        let tensors = [TensorRef::from(&first), TensorRef::from(&other)];
        TensorRef::concatenate_while(&tensors, 1, || true).unwrap_err()
    };
    assert!(matches!(refusal(Tensor::from([[1_i64, 2]])), Error::DataType { .. }));
    assert!(matches!(refusal(Tensor::from([1, 2])), Error::Ndim { expected: 2, found: 1 }));
    assert!(matches!(
        refusal(Tensor::from([[1]])),
        Error::Extent { axis: 1, expected: 2, found: 1 }
    ));
    let number = Tensor::from_parts(vec![1], [0_usize; 0]).unwrap();
    let tensors = [TensorRef::from(&number)];
    let error = TensorRef::concatenate_while(&tensors, 1, || true).unwrap_err();
    assert!(matches!(error, Error::Ndim { expected: 1, found: 0 }));
}

#[test]
fn parts_of_new_memory_are_written_by_threads() {
    let source = Tensor::from_parts((0..24).collect::<Vec<i32>>(), [4, 6]).unwrap();
    // SAFETY: the threads write both halves, which are all elements.
    let mut copy = unsafe { Tensor::uninit(DataType::FLOAT64, [4, 6]) }.unwrap();
    let (head, tail) = TensorRefMut::try_from(&mut copy).unwrap().split_at(0, 1).unwrap();
    std::thread::scope(|threads| {
        for (rows, to) in [(0..1, head), (1..4, tail)] {
            let source = TensorRef::from(&source).slice(0, rows).unwrap();
            threads.spawn(move || {
                let source = source.view::<Unaligned<i32>>().unwrap();
                source.copy_mapped(to, |value| f64::from(value.get()) / 2.0).unwrap();
            });
        }
    });
    let halves: Vec<f64> = (0..24).map(|value| f64::from(value) / 2.0).collect();
    assert_eq!(TensorRef::from(&copy).to_vec::<f64>().unwrap(), halves);
}

#[test]
fn split_of_an_axis_that_is_missing_or_too_short_is_refused() {
    let mut values = [1_u8, 2, 3];
    let mut split = |axis, index| TensorRefMut::from(&mut values).split_at(axis, index).map(drop);
    assert!(matches!(split(1, 0), Err(Error::InvalidAxis { .. })));
    assert!(matches!(split(0, 4), Err(Error::InvalidRange { .. })));
    assert!(split(0, 3).is_ok());
    // Both halves of a row would be in its second byte.
    let mut packed = Tensor::zeroed(DataType::UINT4, [2, 3]).unwrap();
    let split = TensorRefMut::try_from(&mut packed).unwrap().split_at(1, 2).map(drop);
    assert!(matches!(split, Err(Error::SubbytePacked { .. })));
}
