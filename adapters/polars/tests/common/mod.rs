//! Owners that count their drops, and tensors as others lend them.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlbridge::{Access, Device, DeviceType, Element, RawParts, Tensor};

/// How often something was dropped, told to whoever holds a clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A vector that counts its drops.
struct Counted<T> {
    values: Vec<T>,
    dropped: Count,
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.dropped.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Shape, strides and offset.
pub(crate) type Layout<'a> = (&'a [i64], &'a [i64], usize);

/// A tensor over a vector that counts its drops, with strides in elements from an offset on.
pub(crate) fn lent<T: Element>(
    values: Vec<T>,
    (shape, strides, offset): Layout<'_>,
    access: Access,
) -> (Tensor, Count) {
    on(Device::CPU, values, (shape, strides, offset), access)
}

/// One dimension in C order, exclusive.
pub(crate) fn counted<T: Element>(values: Vec<T>) -> (Tensor, Count) {
    let len = values.len() as i64;
    lent(values, (&[len], &[1], 0), Access::Exclusive)
}

/// Bytes that are said to be on a GPU.
pub(crate) fn on_cuda(access: Access) -> (Tensor, Count) {
    on(Device::new(DeviceType::CUDA, 0), vec![1.0_f32], (&[1], &[1], 0), access)
}

fn on<T: Element>(
    device: Device,
    values: Vec<T>,
    (shape, strides, offset): Layout<'_>,
    access: Access,
) -> (Tensor, Count) {
    let dropped = Count::default();
    let mut owner = Counted { values, dropped: dropped.clone() };
    let first = owner.values.as_mut_ptr().wrapping_add(offset);
    let parts = RawParts { device, ..RawParts::of_elements(first, access) };
    // SAFETY: the tests describe elements of the vector, which nobody else has.
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, shape, Some(strides)) };
    (tensor.expect("a tensor"), dropped)
}

/// A tensor of floats at an address that is not aligned for them.
pub(crate) fn misaligned() -> (Tensor, Count) {
    let (whole, dropped) = counted(vec![0_u8; 16]);
    let address = whole.data().cast::<u8>();
    let odd = address.wrapping_add(1 + (4 - address.addr() % 4) % 4);
    let parts = RawParts {
        access: Access::Exclusive,
        ..RawParts::new(odd.cast(), dlbridge::DataType::FLOAT32)
    };
    // SAFETY: two floats within the sixteen bytes, which the other tensor keeps alive.
    let tensor = unsafe { Tensor::from_raw_parts(whole, parts, &[2], None::<&[i64]>) };
    (tensor.expect("a tensor"), dropped)
}
