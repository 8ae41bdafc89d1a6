//! Test doubles: a C producer whose deleter counts, a C consumer, custom owners and elements, and a naive model of
//! strided layouts.
#![allow(dead_code, reason = "each test file uses only some of these items")]

pub(crate) mod model;

use std::any::Any;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlbridge::sys::{
    DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
    kDLCPU,
};
use dlbridge::{Access, DataType, Element, Error, Owner, Result, Tensor};

/// A counter that its clones share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A tensor that a C producer will export: a description, and the memory that it points into.
pub(crate) struct Producer {
    pub(crate) version: DLPackVersion,
    pub(crate) flags: u64,
    pub(crate) tensor: DLTensor,
    kept: Vec<Box<dyn Any + Send>>,
    deleted: Count,
}

/// The value that `manager_ctx` points to; the deleter frees it.
struct Context {
    deleted: Count,
    _kept: Vec<Box<dyn Any + Send>>,
}

impl Producer {
    /// Describes CPU memory with elements of a Rust type, in C order, without strides.
    pub(crate) fn new<T: Element>(mut values: Vec<T>, shape: &[i64]) -> Self {
        let data = values.as_mut_ptr().cast();
        let mut producer = Self::at(data, T::DATA_TYPE, shape);
        producer.kept.push(Box::new(values));
        producer
    }

