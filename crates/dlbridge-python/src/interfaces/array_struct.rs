//! `__array_struct__`, import and export: a C struct in a capsule, with the place and layout of the elements.
//!
//! Source: `PyArrayInterface` in "The array interface protocol" of the manual of NumPy.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use dlbridge::{ArcTensor, Device};
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyTuple};

use super as typestr;
use crate::import::options::check_on_cpu;
use crate::memory::{MAX_NDIM, Memory, access};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::layout::byte_strides;
use dlbridge_pyo3::layout::root;
use dlbridge_pyo3::python::error::repr_in_message;
use dlbridge_pyo3::python::interpreter::PyOwner;
use dlbridge_pyo3::python::objects::attribute;

/// The struct that the capsule points at.
#[repr(C)]
struct ArrayStruct {
    /// The number two, which identifies the struct.
    two: c_int,
    ndim: c_int,
    kind: c_char,
    itemsize: c_int,
    flags: c_int,
    shape: *mut isize,
    byte_strides: *mut isize,
    data: *mut c_void,
    descr: *mut ffi::PyObject,
}

const C_CONTIGUOUS: c_int = 0x1;
const F_CONTIGUOUS: c_int = 0x2;
const ALIGNED: c_int = 0x100;
const NATIVE_BYTE_ORDER: c_int = 0x200;
const WRITABLE: c_int = 0x400;

/// Imports an object that has `__array_struct__`; `None` for an object without it.
pub(crate) fn import(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    let py = object.py();
    let Some(answer) = attribute(object, intern!(object.py(), "__array_struct__"))? else {
        return Ok(None);
    };
    check_on_cpu(options, "an array interface")?;
    let capsule = answer.cast::<PyCapsule>().map_err(|_| {
        PyBufferError::new_err(format!(
            "__array_struct__ must be a capsule, not {}",
            repr_in_message(&answer)
        ))
    })?;
    if capsule.name()?.is_some() {
        return Err(PyBufferError::new_err(format!(
            "__array_struct__ must be a capsule without a name, not {}",
            repr_in_message(&answer)
        )));
    }
    let pointer: NonNull<ArrayStruct> = capsule.pointer_checked(None)?.cast();
    // NumPy checks the number too: it detects a producer that put something else into an unnamed capsule.
    // SAFETY: the protocol: a capsule in this attribute points at the struct, which begins with this number.
    let two = unsafe { pointer.cast::<c_int>().read_unaligned() };
    if two != 2 {
        return Err(PyBufferError::new_err(format!(
            "__array_struct__ begins with {two}; it must begin with 2"
        )));
    }
    // Other code may change the struct between two reads, so it is read once.
    // SAFETY: the protocol: a capsule in this attribute points at the struct, and the number that marks it is present.
    let fields = unsafe { pointer.read_unaligned() };
    let ndim = usize::try_from(fields.ndim).ok().filter(|&ndim| ndim <= MAX_NDIM);
    let (Some(ndim), Ok(size)) = (ndim, usize::try_from(fields.itemsize)) else {
        return Err(PyBufferError::new_err(format!(
            "__array_struct__ has {} dimensions and elements of {} bytes; it must have 0 to {MAX_NDIM} dimensions",
            fields.ndim, fields.itemsize
        )));
    };
    let numbers = |pointer: *mut isize| {
        if pointer.is_null() && ndim > 0 {
            return None;
        }
        // SAFETY: the protocol: the pointer leads to `ndim` numbers.
        Some((0..ndim).map(|axis| unsafe { pointer.add(axis).read() }).collect::<Vec<_>>())
    };
    let shape = numbers(fields.shape).filter(|shape| shape.iter().all(|&extent| extent >= 0));
    let Some(shape) = shape else {
        return Err(PyBufferError::new_err(
            "__array_struct__ lacks a shape, or has negative extents",
        ));
    };
    let byte_strides = numbers(fields.byte_strides);
    let order = match fields.flags & NATIVE_BYTE_ORDER {
        0 if cfg!(target_endian = "little") => '>',
        0 => '<',
        _ => '|',
    };
    let kind = fields.kind as u8 as char;
    let (dtype, byte_swapped) = typestr::element_type(object, order, kind, size)?;
    let memory = Memory {
        protocol: Protocol::ArrayStruct,
        data: fields.data,
        dtype,
        byte_swapped,
        shape,
        byte_strides,
        device: Device::CPU,
        access: access(fields.flags & WRITABLE == 0),
    };
    let owner = PyOwner::new(PyTuple::new(py, [object, &answer])?.as_any())?;
    // SAFETY: the protocol: the memory is valid while the object and the capsule live, which the owner keeps. The
    // program promises that no code writes while a view is alive (see the documentation of `dlbridge-pyo3`).
    unsafe { memory.import_of(object, owner, options.copy) }.map(Some)
}

