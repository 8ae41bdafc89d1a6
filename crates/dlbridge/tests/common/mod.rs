//! The other side of the border, as the tests play it: a C producer whose deleter counts, a C
//! consumer, owners and elements of one's own, and a naive model of strided layouts.
#![allow(dead_code, reason = "every test file uses a part of it")]

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

/// How often something happened, told to whoever holds a clone.
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

/// What a C producer is about to lend: a description, and the memory it points into.
pub(crate) struct Producer {
    pub(crate) version: DLPackVersion,
    pub(crate) flags: u64,
    pub(crate) tensor: DLTensor,
    kept: Vec<Box<dyn Any + Send>>,
    deleted: Count,
}

/// What stands behind `manager_ctx`; the deleter frees it.
struct Context {
    deleted: Count,
    _kept: Vec<Box<dyn Any + Send>>,
}

impl Producer {
    /// CPU memory with elements of a Rust type, in C order, without strides.
    pub(crate) fn new<T: Element>(mut values: Vec<T>, shape: &[i64]) -> Self {
        let data = values.as_mut_ptr().cast();
        let mut producer = Self::at(data, T::DTYPE, shape);
        producer.kept.push(Box::new(values));
        producer
    }

    /// Memory, or no memory, of somebody else's, in C order, without strides.
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

    /// Any other change.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Keeps values until the deleter runs, and tells where they are.
    pub(crate) fn keep<T: Send + 'static>(&mut self, mut values: Vec<T>) -> *mut T {
        let first = values.as_mut_ptr();
        self.kept.push(Box::new(values));
        first
    }

    /// How often the deleter ran.
    pub(crate) fn deleted(&self) -> Count {
        self.deleted.clone()
    }

    fn into_context(self) -> *mut c_void {
        Box::into_raw(Box::new(Context { deleted: self.deleted, _kept: self.kept })).cast()
    }

    /// Lends it.
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

    /// Lends it as a legacy struct, which has neither version nor flags.
    pub(crate) fn legacy(self) -> *mut DLManagedTensor {
        let dl_tensor = self.tensor;
        let manager_ctx = self.into_context();
        let deleter = Some(delete_legacy as _);
        Box::into_raw(Box::new(DLManagedTensor { dl_tensor, manager_ctx, deleter }))
    }

    /// Lends it to dlbridge. On error the deleter must have run, otherwise not yet.
    pub(crate) fn import(self) -> Result<Tensor> {
        let deleted = self.deleted();
        let tensor = take(self.versioned());
        assert_eq!(deleted.get(), usize::from(tensor.is_err()), "after {:?}", tensor.as_ref());
        tensor
    }

    /// Lends it to dlbridge as a legacy struct.
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

/// Lends the same through both ABIs, hands the result to a check that drops it, and sees that the
/// deleter ran once.
#[track_caller]
pub(crate) fn through_both(make: impl Fn() -> Producer, check: impl Fn(Result<Tensor>)) {
    for import in [Producer::import, Producer::import_legacy] {
        let producer = make();
        let deleted = producer.deleted();
        check(import(producer));
        assert_eq!(deleted.get(), 1);
    }
}

/// Sees that both ABIs refuse a tensor with this error.
#[track_caller]
pub(crate) fn refused(make: impl Fn() -> Producer, error: Error) {
    through_both(make, |result| assert_eq!(result.unwrap_err(), error));
}

/// Takes a managed tensor over.
pub(crate) fn take(managed: *mut DLManagedTensorVersioned) -> Result<Tensor> {
    // SAFETY: the tests pass what `Producer` or `Tensor` lent, or pointers that are refused, and
    // nobody else has it.
    unsafe { Tensor::from_raw(managed) }
}

/// Takes a legacy managed tensor over.
pub(crate) fn take_legacy(managed: *mut DLManagedTensor) -> Result<Tensor> {
    // SAFETY: as in `take`.
    unsafe { Tensor::from_raw_legacy(managed) }
}

/// Calls the deleter, as a C consumer does when it is done.
pub(crate) fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the tests pass what was lent to them, once.
    unsafe { (*managed).deleter.expect("a deleter")(managed) }
}

/// Calls the deleter of a legacy managed tensor.
pub(crate) fn delete_the_legacy(managed: *mut DLManagedTensor) {
    // SAFETY: as in `delete`.
    unsafe { (*managed).deleter.expect("a deleter")(managed) }
}

/// Shape and strides of a description.
pub(crate) fn dims(tensor: &DLTensor) -> (Vec<i64>, Vec<i64>) {
    assert!(!tensor.shape.is_null() && !tensor.strides.is_null());
    let read = |pointer: *mut i64| {
        // SAFETY: the description is that of a living tensor with `ndim` extents and strides.
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

// SAFETY: forwards to an owner.
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

// SAFETY: one byte, which is the item size of the dtype, for which every bit pattern is valid.
unsafe impl Element for Nibble {
    const DTYPE: DataType = DataType::FLOAT4_E2M1FN;
}

/// All indices of a shape, the last axis fastest.
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

/// The positions of all elements of a layout, in the order of their indices.
pub(crate) fn positions(shape: &[usize], strides: &[isize], offset: usize) -> Vec<usize> {
    let position = |index: Vec<usize>| {
        let steps = index.iter().zip(strides).map(|(&i, &stride)| i as isize * stride);
        (offset as isize + steps.sum::<isize>()) as usize
    };
    indices(shape).into_iter().map(position).collect()
}