    /// Describes memory at any address, which this does not own, in C order, without strides.
    pub(crate) fn at(data: *mut c_void, dtype: DataType, shape: &[i64]) -> Self {
        let tensor = DLTensor {
            data,
            device: DLDevice { device_type: kDLCPU, device_id: 0 },
            ndim: 0,
            dtype: dtype.into(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let version = DLPackVersion::CURRENT;
        let producer =
            Self { version, flags: 0, tensor, kept: Vec::new(), deleted: Count::default() };
        producer.with(|p| {
            p.tensor.ndim = shape.len() as i32;
            p.tensor.shape = p.keep(shape.to_vec());
        })
    }

    pub(crate) fn strides(self, strides: &[i64]) -> Self {
        self.with(|p| p.tensor.strides = p.keep(strides.to_vec()))
    }

    pub(crate) fn flags(self, flags: u64) -> Self {
        self.with(|p| p.flags = flags)
    }

    pub(crate) fn byte_offset(self, byte_offset: u64) -> Self {
        self.with(|p| p.tensor.byte_offset = byte_offset)
    }

    pub(crate) fn device(self, code: i32, device_id: i32) -> Self {
        self.with(|p| {
            p.tensor.device = DLDevice { device_type: DLDeviceType(code), device_id };
        })
    }

    /// Makes any other change.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Keeps values until the deleter runs, and returns their address.
    pub(crate) fn keep<T: Send + 'static>(&mut self, mut values: Vec<T>) -> *mut T {
        let first = values.as_mut_ptr();
        self.kept.push(Box::new(values));
        first
    }

    /// Returns the counter of deleter calls.
    pub(crate) fn deleted(&self) -> Count {
        self.deleted.clone()
    }

    fn into_context(self) -> *mut c_void {
        Box::into_raw(Box::new(Context { deleted: self.deleted, _kept: self.kept })).cast()
    }

    /// Exports the tensor.
    pub(crate) fn versioned(self) -> *mut DLManagedTensorVersioned {
        let (version, flags, dl_tensor) = (self.version, self.flags, self.tensor);
        let manager_ctx = self.into_context();
        let deleter = Some(delete_versioned as _);
        Box::into_raw(Box::new(DLManagedTensorVersioned {
            version,
            manager_ctx,
            deleter,
            flags,
            dl_tensor,
        }))
    }

    /// Exports the tensor as a legacy struct, which has neither version nor flags.
    pub(crate) fn legacy(self) -> *mut DLManagedTensor {
        let dl_tensor = self.tensor;
        let manager_ctx = self.into_context();
        let deleter = Some(delete_legacy as _);
        Box::into_raw(Box::new(DLManagedTensor { dl_tensor, manager_ctx, deleter }))
    }

    /// Exports the tensor to dlbridge. The deleter must have run if and only if the import fails.
    pub(crate) fn import(self) -> Result<Tensor> {
        let deleted = self.deleted();
        let tensor = take(self.versioned());
        assert_eq!(deleted.get(), usize::from(tensor.is_err()), "after {:?}", tensor.as_ref());
        tensor
    }

    /// Exports the tensor to dlbridge as a legacy struct.
    pub(crate) fn import_legacy(self) -> Result<Tensor> {
        let deleted = self.deleted();
        let tensor = take_legacy(self.legacy());
        assert_eq!(deleted.get(), usize::from(tensor.is_err()), "after {:?}", tensor.as_ref());
        tensor
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: `versioned` made it from a box, and the consumer calls this once.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: `into_context` made it from a box.
    let context = unsafe { Box::from_raw(managed.manager_ctx.cast::<Context>()) };
    context.deleted.add_one();
}

unsafe extern "C" fn delete_legacy(managed: *mut DLManagedTensor) {
    // SAFETY: `legacy` made it from a box, and the consumer calls this once.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: `into_context` made it from a box.
    let context = unsafe { Box::from_raw(managed.manager_ctx.cast::<Context>()) };
    context.deleted.add_one();
}

/// Imports the same tensor through both ABIs, passes the result to a check that drops it, and asserts
/// that the deleter ran once.
#[track_caller]
pub(crate) fn through_both(make: impl Fn() -> Producer, check: impl Fn(Result<Tensor>)) {
    for import in [Producer::import, Producer::import_legacy] {
        let producer = make();
        let deleted = producer.deleted();
        check(import(producer));
        assert_eq!(deleted.get(), 1);
    }
}

/// Asserts that both ABIs refuse a tensor with this error.
#[track_caller]
pub(crate) fn refused(make: impl Fn() -> Producer, error: Error) {
    through_both(make, |result| assert_eq!(result.unwrap_err(), error));
}

/// Imports a managed tensor.
pub(crate) fn take(managed: *mut DLManagedTensorVersioned) -> Result<Tensor> {
    // SAFETY: the tests pass a tensor that `Producer` or `Tensor` exported, or a pointer that is
    // refused, and no other code uses it.
    unsafe { Tensor::from_raw(managed) }
}

/// Imports a legacy managed tensor.
pub(crate) fn take_legacy(managed: *mut DLManagedTensor) -> Result<Tensor> {
    // SAFETY: the tests pass a tensor that `Producer` or `Tensor` exported, or a pointer that is refused, and no other
    // code uses it.
    unsafe { Tensor::from_raw_legacy(managed) }
}

/// Calls the deleter, as a C consumer does when it is done.
pub(crate) fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the tests pass each exported tensor once.
    unsafe { (*managed).deleter.expect("a deleter")(managed) }
}

/// Calls the deleter of a legacy managed tensor.
pub(crate) fn delete_the_legacy(managed: *mut DLManagedTensor) {
    // SAFETY: the tests pass each exported tensor once.
    unsafe { (*managed).deleter.expect("a deleter")(managed) }
}

/// Returns the shape and the strides of a description.
pub(crate) fn dims(tensor: &DLTensor) -> (Vec<i64>, Vec<i64>) {
    assert!(!tensor.shape.is_null() && !tensor.strides.is_null());
    let read = |pointer: *mut i64| {
        // SAFETY: the description belongs to a live tensor, and has `ndim` extents and strides.
        (0..tensor.ndim as usize).map(|axis| unsafe { pointer.add(axis).read() }).collect()
    };
    (read(tensor.shape), read(tensor.strides))
}

/// An owner that counts its drops.
#[derive(Debug)]
pub(crate) struct Counted<O> {
    pub(crate) owner: O,
    pub(crate) dropped: Count,
}

impl<O> Counted<O> {
    pub(crate) fn new(owner: O) -> (Self, Count) {
        let dropped = Count::default();
        (Self { owner, dropped: dropped.clone() }, dropped)
    }
}

impl<O> Drop for Counted<O> {
    fn drop(&mut self) {
        self.dropped.add_one();
    }
}

// SAFETY: the memory is that of the inner owner, which this keeps.
unsafe impl<O: Owner> Owner for Counted<O> {
    type Item = O::Item;
    const ACCESS: Access = O::ACCESS;

    fn items(&mut self) -> *mut [O::Item] {
        self.owner.items()
    }
}

/// A 4-bit float in a byte of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
pub(crate) struct Nibble(pub(crate) u8);

// SAFETY: one byte, which is the item size of the dtype, and every bit pattern is a valid value.
unsafe impl Element for Nibble {
    const DATA_TYPE: DataType = DataType::FLOAT4_E2M1FN;
}

/// Returns all indices of a shape, the last axis fastest.
pub(crate) fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let index = |mut nth: usize| {
        let mut index = vec![0; shape.len()];
        for (i, &extent) in index.iter_mut().zip(shape).rev() {
            (*i, nth) = (nth % extent, nth / extent);
        }
        index
    };
    (0..shape.iter().product()).map(index).collect()
}

/// Returns the positions of all elements of a layout, sorted by index, the last axis fastest.
pub(crate) fn positions(shape: &[usize], strides: &[isize], offset: usize) -> Vec<usize> {
    let position = |index: Vec<usize>| {
        let steps = index.iter().zip(strides).map(|(&i, &stride)| i as isize * stride);
        (offset as isize + steps.sum::<isize>()) as usize
    };
    indices(shape).into_iter().map(position).collect()
}
