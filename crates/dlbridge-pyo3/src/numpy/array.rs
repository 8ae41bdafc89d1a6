//! NumPy's arrays, read in place.
//!
//! The [head](super) of an array contains everything that `__dlpack__` reports. Reading it
//! takes a few nanoseconds; requesting a capsule takes a hundred. dlbridge reads it where the result is the same: for
//! arrays of exactly NumPy's class, with a dtype that DLPack has, in native byte order, and with strides that are
//! multiples of the element size. Everything else is imported through `__dlpack__`.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlbridge::sys::DLPackVersion;
use dlbridge::{Access, DataType, RawParts, Tensor, TensorRef};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyType};

use super::ArrayHead;
use super::api::{self, DTYPES, NumpyApi, WRITEABLE};
use crate::capsule;
use crate::layout::in_elements;
use crate::python::interpreter::PyOwner;
use crate::python::objects::once;

/// The most dimensions that a [`Run`] can hold.
const FEW: usize = 4;

/// The flag of an array whose first write makes NumPy warn.
const WARN_ON_WRITE: c_int = 1 << 31;

/// The facts about the loaded NumPy that reading its arrays needs.
#[derive(Clone, Copy)]
pub struct NumpyArray {
    api: &'static NumpyApi,
    /// The version in NumPy's managed tensors.
    version: Option<DLPackVersion>,
}

/// An array, described as `__dlpack__` would.
pub(crate) struct Described<'a> {
    pub(crate) tensor: TensorRef<'a>,
    pub(crate) read_only: bool,
}

impl Described<'_> {
    /// Returns true if this is another description of an array that has not changed since.
    pub(crate) fn is_as(&self, before: &Described<'_>) -> bool {
        let (now, before) = (&self.tensor, &before.tensor);
        (now.data(), now.dtype()) == (before.data(), before.dtype())
            && (now.shape(), now.strides()) == (before.shape(), before.strides())
    }
}

/// The elements of a non-empty array that is contiguous in C order.
///
/// - **Run.** The fields are those of an array, which is borrowed for `'a`. Its elements, of `dtype` and `shape`, take
///   `bytes` bytes from `data` on, which is not NULL.
pub(crate) struct Run<'a> {
    data: *mut u8,
    dtype: DataType,
    ndim: usize,
    shape: [i64; FEW],
    bytes: usize,
    read_only: bool,
    array: PhantomData<&'a ()>,
}

impl<'a> Run<'a> {
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        self.data.addr()
    }

    /// The number of bytes.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline(always)]
    pub(crate) fn dtype(&self) -> DataType {
        self.dtype
    }

    #[inline(always)]
    pub(crate) fn shape(&self) -> &[i64] {
        &self.shape[..self.ndim]
    }

    #[inline(always)]
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The tensor; `None` if it would end outside the address space.
    #[inline(always)]
    pub(crate) fn tensor(&self) -> Option<TensorRef<'a>> {
        // SAFETY: Run: the memory of the array's elements, which lives as long as the array. The program promises
        // that no other code writes while a view is alive (see the crate documentation).
        unsafe { TensorRef::from_raw_run(self.data.cast(), self.dtype, self.shape()) }
    }
}

impl NumpyArray {
    /// The facts for reading objects of a type; `None` unless it is exactly NumPy's array, with a known ABI.
    pub(crate) fn of_type(object_type: &Bound<'_, PyType>) -> PyResult<Option<Self>> {
        static VERSION: PyOnceLock<Option<DLPackVersion>> = PyOnceLock::new();
        let py = object_type.py();
        let api = NumpyApi::of_loaded(py)?;
        let Some(api) = api.filter(|api| api.is_class(object_type.as_type_ptr())) else {
            return Ok(None);
        };
        let version = *once(&VERSION, py, || exported_version(object_type))?;
        Ok(Some(Self { api, version }))
    }

