//! Compares elements narrower than a byte with a model of single bits.

use crate::common::{Producer, positions};
use dlbridge::{DataType, DataTypeCode, Device, DeviceType, Error, Tensor, TensorRef};

const PADDED: u64 = dlbridge::sys::DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;

/// Returns bytes without a pattern that could hide a mistake.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Returns the bits of the element at a position of packed data, read one by one.
fn bits_at(bytes: &[u8], position: usize, width: usize) -> u64 {
    let bit = |n: usize| u64::from(bytes[n / 8] >> (n % 8) & 1);
    (0..width).map(|n| bit(position * width + n) << n).sum()
}

/// Returns data that ends exactly with its allocation.
fn exact(width: usize, elements: usize) -> Vec<u8> {
    noise((width * elements).div_ceil(8))
}

/// Returns dtypes of one lane, and of several lanes that do not fill whole bytes.
fn dtypes() -> impl Iterator<Item = (DataType, usize)> {
    let odd = [1, 2, 3, 4, 5, 6, 7, 9, 12, 31, 63].map(|bits| (bits, 1));
    let lanes = [(4, 3), (6, 2), (1, 5), (20, 3)];
    // Miri is slow: one width that fills bytes, one that does not, and lanes.
    let some =
        |&(bits, lanes): &(u8, u16)| !cfg!(miri) || matches!((bits, lanes), (4, 1 | 3) | (7, 1));
    odd.into_iter().chain(lanes).filter(some).map(|(bits, lanes)| {
        let dtype = DataType::new(DataTypeCode::UINT, bits, lanes);
        (dtype, usize::from(bits) * usize::from(lanes))
    })
}

type Layout = (&'static [usize], &'static [isize]);

/// Layouts whose element at index zero begins a byte: at position 0, or 8 for negative strides.
const LAYOUTS: &[(Layout, usize)] = &[
    ((&[], &[]), 0),
    ((&[13], &[1]), 0),
    ((&[3, 4], &[4, 1]), 0),
    ((&[4, 3], &[1, 4]), 0),
    ((&[5], &[2]), 0),
    ((&[9], &[-1]), 8),
    ((&[2, 3], &[-6, 2]), 8),
    ((&[2, 1, 4], &[1, 99, 2]), 0),
    ((&[3, 2], &[0, 1]), 0),
    ((&[3, 0], &[1, 1]), 0),
];

/// Returns an imported tensor, the positions of its elements, and its bytes.
fn lent(
    dtype: DataType,
    width: usize,
    layout: Layout,
    zero: usize,
) -> (Tensor, Vec<usize>, Vec<u8>) {
    let (shape, strides) = layout;
    let at = positions(shape, strides, zero);
    let bytes = exact(width, at.iter().max().map_or(1, |last| last + 1).max(zero + 1));
    let as_i64 = |n: &usize| *n as i64;
    let shape: Vec<i64> = shape.iter().map(as_i64).collect();
    let strides: Vec<i64> = strides.iter().map(|&n| n as i64).collect();
    let tensor = Producer::new(bytes.clone(), &shape)
        .strides(&strides)
        .byte_offset((zero * width / 8) as u64)
        .with(|p| p.tensor.dtype = dtype.into())
        .import();
    (tensor.unwrap(), at, bytes)
}

#[test]
fn bits_agree_with_the_model() {
    for (dtype, width) in dtypes() {
        for &(layout, zero) in LAYOUTS.iter().step_by(if cfg!(miri) { 3 } else { 1 }) {
            let (tensor, at, bytes) = lent(dtype, width, layout, zero);
            let view = tensor.view_subbyte().unwrap();
            let expected: Vec<_> = at.iter().map(|&p| bits_at(&bytes, p, width)).collect();
            assert!(view.iter().eq(expected.iter().copied()), "{dtype} {layout:?}");
            let by_index = crate::common::indices(layout.0);
            assert!(by_index.iter().map(|i| view.get(i).unwrap()).eq(expected.iter().copied()));
            assert_eq!((view.len(), view.is_empty()), (expected.len(), expected.is_empty()));
            let outside: Vec<usize> = layout.0.to_vec();
            assert_eq!(view.get(&outside), (outside.is_empty()).then(|| expected[0]));
        }
    }
}

