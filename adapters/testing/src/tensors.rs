//! Tensors of a producer that counts the drops of their owners, and those that the tests of devices copy to a device.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlbridge::{
    Access, DataType, Device, DeviceType, Element, Owner, RawParts, Result, Tensor, TensorRef,
};

/// The number of dropped owners.
#[derive(Clone, Debug, Default)]
pub struct Drops(Arc<AtomicUsize>);

impl Drops {
    /// Returns the number.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A value that counts its drops.
#[derive(Debug)]
pub struct Counted<T> {
    value: T,
    drops: Drops,
}

impl<T> Counted<T> {
    /// Makes a value whose drop is counted together with the drops of other values.
    pub fn new(value: T, drops: &Drops) -> Self {
        Self { value, drops: drops.clone() }
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.drops.0.fetch_add(1, Ordering::SeqCst);
    }
}

// SAFETY: forwards to the vector.
unsafe impl<T: Element> Owner for Counted<Vec<T>> {
    type Item = T;
    const ACCESS: Access = Vec::<T>::ACCESS;

    fn items(&mut self) -> *mut [T] {
        self.value.items()
    }
}

/// Shape, strides and offset, all in elements.
pub type Layout<'a> = (&'a [i64], &'a [i64], usize);

/// Returns a tensor in C order.
pub fn foreign<T: Element>(elements: &[T], shape: &[usize], access: Access) -> (Tensor, Drops) {
    let shape: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    described(Device::CPU, elements.to_vec(), (&shape, None, 0), access)
}

/// Returns a tensor over a vector, with strides from an offset on.
pub fn foreign_strided<T: Element>(
    elements: Vec<T>,
    (shape, strides, offset): Layout<'_>,
    access: Access,
) -> (Tensor, Drops) {
    described(Device::CPU, elements, (shape, Some(strides), offset), access)
}

/// Returns an exclusive tensor of one dimension over a vector.
pub fn foreign_vec<T: Element>(elements: Vec<T>) -> (Tensor, Drops) {
    let len = elements.len() as i64;
    foreign_strided(elements, (&[len], &[1], 0), Access::Exclusive)
}

/// Returns a tensor in main memory that says it is on a GPU.
pub fn on_cuda(access: Access) -> (Tensor, Drops) {
    let device = Device::new(DeviceType::CUDA, 0);
    described(device, vec![1.0_f32], (&[1], Some(&[1]), 0), access)
}

/// Returns two floats at an address that is not aligned for them.
pub fn misaligned() -> (Tensor, Drops) {
    let (whole, drops) = foreign_vec(vec![0_u8; 16]);
    let address = whole.data().cast::<u8>();
    let odd = address.wrapping_add(1 + (4 - address.addr() % 4) % 4);
    let parts =
        RawParts { access: Access::Exclusive, ..RawParts::new(odd.cast(), DataType::FLOAT32) };
    // SAFETY: two floats within the sixteen bytes, which the other tensor keeps alive.
    let tensor = unsafe { Tensor::from_raw_parts(whole, parts, &[2], None::<&[i64]>) };
    (tensor.expect("a tensor"), drops)
}

/// Returns floats in one dimension, at an address that is not aligned for them.
pub fn misaligned_floats(elements: &[f32]) -> Tensor {
    let mut bytes = vec![0; 4 * elements.len() + 8];
    let offset = bytes.as_ptr().align_offset(4) + 1;
    for (place, element) in bytes[offset..].chunks_exact_mut(4).zip(elements) {
        place.copy_from_slice(&element.to_ne_bytes());
    }
    Tensor::from_bytes(bytes, DataType::FLOAT32, [elements.len()], offset).expect("a tensor")
}

/// Returns two elements on a GPU, at an address that the CPU cannot read.
pub fn out_of_reach(owner: impl Send + 'static, dtype: DataType) -> Tensor {
    let device = Device::new(DeviceType::CUDA, 1);
    let parts = RawParts { device, ..RawParts::new(ptr::without_provenance_mut(4096), dtype) };
    // SAFETY: no code follows an address on a device that the CPU cannot reach.
    unsafe { Tensor::from_raw_parts(owner, parts, &[2], None::<&[i64]>) }.expect("a tensor")
}

fn described<T: Element>(
    device: Device,
    elements: Vec<T>,
    (shape, strides, offset): (&[i64], Option<&[i64]>, usize),
    access: Access,
) -> (Tensor, Drops) {
    let drops = Drops::default();
    let mut owner = Counted::new(elements, &drops);
    let first = owner.value.as_mut_ptr().wrapping_add(offset);
    let parts = RawParts { device, ..RawParts::of_elements(first, access) };
    // SAFETY: the tests describe elements of the vector, which no other code has, and which stay where they are when
    // it moves.
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, shape, strides) };
    (tensor.expect("a tensor"), drops)
}

