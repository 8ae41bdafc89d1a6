//! The elements of a vector that becomes a NumPy array, without the allocation that a tensor needs.
//!
//! - **Memory.** `memory` and `capacity` come from a `Vec` of the type that `free`, `size` and `align` belong to, and
//!   nothing else owns that memory. `dtype` is the type's. Elements need no drop.
//! - **Within.** The axes lead from `first`, which is aligned, to initialised elements within that memory.

use std::alloc::{Layout, dealloc};
use std::ffi::{CStr, c_void};
use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;

use dlbridge::{Access, DataType, Element, RawParts, Result, Tensor};
#[cfg(feature = "ndarray")]
use ndarray::{Array, Dimension};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The name of a capsule that owns a vector's memory: its pointer is the memory, its context the capacity.
const NAME: &CStr = c"dlbridge_elements_of_array";

/// The elements of a vector (Memory, Within).
pub(crate) struct Elements {
    memory: NonNull<c_void>,
    capacity: usize,
    layout: Layout,
    free: ffi::PyCapsule_Destructor,
    dtype: DataType,
    first: *mut c_void,
    axes: Axes,
}

// SAFETY: Memory: this struct alone owns the elements, which are `Send`.
unsafe impl Send for Elements {}

/// Extents and byte strides.
#[derive(Clone, Copy)]
pub(crate) struct Axes {
    numbers: [isize; 2 * MAX_NDIM],
    ndim: usize,
    /// True for the strides of C order, which are then not stored.
    c_order: bool,
}

/// The most dimensions of [`Elements`].
const MAX_NDIM: usize = 4;

impl Axes {
    #[inline]
    pub(crate) fn extents(&self) -> &[isize] {
        &self.numbers[..self.ndim]
    }

    /// The strides; `None` for C order.
    #[inline]
    pub(crate) fn strides(&self) -> Option<&[isize]> {
        (!self.c_order).then(|| &self.numbers[self.ndim..2 * self.ndim])
    }
}

impl Elements {
    /// All elements of a vector, in one dimension.
    #[inline]
    pub(crate) fn new<T: Element>(elements: Vec<T>) -> Self {
        const { assert!(!mem::needs_drop::<T>(), "elements need not be dropped") };
        let mut elements = ManuallyDrop::new(elements);
        let mut numbers = [0; 2 * MAX_NDIM];
        numbers[0] = elements.len() as isize;
        // SAFETY: a vector's pointer is never NULL.
        let memory = unsafe { NonNull::new_unchecked(elements.as_mut_ptr()) }.cast();
        Self {
            memory,
            capacity: elements.capacity(),
            layout: Layout::new::<T>(),
            free: free::<T>,
            dtype: T::DATA_TYPE,
            first: memory.as_ptr(),
            axes: Axes { numbers, ndim: 1, c_order: true },
        }
    }

    /// The elements of an ndarray array, with any strides; returns the array if it has too many dimensions.
    #[cfg(feature = "ndarray")]
    #[inline]
    pub(crate) fn of_array<T: Element, D: Dimension>(
        array: Array<T, D>,
    ) -> std::result::Result<Self, Array<T, D>> {
        let ndim = array.ndim();
        if ndim > MAX_NDIM {
            return Err(array);
        }
        let mut numbers = [0; 2 * MAX_NDIM];
        for (axis, (&extent, &stride)) in array.shape().iter().zip(array.strides()).enumerate() {
            numbers[axis] = extent as isize;
            // This overflows only for dimensions of extent 1.
            numbers[ndim + axis] = stride.wrapping_mul(size_of::<T>() as isize);
        }
        let c_order = array.is_standard_layout();
        let (elements, offset) = array.into_raw_vec_and_offset();
        let mut elements = Self::new(elements);
        // ndarray keeps all elements of an array within its vector. An empty array lacks an offset.
        let memory = elements.memory.cast::<T>().as_ptr();
        elements.first = memory.wrapping_add(offset.unwrap_or(0)).cast();
        elements.axes = Axes { numbers, ndim, c_order };
        Ok(elements)
    }

    #[inline]
    pub(crate) fn dtype(&self) -> DataType {
        self.dtype
    }

    #[inline]
    pub(crate) fn first(&self) -> *mut c_void {
        self.first
    }

    #[inline]
    pub(crate) fn axes(&self) -> Axes {
        self.axes
    }

    /// A capsule that owns the memory.
    #[inline]
    pub(crate) fn into_capsule(self, py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
        // SAFETY: attached. The destructor frees the memory of a vector of its own element type, by the capacity in
        // the context (Memory). The context is NULL until it is set below, and then the destructor frees nothing.
        // Setting it fails only for objects that are not capsules.
        unsafe {
            let capsule = ffi::PyCapsule_New(self.memory.as_ptr(), NAME.as_ptr(), Some(self.free));
            let capsule = Bound::from_owned_ptr_or_err(py, capsule)?;
            let this = ManuallyDrop::new(self);
            let capacity = std::ptr::without_provenance_mut(this.capacity);
            ffi::PyCapsule_SetContext(capsule.as_ptr(), capacity);
            Ok(capsule.cast_into_unchecked())
        }
    }

    /// A tensor that owns the memory.
    #[cold]
    pub(crate) fn into_tensor(self) -> Result<Tensor> {
        let parts = RawParts { access: Access::Exclusive, ..RawParts::new(self.first, self.dtype) };
        let (axes, itemsize) = (self.axes, self.dtype.itemsize() as isize);
        let in_elements =
            |strides: &[isize]| strides.iter().map(|stride| stride / itemsize).collect();
        let strides: Option<Vec<_>> = axes.strides().map(in_elements);
        // SAFETY: Memory, Within: initialised elements, which the owner keeps and nothing else accesses.
        unsafe { Tensor::from_raw_parts(self, parts, axes.extents(), strides.as_deref()) }
    }
}

impl Drop for Elements {
    fn drop(&mut self) {
        // SAFETY: Memory: the vector's memory, capacity and layout; this is the only release.
        unsafe { give_back(self.memory, self.capacity, self.layout) }
    }
}

/// Frees the memory of a vector.
///
/// # Safety
/// The memory comes from a `Vec` with that capacity and element layout, and is not used again.
#[inline]
unsafe fn give_back(memory: NonNull<c_void>, capacity: usize, element: Layout) {
    let bytes = capacity * element.size();
    if bytes != 0 {
        // SAFETY: a `Vec` allocates `capacity` elements with this layout, which is valid because the vector had it.
        // The caller promises that the memory comes from such a vector and is not used again.
        unsafe {
            let layout = Layout::from_size_align_unchecked(bytes, element.align());
            dealloc(memory.as_ptr().cast(), layout);
        }
    }
}

/// The destructor of a capsule over the memory of a vector.
unsafe extern "C" fn free<T: Element>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls a destructor attached, with the dying capsule. `into_capsule` made it: no other code uses
    // this destructor. No Python code runs, so a pending exception stays as it is.
    unsafe {
        let memory = ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr());
        let capacity = ffi::PyCapsule_GetContext(capsule).addr();
        if let Some(memory) = NonNull::new(memory) {
            give_back(memory, capacity, Layout::new::<T>());
        }
    }
}