#[test]
fn unpacking_and_packing_keep_every_element() {
    for (dtype, width) in dtypes() {
        for &(layout, zero) in LAYOUTS.iter().step_by(if cfg!(miri) { 3 } else { 1 }) {
            let (tensor, at, bytes) = lent(dtype, width, layout, zero);
            let expected: Vec<_> = at.iter().map(|&p| bits_at(&bytes, p, width)).collect();
            let unpacked = tensor.to_unpacked().unwrap();
            assert_eq!((unpacked.flags() & PADDED, unpacked.dtype()), (PADDED, dtype));
            assert_eq!(unpacked.nbytes(), (expected.len() * dtype.itemsize()) as u128);
            let packed = [tensor.to_packed(), unpacked.to_packed(), tensor.to_copy()];
            for copy in packed.into_iter().map(Result::unwrap).chain([unpacked]) {
                assert!(copy.view_subbyte().unwrap().iter().eq(expected.iter().copied()));
                assert_eq!(copy.shape(), tensor.shape());
                assert!(
                    copy.is_c_contiguous() && (copy.is_empty() || copy.data().addr() % 256 == 0)
                );
            }
        }
    }
}

#[test]
fn packed_bytes_follow_the_specification() {
    let tensor =
        Tensor::from_bytes(vec![0x21, 0x43, 0x05], DataType::FLOAT4_E2M1FN, [5], 0).unwrap();
    assert_eq!(bytes(&tensor.to_unpacked().unwrap()), [1, 2, 3, 4, 5]);
    assert_eq!(bytes(&tensor.to_unpacked().unwrap().to_packed().unwrap()), [0x21, 0x43, 0x05]);
    // Four elements of six bits fill three bytes.
    let six = Tensor::from_bytes(
        vec![0b1000_0001, 0b0011_0000, 0b0001_0000],
        "float6_e2m3fn".parse().unwrap(),
        [4],
        0,
    );
    assert_eq!(bytes(&six.unwrap().to_unpacked().unwrap()), [1, 2, 3, 4]);
}

fn bytes(tensor: &Tensor) -> &[u8] {
    TensorRef::from(tensor).as_bytes().unwrap()
}

#[test]
fn unpacking_extends_the_sign_of_signed_integers_only() {
    let of = |name: &str, bytes: &[u8], n| {
        Tensor::from_bytes(bytes.to_vec(), name.parse().unwrap(), [n], 0).unwrap()
    };
    let int4 = of("int4", &[0x8f, 0x70], 4);
    let view = int4.view_subbyte().unwrap();
    assert!(view.iter().map(|bits| view.signed(bits)).eq([-1, -8, 0, 7]));
    assert_eq!(bytes(&int4.to_unpacked().unwrap()), [0xff, 0xf8, 0, 7]);
    assert_eq!(bytes(&int4.to_unpacked().unwrap().to_packed().unwrap()), [0x8f, 0x70]);
    assert_eq!(bytes(&of("uint4", &[0x8f], 2).to_unpacked().unwrap()), [0x0f, 0x08]);
    assert_eq!(bytes(&of("float4_e2m1fn", &[0x8f], 2).to_unpacked().unwrap()), [0x0f, 0x08]);
    // Several lanes are not one number, so unpacking extends no sign.
    let lanes = of("int4x3", &[0xff, 0x0f], 1);
    assert_eq!(bytes(&lanes.to_unpacked().unwrap()), 0x0fff_u16.to_ne_bytes());
    let int12 = of("int12", &[0xff, 0xff, 0x7f], 2).to_unpacked().unwrap();
    let twelve = int12.view_subbyte().unwrap();
    assert!(twelve.iter().map(|bits| twelve.signed(bits)).eq([-1, 0x7ff]));
    assert_eq!(bytes(&int12), [(-1_i16).to_ne_bytes(), 0x7ff_i16.to_ne_bytes()].concat());
}

#[test]
fn write_of_a_padded_element_writes_its_whole_byte() {
    let int4 = Tensor::from_bytes(vec![0x7f], "int4".parse().unwrap(), [2], 0).unwrap();
    let mut padded = int4.to_unpacked().unwrap();
    assert_eq!(bytes(&padded), [0xff, 7]);
    let mut view = padded.view_subbyte_mut().unwrap();
    view.set(&[0], 3);
    view.set(&[1], 0xf);
    assert_eq!(bytes(&padded), [3, 0xff], "as an int8 would be");
    assert_eq!(bytes(&padded.to_packed().unwrap()), [0xf3]);
}

