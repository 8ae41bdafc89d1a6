//! Calls operators without a framework: by the entry for tvm-ffi, with arguments in the tests' own memory.

#![allow(dead_code, reason = "each test program uses a part")]

use std::ffi::c_void;
use std::ptr;

use dlbridge::sys::DLTensor;
use dlbridge::{Device, Element, Tensor};
use dlbridge_ops::tvm::{Any, Payload, Results, invoke};
use dlbridge_ops::{Define, Error};

/// A tensor in memory of the test.
pub(crate) struct Array<T> {
    pub(crate) data: Vec<T>,
    described: Box<DLTensor>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl<T: Element> Array<T> {
    pub(crate) fn new(data: Vec<T>, shape: &[i64]) -> Self {
        Self::strided(data, shape, &[], 0)
    }

    /// Strides count elements; without them, the elements are in C order.
    pub(crate) fn strided(data: Vec<T>, shape: &[i64], strides: &[i64], byte_offset: u64) -> Self {
        let described = Box::new(DLTensor {
            data: ptr::null_mut(),
            device: Device::CPU.into(),
            ndim: shape.len() as i32,
            dtype: T::DATA_TYPE.into(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset,
        });
        Self { data, described, shape: shape.to_vec(), strides: strides.to_vec() }
    }

    /// The tensor on another device.
    pub(crate) fn on(mut self, device: Device) -> Self {
        self.described.device = device.into();
        self
    }

    /// The argument, valid until the array is used again.
    pub(crate) fn any(&mut self) -> Any {
        self.described.data = self.data.as_mut_ptr().cast();
        self.described.shape = self.shape.as_mut_ptr();
        if !self.strides.is_empty() {
            self.described.strides = self.strides.as_mut_ptr();
        }
        of(7, ptr::from_mut(&mut *self.described).cast())
    }
}

/// A vector as a tensor of one dimension.
pub(crate) fn vector<T: Element>(data: impl Into<Vec<T>>) -> Array<T> {
    let data = data.into();
    let length = data.len() as i64;
    Array::new(data, &[length])
}

/// A tensor of zeros.
pub(crate) fn zeros<T: Element + Default>(shape: &[i64]) -> Array<T> {
    let count: i64 = shape.iter().product();
    Array::new(vec![T::default(); count as usize], shape)
}

fn of(type_index: i32, pointer: *mut c_void) -> Any {
    Any { type_index, small_length: 0, payload: Payload { pointer } }
}

pub(crate) fn none() -> Any {
    Any::NONE
}

pub(crate) fn int(int: i64) -> Any {
    Any { type_index: 1, small_length: 0, payload: Payload { int } }
}

pub(crate) fn boolean(value: bool) -> Any {
    Any { type_index: 2, small_length: 0, payload: Payload { int: value.into() } }
}

pub(crate) fn float(float: f64) -> Any {
    Any { type_index: 3, small_length: 0, payload: Payload { float } }
}

/// A string that ends with 0.
pub(crate) fn text(text: &'static std::ffi::CStr) -> Any {
    of(8, text.as_ptr().cast_mut().cast())
}

/// A string of at most 7 bytes.
pub(crate) fn small(text: &str) -> Any {
    let mut bytes = [0; 8];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    Any { type_index: 11, small_length: text.len() as u32, payload: Payload { bytes } }
}

/// An object with the content `data`, `length`: a string, a shape or an array.
#[repr(C)]
pub(crate) struct Object {
    counts: u64,
    type_index: i32,
    padding: u32,
    deleter: usize,
    data: *const c_void,
    length: usize,
}

impl Object {
    fn new(type_index: i32, data: *const c_void, length: usize) -> Self {
        Self { counts: 1, type_index, padding: 0, deleter: 0, data, length }
    }

    pub(crate) fn string(text: &str) -> Self {
        Self::new(65, text.as_ptr().cast(), text.len())
    }

    pub(crate) fn shape(extents: &[i64]) -> Self {
        Self::new(69, extents.as_ptr().cast(), extents.len())
    }

    pub(crate) fn array(elements: &[Any]) -> Self {
        Self::new(71, elements.as_ptr().cast(), elements.len())
    }

    pub(crate) fn any(&self) -> Any {
        of(self.type_index, ptr::from_ref(self).cast_mut().cast())
    }
}

/// Calls an operator, and returns the new tensors.
pub(crate) fn call<O: Define>(arguments: &[Any]) -> Result<Results, Error> {
    // SAFETY: the arguments are those of the functions here; the memory belongs to the test's thread.
    unsafe { invoke(O::OPERATOR, arguments.as_ptr(), arguments.len() as i32) }
}

/// The elements of the only result of a call.
pub(crate) fn one<O: Define, T: Element>(arguments: &[Any]) -> Result<Vec<T>, Error> {
    let results = call::<O>(arguments)?;
    assert_eq!(results.len(), 1);
    Ok(elements(&results[0]))
}

pub(crate) fn elements<T: Element>(tensor: &Tensor) -> Vec<T> {
    tensor.view::<T>().unwrap().to_vec()
}

/// The message of a call that fails.
pub(crate) fn message<O: Define>(arguments: &[Any]) -> String {
    call::<O>(arguments).map(drop).unwrap_err().to_string()
}
