//! NumPy's arrays, read in place.
//!
//! The [head](super::head) of an array contains everything that `__dlpack__` reports. Reading it
//! takes a few nanoseconds; requesting a capsule takes a hundred. dlbridge reads it where the result is the same: for
//! arrays of exactly NumPy's class, with a dtype that DLPack has, in native byte order, and with strides that are
//! multiples of the element size. Everything else is imported through `__dlpack__`.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlbridge::sys::DLPackVersion;
use dlbridge::{Access, DataType, RawParts, Tensor, TensorRef};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyType};
use pyo3::{PyTraverseError, PyVisit, ffi};

use super::api::{self, C_CONTIGUOUS, DTYPES, NumpyApi, WRITEABLE};
use super::head::ArrayHead;
use crate::capsule;
use crate::python::classes::attr_if_any;
use crate::python::interpreter::PyOwner;
use crate::python::once::once;
use crate::strides::{NO_EXTENT, in_elements};

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
    /// True if NumPy's managed tensors have the array's own strides even for dimensions of extent 1. Before NumPy
    /// 2.4, those of a C-ordered array have the strides of C order.
    own_strides: bool,
}

/// An array, described as `__dlpack__` would.
pub(crate) struct Described<'a> {
    pub(crate) tensor: TensorRef<'a>,
    pub(crate) dtype: DataType,
    pub(crate) read_only: bool,
    pub(crate) data: *mut u8,
}

impl Described<'_> {
    /// Returns true if this is another description of an array that has not changed since.
    pub(crate) fn is_as(&self, before: &Described<'_>) -> bool {
        (self.data, self.dtype) == (before.data, before.dtype)
            && self.tensor.shape() == before.tensor.shape()
            && self.tensor.strides() == before.tensor.strides()
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

/// The facts for reading the arrays of the loaded NumPy.
static NUMPY: PyOnceLock<Option<NumpyArray>> = PyOnceLock::new();

impl NumpyArray {
    /// The facts for reading objects of a type; `None` unless it is exactly NumPy's array, with a known ABI.
    pub(crate) fn of_type(object_type: &Bound<'_, PyType>) -> PyResult<Option<Self>> {
        let py = object_type.py();
        let Some((module, class)) = api::loaded(py)? else { return Ok(None) };
        let numpy = once(&NUMPY, py, || {
            let Some((version, own_strides)) = exported(&module, &class)? else { return Ok(None) };
            let api = NumpyApi::find(&module, &class)?;
            Ok::<_, PyErr>(api.map(|api| Self { api, version, own_strides }))
        })?;
        Ok(numpy.filter(|numpy| numpy.api.is_class(object_type.as_type_ptr())))
    }

    /// The facts and the head of an array of exactly NumPy's class; `None` for other objects, and before the first
    /// array was imported.
    #[inline]
    fn known<'a>(array: &'a Bound<'_, PyAny>) -> Option<(Self, ArrayHead<'a>)> {
        let numpy = (*NUMPY.get(array.py())?)?;
        Some((numpy, ArrayHead::of(numpy.api, array)?))
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
        let (numpy, head) = Self::known(object)?;
        numpy.dtype(head)
    }

    /// The dtype of an array; `None` for dtypes that DLPack lacks.
    #[inline(always)]
    fn dtype(self, head: ArrayHead<'_>) -> Option<DataType> {
        let descr = head.descr();
        let known = self.api.dtypes().iter().find(|(known, _)| known.as_ptr().addr() == descr);
        known.map(|(_, dtype)| *dtype)
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
        Some((self.dtype(head)?, head.ndim()))
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
                let found = self.dtype(head)?;
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
        self.described(head, self.dtype(head)?)
    }

    /// A tensor that owns a new array and its memory; `None` if `describe` returns `None`.
    ///
    /// # Safety
    /// NumPy has just made the array, which owns its memory, and the caller drops it: nothing else can reach it.
    pub(crate) unsafe fn owned(array: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
        let facts = match Self::known(array) {
            Some((facts, _)) => Some(facts),
            None => Self::of_type(&array.get_type())?,
        };
        let Some(found) = facts.and_then(|facts| facts.describe(array)) else { return Ok(None) };
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
        self.described(head, api::dtype_of_number(number)?)
    }

    /// Describes an array whose elements have the size of a dtype.
    fn described(self, head: ArrayHead<'_>, dtype: DataType) -> Option<Described<'_>> {
        let (data, flags) = (head.data(), head.flags());
        if flags & WARN_ON_WRITE != 0 {
            return None;
        }
        // Item sizes are powers of two.
        let shift = dtype.itemsize().trailing_zeros();
        let own_strides = self.own_strides || flags & C_CONTIGUOUS == 0;
        let axes = head.axes().map(|(extent, stride)| {
            let (extent, stride) = in_elements(extent, stride, shift);
            (if extent > 1 || own_strides { extent } else { NO_EXTENT }, stride)
        });
        let writeable = flags & WRITEABLE != 0;
        let parts = RawParts::new(data.cast(), dtype);
        // SAFETY: the memory of the array's elements, which lives as long as the array. The program promises that no
        // other code writes while a view is alive (see the crate documentation).
        let tensor = unsafe { TensorRef::from_raw_axes(&parts, axes) };
        Some(Described { tensor: tensor.ok()?, dtype, read_only: !writeable, data })
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

/// The array that a managed tensor of NumPy's holds, for a tensor that was imported from one.
fn managed_array(tensor: &Tensor) -> Option<*mut c_void> {
    let (deleter, array) = managed(tensor)?;
    (deleter == DELETER.load(Ordering::Relaxed)).then_some(array)
}

/// Returns true if [`traverse`] reports an array.
pub fn is_reported(tensor: &Tensor) -> bool {
    managed_array(tensor).is_some()
}

/// Reports the array that NumPy's managed tensor holds to Python's garbage collector.
pub fn traverse(tensor: &Tensor, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
    // SAFETY: the collector runs attached. The deleter shows that this is an array. The reference belongs to the
    // managed tensor; this code neither counts nor releases it.
    let array = managed_array(tensor).map(|array| unsafe {
        let py = Python::assume_attached();
        ManuallyDrop::new(Bound::from_owned_ptr(py, array.cast()).unbind())
    });
    visit.call(array.as_deref())
}

/// The version in NumPy's managed tensors, and whether they have the array's own strides. Before NumPy 2.1 they are
/// not versioned and cannot mark an array as read-only. The head of the array can.
fn exported(
    module: &Bound<'_, PyAny>,
    class: &Bound<'_, PyType>,
) -> PyResult<Option<(Option<DLPackVersion>, bool)>> {
    let py = module.py();
    let Some(empty) = attr_if_any(module, "empty")? else { return Ok(None) };
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "max_version"), capsule::max_version(py)?)?;
    // A new axis has a stride of zero.
    let Ok(array) = empty.call1((3,)).and_then(|array| array.get_item(py.None())) else {
        return Ok(None);
    };
    // A module may have replaced the function.
    if !array.get_type().is(class) {
        return Ok(None);
    }
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
    let own_strides = imported.tensor.strides().first() == Some(&0);
    Ok(Some((imported.version, own_strides)))
}