    /// NumPy's API and the head of an array of exactly NumPy's class; `None` for other objects, and before NumPy's API was
    /// found.
    #[inline]
    fn known<'a>(array: &'a Bound<'_, PyAny>) -> Option<(&'static NumpyApi, ArrayHead<'a>)> {
        let api = NumpyApi::known(array.py())?;
        Some((api, ArrayHead::of(api, array)?))
    }

    /// The object that keeps the memory of an array of exactly NumPy's class; `None` for other objects, and for
    /// arrays that own their memory.
    pub(crate) fn base<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let (_, head) = Self::known(object)?;
        // SAFETY: Head, attached: `base` is NULL or an object that the array keeps.
        unsafe { Bound::from_borrowed_ptr_or_opt(object.py(), head.base()) }
    }

    /// The dtype of an array of exactly NumPy's class; `None` for other objects, and for dtypes that DLPack lacks.
    pub(crate) fn dtype_of(object: &Bound<'_, PyAny>) -> Option<DataType> {
        let (api, head) = Self::known(object)?;
        dtype(api, head)
    }

    /// Returns true if an array has a dtype. For a constant dtype the compiler compares only the addresses of its own
    /// descriptions, at most two of all.
    #[inline(always)]
    fn has_dtype(self, head: ArrayHead<'_>, dtype: DataType) -> bool {
        let (descr, known) = (head.descr(), DTYPES.iter().zip(self.api.dtypes()));
        known.fold(false, |found, ((_, its), (known, _))| {
            found | (*its == dtype && known.as_ptr().addr() == descr)
        })
    }

    /// The dtype and the number of dimensions of an array; `None` for dtypes that DLPack lacks.
    pub(crate) fn dtype_and_ndim(self, array: &Bound<'_, PyAny>) -> Option<(DataType, usize)> {
        let head = ArrayHead::of(self.api, array)?;
        Some((dtype(self.api, head)?, head.ndim()))
    }

    /// The elements of an array, if they are contiguous in C order and all strides are those of C order; `None` for
    /// other arrays, for empty ones, and for those with many dimensions.
    ///
    /// `expected` is the number of dimensions, and `dtypes` lists the dtypes; `None` and an empty list accept all.
    /// Both are constants when this is compiled, so everything that it reads stays in registers until it is stored.
    #[inline(always)]
    pub(crate) fn run<'a>(
        self,
        array: &'a Bound<'_, PyAny>,
        expected: Option<usize>,
        dtypes: &[DataType],
    ) -> Option<Run<'a>> {
        let head = ArrayHead::of(self.api, array)?;
        let (data, ndim, flags) = (head.data(), head.ndim(), head.flags());
        let dtype = match dtypes {
            [only] if !self.has_dtype(head, *only) => return None,
            [only] => *only,
            _ => {
                let found = dtype(self.api, head)?;
                if !dtypes.is_empty() && !dtypes.contains(&found) {
                    return None;
                }
                found
            }
        };
        let ndim = match expected {
            Some(expected) if ndim == expected => expected,
            Some(_) => return None,
            None => ndim,
        };
        if ndim > FEW || data.is_null() || flags & WARN_ON_WRITE != 0 {
            return None;
        }
        let (mut shape, mut bytes) = ([0; FEW], dtype.itemsize() as isize);
        // A loop would be unrolled only after the compiler has assigned registers.
        macro_rules! add {
            ($($axis:literal)*) => {$(
                if $axis < ndim {
                    let (extent, stride) = head.axis($axis)?;
                    if stride != bytes || extent <= 0 {
                        return None;
                    }
                    bytes = bytes.checked_mul(extent)?;
                    shape[$axis] = extent as i64;
                }
            )*};
        }
        const { assert!(FEW == 4) };
        add!(3 2 1 0);
        let (bytes, read_only) = (bytes as usize, flags & WRITEABLE == 0);
        Some(Run { data, dtype, ndim, shape, bytes, read_only, array: PhantomData })
    }

    /// Describes an array; `None` if `__dlpack__` is needed.
    pub(crate) fn describe<'a>(self, array: &'a Bound<'_, PyAny>) -> Option<Described<'a>> {
        let head = ArrayHead::of(self.api, array)?;
        described(head, dtype(self.api, head)?)
    }

    /// A tensor that owns a new array and its memory; `None` if `describe` returns `None`.
    ///
    /// # Safety
    /// NumPy has just made the array, which owns its memory, and the caller drops it: nothing else can reach it.
    pub(crate) unsafe fn owned(array: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
        let Some((api, head)) = Self::known(array) else { return Ok(None) };
        let found = dtype(api, head).and_then(|dtype| described(head, dtype));
        let Some(found) = found else { return Ok(None) };
        let owner = PyOwner::new(array)?;
        // SAFETY: the memory of the array's elements, which the owner keeps; the caller promises that nothing else
        // reaches it.
        Ok(Some(unsafe { Tensor::from_described(owner, &found.tensor, Access::Exclusive) }))
    }

    /// Describes an array with numbers in the other byte order, as if they were in this machine's order; `None` for
    /// all other arrays.
    pub(crate) fn describe_swapped<'a>(self, array: &'a Bound<'_, PyAny>) -> Option<Described<'a>> {
        let head = ArrayHead::of(self.api, array)?;
        if !is_byte_swapped(head) {
            return None;
        }
        let (_, _, number) = head.dtype();
        described(head, api::dtype_of_number(number)?)
    }

    /// Returns true if an array has elements that tensors lack a dtype for: Python objects, text, records, raw bytes
    /// and times. Only an import refuses others, such as wide floats.
    pub(crate) fn lacks_dtype(self, array: &Bound<'_, PyAny>) -> bool {
        const TEXT_OF_ANY_LENGTH: c_int = 2056;
        let lacks = |head: ArrayHead<'_>| matches!(head.dtype().2, 17..=22 | TEXT_OF_ANY_LENGTH);
        ArrayHead::of(self.api, array).is_some_and(lacks)
    }

    /// The version in the managed tensors of arrays.
    pub(crate) fn version(self) -> Option<DLPackVersion> {
        self.version
    }
}