#[test]
fn write_changes_one_element_and_no_other_bit() {
    for (dtype, width) in dtypes() {
        for padded in [false, true] {
            let stride = if padded { dtype.itemsize() * 8 } else { width };
            let before = noise((stride * 11).div_ceil(8));
            let ones = u64::MAX >> (64 - width);
            let places = (0..11).step_by(if cfg!(miri) { 5 } else { 1 });
            for (nth, bits) in places.flat_map(|nth| [(nth, 0), (nth, ones), (nth, ones / 3)]) {
                let flags =
                    dlbridge::sys::DLPACK_FLAG_BITMASK_IS_COPIED + PADDED * u64::from(padded);
                let mut tensor = Producer::new(before.clone(), &[11])
                    .with(|p| p.tensor.dtype = dtype.into())
                    .flags(flags)
                    .import()
                    .unwrap();
                let others: Vec<u64> = tensor.view_subbyte().unwrap().iter().collect();
                tensor.view_subbyte_mut().unwrap().set(&[nth], bits);
                let now = tensor.view_subbyte().unwrap();
                let mut expected = others;
                expected[nth] = bits;
                assert!(now.iter().eq(expected), "{dtype} {padded} {nth}");
                if !padded {
                    // The unused bits of the last byte do not change.
                    let last = bytes(&tensor)[before.len() - 1];
                    let free = 0xff_u8.checked_shl((width * 11 % 8) as u32).unwrap_or(0);
                    let free = if width * 11 % 8 == 0 { 0 } else { free };
                    assert_eq!(last & free, before[before.len() - 1] & free);
                }
            }
        }
    }
}

#[test]
fn write_of_strided_elements_succeeds() {
    let mut tensor = Tensor::from_bytes(vec![0; 3], "uint4".parse().unwrap(), [2, 3], 0).unwrap();
    let columns = dlbridge::TensorRefMut::try_from(&mut tensor).unwrap().transpose();
    let mut view = columns.into_view_subbyte_mut().unwrap();
    view.set(&[2, 0], 7);
    view.set(&[0, 1], 9);
    assert!(view.as_view().iter().eq([0, 9, 0, 0, 7, 0]));
    assert_eq!(tensor.try_into_owner::<Vec<u8>>().unwrap(), [0, 0x97, 0]);
}

#[test]
#[should_panic(expected = "0x10 has more bits than an element of uint4")]
fn write_of_too_many_bits_panics() {
    let mut tensor = Tensor::from_bytes(vec![0], "uint4".parse().unwrap(), [2], 0).unwrap();
    tensor.view_subbyte_mut().unwrap().set(&[0], 16);
}

#[test]
#[should_panic(expected = "index [2] is outside of shape [2]")]
fn write_outside_of_the_shape_panics() {
    let mut tensor = Tensor::from_bytes(vec![0], "uint4".parse().unwrap(), [2], 0).unwrap();
    tensor.view_subbyte_mut().unwrap().set(&[2], 1);
}

#[test]
fn bit_view_of_other_elements_or_devices_is_refused() {
    let of = |dtype: DataType| {
        Producer::new(vec![0_u8; 64], &[2]).with(|p| p.tensor.dtype = dtype.into())
    };
    for name in ["uint8", "float32", "float4_e2m1fnx2", "uint13x5"] {
        let dtype = name.parse().unwrap();
        let tensor = of(dtype).import().unwrap();
        let refused = Error::NotSubbyte { dtype };
        assert_eq!(tensor.view_subbyte().unwrap_err(), refused);
        assert_eq!(tensor.to_unpacked().unwrap_err(), refused);
        assert_eq!(tensor.to_packed().unwrap_err(), refused);
    }
    let mut tensor = of("uint4".parse().unwrap()).import().unwrap();
    assert_eq!(tensor.view_subbyte_mut().unwrap_err(), Error::Shared);
    let cuda = of("uint4".parse().unwrap()).device(2, 0).import().unwrap();
    let device = Device::new(DeviceType::CUDA, 0);
    assert_eq!(cuda.view_subbyte().unwrap_err(), Error::NotHostAccessible { device });
    let mut same = Tensor::from_bytes(vec![0], "uint4".parse().unwrap(), [1], 0).unwrap();
    assert!(same.view_subbyte_mut().is_ok());
    let overlapping = of("uint4".parse().unwrap()).strides(&[0]).flags(2).import();
    assert_eq!(overlapping.unwrap().view_subbyte_mut().unwrap_err(), Error::Overlapping);
}
