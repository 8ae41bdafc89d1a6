//! The elements of a vector on their way into an array of NumPy, without the allocation that a tensor needs.
//!
//! - **Memory.** `memory` and `capacity` came out of a `Vec` of the type that `free`, `size` and `align` are of, and nothing else has
//!   that memory. `dtype` is the type's. Elements need not be dropped.
//! - **Within.** The axes lead from `first`, which is aligned, to elements within that memory that are initialised.

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

/// The name of a capsule that owns the memory of a vector: the pointer is the memory's, the context is the capacity.
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

// SAFETY: Memory: it owns elements, which are `Send`.
unsafe impl Send for Elements {}

/// Extents and byte strides.
#[derive(Clone, Copy)]
pub(crate) struct Axes {
    numbers: [isize; 2 * MAX_NDIM],
    ndim: usize,
    /// True if the strides are those of C order, and not written.
    c_order: bool,
}

/// The most dimensions of [`Elements`].
const MAX_NDIM: usize = 4;

impl Axes {
    #[inline]
    pub(crate) fn extents(&self) -> &[isize] {
        &self.numbers[..self.ndim]
    }

    /// The strides; `None` for those of C order.
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
            dtype: T::DTYPE,
            first: memory.as_ptr(),
            axes: Axes { numbers, ndim: 1, c_order: true },
        }
    }

    /// The elements of an array of ndarray, with any strides; the array comes back if it has too many dimensions.
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
            // It overflows only where no step is taken.
            numbers[ndim + axis] = stride.wrapping_mul(size_of::<T>() as isize);
        }
        let c_order = array.is_standard_layout();
        let (elements, offset) = array.into_raw_vec_and_offset();
        let mut elements = Self::new(elements);
        // ndarray keeps all elements of an array within its vector; an empty array lacks an offset.
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
        // SAFETY: attached. The destructor frees the memory of a vector of the type that it is of, by its capacity (Memory); until the
        // context is set, that is NULL and frees nothing. Setting it fails for other objects only.
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
    pub(crate) fn into_tensor(self) -> Result<Tensor> {
        let parts = RawParts { access: Access::Exclusive, ..RawParts::new(self.first, self.dtype) };
        let (axes, itemsize) = (self.axes, self.dtype.itemsize() as isize);
        let strides = axes.strides().map(|strides| strides.iter().map(|s| s / itemsize).collect());
        let strides: Option<Vec<_>> = strides;
        // SAFETY: Memory, Within: initialised elements that the owner keeps, and nothing else has.
        unsafe { Tensor::from_raw_parts(self, parts, axes.extents(), strides.as_deref()) }
    }
}

impl Drop for Elements {
    fn drop(&mut self) {
        // SAFETY: Memory.
        unsafe { give_back(self.memory, self.capacity, self.layout) }
    }
}

/// Frees the memory of a vector.
///
/// # Safety
/// It came out of a `Vec` of that capacity, of elements of that layout, and is not used again.
#[inline]
unsafe fn give_back(memory: NonNull<c_void>, capacity: usize, element: Layout) {
    let bytes = capacity * element.size();
    if bytes != 0 {
        // SAFETY: a `Vec` allocates `capacity` elements with this layout, which is valid since the vector had it. The caller promises that the
        // memory came out of such a vector and is not used again.
        unsafe {
            let layout = Layout::from_size_align_unchecked(bytes, element.align());
            dealloc(memory.as_ptr().cast(), layout);
        }
    }
}

/// The destructor of a capsule over the memory of a vector.
unsafe extern "C" fn free<T: Element>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls a destructor attached, with the dying capsule, which `into_capsule` made: no other code uses this
    // destructor. No Python code runs, so a pending exception stays as it is.
    unsafe {
        let memory = ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr());
        let capacity = ffi::PyCapsule_GetContext(capsule).addr();
        if let Some(memory) = NonNull::new(memory) {
            give_back(memory, capacity, Layout::new::<T>());
        }
    }
}