/// The dtype of an array; `None` for dtypes that DLPack lacks.
#[inline(always)]
fn dtype(api: &NumpyApi, head: ArrayHead<'_>) -> Option<DataType> {
    let descr = head.descr();
    let known = api.dtypes().iter().find(|(known, _)| known.as_ptr().addr() == descr);
    known.map(|(_, dtype)| *dtype)
}

/// Describes an array whose elements have the size of a dtype.
fn described(head: ArrayHead<'_>, dtype: DataType) -> Option<Described<'_>> {
    let (data, flags) = (head.data(), head.flags());
    if flags & WARN_ON_WRITE != 0 {
        return None;
    }
    // Item sizes are powers of two.
    let shift = dtype.itemsize().trailing_zeros();
    let axes = head.axes().map(|(extent, stride)| in_elements(extent, stride, shift));
    let writeable = flags & WRITEABLE != 0;
    let parts = RawParts::new(data.cast(), dtype);
    // SAFETY: the memory of the array's elements, which lives as long as the array. The program promises that no
    // other code writes while a view is alive (see the crate documentation).
    let tensor = unsafe { TensorRef::from_raw_axes(&parts, axes) };
    Some(Described { tensor: tensor.ok()?, read_only: !writeable })
}

fn is_byte_swapped(head: ArrayHead<'_>) -> bool {
    const OTHER: u8 = if cfg!(target_endian = "little") { b'>' } else { b'<' };
    let (kind, byte_order, _) = head.dtype();
    matches!(kind, b'i' | b'u' | b'f' | b'c') && byte_order == OTHER
}

/// The address of the deleter of NumPy's managed tensors, if each of them was found to hold one reference to the
/// array that its `manager_ctx` points at; otherwise 0.
static DELETER: AtomicUsize = AtomicUsize::new(0);

/// The address of the deleter and `manager_ctx` of the foreign managed tensor that a tensor was imported from.
fn managed(tensor: &Tensor) -> Option<(usize, *mut c_void)> {
    let managed = tensor.foreign()?.as_ptr();
    // SAFETY: the managed tensor is valid as long as the tensor.
    let (deleter, context) = unsafe { ((*managed).deleter, (*managed).manager_ctx) };
    Some((deleter? as usize, context))
}

/// The array that a managed tensor of NumPy's holds a reference to, for a tensor that was imported from one.
pub fn managed_array(tensor: &Tensor) -> Option<NonNull<ffi::PyObject>> {
    let (deleter, array) = managed(tensor)?;
    (deleter == DELETER.load(Ordering::Relaxed)).then(|| NonNull::new(array.cast())).flatten()
}

/// The version in NumPy's managed tensors. Before NumPy 2.1 they are not versioned and cannot mark an array as read-only.
/// The head of the array can.
fn exported_version(class: &Bound<'_, PyType>) -> PyResult<Option<DLPackVersion>> {
    let py = class.py();
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "max_version"), capsule::max_version(py)?)?;
    let array = class.call1((3,))?;
    // SAFETY: the thread is attached, and `array` is a live object.
    let references = || unsafe { ffi::Py_REFCNT(array.as_ptr()) };
    let count = references();
    let name = intern!(py, "__dlpack__");
    let answer = array.call_method(name, (), Some(&keywords)).or_else(|_| array.call_method0(name));
    let Ok(Ok(answer)) = answer.map(|answer| answer.cast_into::<PyCapsule>()) else {
        return Ok(None);
    };
    let imported = capsule::take(&answer)?;
    drop(answer);
    if let Some((deleter, context)) = managed(&imported.tensor)
        && context.addr() == array.as_ptr().addr()
        && references() == count + 1
    {
        DELETER.store(deleter, Ordering::Relaxed);
    }
    Ok(imported.version)
}