/// An exported struct, with the numbers that it points at and the tensor that keeps the memory.
#[repr(C)]
struct Exported {
    /// The first field, because the capsule points at it.
    fields: ArrayStruct,
    shape: Vec<isize>,
    byte_strides: Vec<isize>,
    _owner: ArcTensor,
}

/// A capsule over the tensor; `AttributeError` if the tensor has none.
pub(crate) fn export<'py>(
    py: Python<'py>,
    tensor: &ArcTensor,
    read_only: bool,
) -> PyResult<Bound<'py, PyCapsule>> {
    let on_cpu = tensor.device().device_type().is_host_accessible();
    let Some((kind, itemsize)) = typestr::kind_of(tensor.dtype()).filter(|_| on_cpu) else {
        return Err(PyAttributeError::new_err(format!(
            "__array_struct__ cannot express {} on {}",
            tensor.dtype(),
            tensor.device()
        )));
    };
    let data = tensor.data();
    let flags = [
        (tensor.is_c_contiguous(), C_CONTIGUOUS),
        (tensor.is_f_contiguous(), F_CONTIGUOUS),
        (data.addr().is_multiple_of(itemsize), ALIGNED),
        (!read_only, WRITABLE),
        (true, NATIVE_BYTE_ORDER),
    ];
    let fields = ArrayStruct {
        two: 2,
        ndim: tensor.ndim() as c_int,
        kind: kind as u8 as c_char,
        itemsize: itemsize as c_int,
        flags: flags.iter().filter(|(holds, _)| *holds).map(|(_, flag)| flag).sum(),
        shape: ptr::null_mut(),
        byte_strides: ptr::null_mut(),
        data,
        descr: ptr::null_mut(),
    };
    let exported = Box::into_raw(Box::new(Exported {
        fields,
        shape: tensor.shape().iter().map(|&extent| extent as isize).collect(),
        byte_strides: byte_strides(tensor),
        _owner: root(tensor),
    }));
    // SAFETY: the box was just made and is not shared; its numbers do not move.
    unsafe {
        (*exported).fields.shape = (*exported).shape.as_mut_ptr();
        (*exported).fields.byte_strides = (*exported).byte_strides.as_mut_ptr();
    }
    // SAFETY: attached; the pointer is a box that begins with the struct, and the destructor frees such a box.
    let capsule = unsafe { ffi::PyCapsule_New(exported.cast(), ptr::null(), Some(destroy)) };
    if capsule.is_null() {
        // SAFETY: the box from above, which Python did not take.
        drop(unsafe { Box::from_raw(exported) });
    }
    // SAFETY: a new reference, or NULL with an exception set.
    let capsule = unsafe { Bound::from_owned_ptr_or_err(py, capsule) }?;
    Ok(capsule.cast_into()?)
}

/// The destructor of a capsule: releases the tensor.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: attached; the pointer is the box that `export` made. A tensor over Python's memory keeps a pending
    // exception itself.
    unsafe {
        let exported = ffi::PyCapsule_GetPointer(capsule, ptr::null()).cast::<Exported>();
        drop(Box::from_raw(exported));
    }
}
