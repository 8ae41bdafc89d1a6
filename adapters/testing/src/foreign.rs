//! Tensors of a producer that counts the drops of their owners.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlbridge::{Access, DataType, Device, DeviceType, Element, Owner, RawParts, Tensor};

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