/// A float of four bits in a byte of its own.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Narrow(pub u8);

// SAFETY: a byte; every byte is a value of the type.
unsafe impl Element for Narrow {
    const DATA_TYPE: DataType = DataType::FLOAT4_E2M1FN;
}

/// Returns the floats of a tensor on the host.
pub fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.view::<f32>().expect("floats on the host").to_vec()
}

/// Calls a test with each dtype that every device carries, and with the bytes of three packed elements.
pub fn for_each_dtype(mut test: impl FnMut(DataType, &[u8])) {
    let dtypes = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 complex64 \
                  complex128 float8_e4m3fn float8_e5m2 float4_e2m1fn float6_e2m3fn int4 uint4 float32x4";
    for name in dtypes.split_whitespace() {
        let dtype: DataType = name.parse().expect("a dtype");
        let len = (dtype.element_bits() as usize * 3).div_ceil(8);
        test(dtype, &(1..=len as u8).collect::<Vec<u8>>());
    }
}

/// Asserts that a tensor on the host has a dtype, and exactly these bytes.
#[track_caller]
pub fn assert_bytes(host: &Tensor, dtype: DataType, bytes: &[u8]) {
    assert_eq!((host.dtype(), host.nbytes()), (dtype, bytes.len() as u128));
    assert_eq!(TensorRef::from(host).as_bytes().expect("contiguous"), bytes, "{dtype}");
}

/// Calls a test with tensors of floats without elements, with one, and with strides.
pub fn for_each_shape(test: impl Fn(&Tensor)) {
    test(&Tensor::zeroed(DataType::FLOAT32, [0, 3]).expect("a tensor"));
    test(&Tensor::from(vec![7.0_f32]).reshape([]).expect("a tensor"));
    test(&Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]).transpose());
}

/// A slice, its name, and its byte offset in a tensor of 2, 3 and 4 floats.
pub type Slice = (&'static str, fn(Tensor) -> Result<Tensor>, u64);

/// Slices that begin, end and step in every way.
pub const SLICES: [Slice; 9] = [
    ("slice", |t| t.slice(1, 1..3), 16),
    ("index", |t| t.index_axis(0, 1), 48),
    ("steps", |t| t.step_by(2, 2), 0),
    ("backwards", |t| t.flip(0)?.flip(2), 60),
    ("transposed", |t| Ok(t.transpose()), 0),
    ("slice of a transposed one", |t| t.transpose().slice(0, 1..3)?.flip(1), 36),
    ("one element", |t| t.index_axis(0, 1)?.index_axis(0, 2)?.index_axis(0, 3), 92),
    ("shared", |t| t.index_axis(0, 1)?.into_shared().share().slice(0, 1..2)?.index_axis(1, 3), 76),
    ("nothing", |t| t.slice(0, 1..1), 0),
];

/// Returns the tensor of 2, 3 and 4 floats that [`SLICES`] are of.
pub fn sliced() -> Tensor {
    let values: Vec<f32> = (0..24).map(|i| i as f32).collect();
    Tensor::from(values).reshape([2, 3, 4]).expect("24 elements")
}

/// Asserts that slices of a tensor on a device keep its handle, and have the elements of the same slices on the host.
#[track_caller]
pub fn assert_slices(to_device: impl Fn(&Tensor) -> Tensor, to_host: impl Fn(&Tensor) -> Tensor) {
    for (name, slice, byte_offset) in SLICES {
        let on_device = to_device(&sliced());
        let handle = on_device.data();
        let (on_device, host) = (slice(on_device).expect(name), slice(sliced()).expect(name));
        assert_eq!((on_device.shape(), on_device.strides()), (host.shape(), host.strides()));
        assert_eq!(on_device.byte_offset(), byte_offset, "{name}");
        assert!(on_device.is_empty() || on_device.data() == handle, "{name}");
        assert_eq!(numbers(&to_host(&on_device)), numbers(&host), "{name}");
    }
}
