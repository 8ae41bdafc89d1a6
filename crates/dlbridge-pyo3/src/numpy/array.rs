//! NumPy's arrays, read where they are.
//!
//! The head of an array is part of NumPy's C ABI, and tells all that `__dlpack__` would: to read it takes
//! a few nanoseconds, to ask for a capsule a hundred. It is read where the answer is the same: for arrays of
//! NumPy's own class, with a dtype that DLPack has, in native byte order, and whole elements between two.
//! Everything else goes through `__dlpack__`.
//!
//! - **Head.** What is of the type `PyArray_Type` begins with a [`Head`]: NumPy's C API says so, in its
//!   ABI versions 1 and 2. It is read attached, and with the GIL nobody writes it meanwhile;
//!   `dimensions` and `strides` point at `ndim` numbers each, and `descr` at a [`Descr`].
//!
//! Source: `PyArrayObject_fields` and `PyArray_Descr` in `numpy/ndarraytypes.h`, of NumPy 1.7 to 2.4.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlbridge::sys::DLPackVersion;
use dlbridge::{DataType, RawParts, Tensor, TensorRef};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyType};
use pyo3::{PyTraverseError, PyVisit, ffi};

use super::api::{self, C_CONTIGUOUS, NumpyApi, WRITEABLE, loaded};
use crate::capsule;
use crate::once::once;
use crate::strides::{NO_EXTENT, in_elements};

/// The head of an array.
#[repr(C)]
pub(crate) struct Head {
    object: ffi::PyObject,
    pub(crate) data: *mut u8,
    pub(crate) ndim: c_int,
    pub(crate) dimensions: *const isize,
    pub(crate) strides: *const isize,
    base: *mut ffi::PyObject,
    descr: *mut Descr,
    pub(crate) flags: c_int,
}

/// The beginning of a dtype.
#[repr(C)]
struct Descr {
    object: ffi::PyObject,
    scalar_type: *mut ffi::PyTypeObject,
    kind: u8,
    letter: u8,
    byte_order: u8,
    flags: u8,
    /// The number of the dtype among `NPY_TYPES`.
    number: c_int,
}

/// The flag of an array on whose first write NumPy warns.
const WARN_ON_WRITE: c_int = 1 << 31;

/// How to read the arrays of the NumPy that is loaded.
#[derive(Clone, Copy)]
pub(crate) struct NumpyArray(&'static Numpy);

struct Numpy {
    /// The addresses of NumPy's own descriptions of its dtypes, which live as long as the process, and
    /// what they are in DLPack.
    dtypes: [(usize, DataType); 16],
    /// The version of DLPack that its managed tensors say they are of.
    version: Option<DLPackVersion>,
    /// Whether they have the array's own strides also where no step is taken; before NumPy 2.4 they have those
    /// of C order, if that is the array's.
    own_strides: bool,
}

/// A struct of the bindings, and not one without fields, as for a Python whose objects have none.
const _: () = assert!(size_of::<ffi::PyObject>() >= 2 * size_of::<usize>());

/// An array as `__dlpack__` would describe it.
pub(crate) struct Described<'a> {
    pub(crate) tensor: TensorRef<'a>,
    pub(crate) dtype: DataType,
    pub(crate) read_only: bool,
    pub(crate) data: *mut u8,
}

/// The longest element, of complex128, in bytes.
const LONGEST: usize = 16;

/// The element of an array without dimensions.
///
/// - **One.** The fields are those of an array, which is borrowed for `'a`: an element of `dtype`, of at most [`LONGEST`] bytes, is at
///   `data`, which is not NULL.
pub(crate) struct ElementOf<'a> {
    dtype: DataType,
    data: *const u8,
    array: PhantomData<&'a ()>,
}

impl ElementOf<'_> {
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.data.addr()
    }

    #[inline]
    pub(crate) fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Copies the bytes: the array's own may be written while Rust code holds them. Those behind the element are zero.
    ///
    /// # Safety
    /// The element is borrowed for reading, and no Python code has run since the array was described.
    #[inline]
    pub(crate) unsafe fn read(&self) -> [u8; LONGEST] {
        let mut bytes = [0; LONGEST];
        // SAFETY: One: that number of bytes of the array, which lives for `'a`, and room for them. The program promises that no other thread
        // writes while Python code runs here (see the crate documentation); the caller guarantees that Rust code does not either.
        unsafe { self.data.copy_to_nonoverlapping(bytes.as_mut_ptr(), self.dtype.itemsize()) };
        bytes
    }
}

/// The elements of an array that are contiguous in C order; there are some.
///
/// - **Run.** The fields are those of an array, which is borrowed for `'a`. `bytes` elements of `shape` and `dtype` begin at
///   `data`, which is not NULL.
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

    /// The tensor; `None` if it would end outside of the address space.
    #[inline(always)]
    pub(crate) fn tensor(&self) -> Option<TensorRef<'a>> {
        // SAFETY: Run: the memory of the array's elements, which is as long there as the array. The program promises
        // that no other code writes while a view is alive (see the crate documentation).
        unsafe { TensorRef::from_raw_run(self.data.cast(), self.dtype, self.shape()) }
    }
}

/// Where the elements of an array are: all that its registrations in a registry of rust-numpy depend on.
#[derive(Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) data: usize,
    pub(crate) itemsize: usize,
    /// The address of the object that keeps the memory, behind all arrays that are views of it.
    pub(crate) root: usize,
    /// The address of NumPy's description of the dtype, which lives as long as the process.
    pub(crate) descr: usize,
    flags: c_int,
    ndim: usize,
    /// The extents, then the byte strides.
    axes: [[isize; FEW]; 2],
}

/// The dimensions of an array that a [`Geometry`] has room for.
const FEW: usize = 4;

impl Geometry {
    pub(crate) const EMPTY: Self =
        Self { data: 0, itemsize: 0, root: 0, descr: 0, flags: 0, ndim: 0, axes: [[0; FEW]; 2] };

    pub(crate) fn extents(&self) -> &[isize] {
        &self.axes[0][..self.ndim]
    }

    pub(crate) fn byte_strides(&self) -> &[isize] {
        &self.axes[1][..self.ndim]
    }

    /// Returns true if the elements are contiguous in C order, and there are some.
    pub(crate) fn is_run(&self) -> bool {
        self.flags & C_CONTIGUOUS != 0 && !self.extents().contains(&0)
    }

    /// Returns true if the elements of an array are there now, so that a registry of rust-numpy finds the array under the
    /// same key.
    #[inline]
    pub(crate) fn is_of(&self, array: &Bound<'_, PyAny>) -> bool {
        let Some(Some((array_type, _))) = NUMPY.get(array.py()) else { return false };
        if array.get_type_ptr().addr() != *array_type {
            return false;
        }
        let head: *const Head = array.as_ptr().cast_const().cast();
        // SAFETY: Head, attached.
        let (data, ndim, descr) =
            unsafe { ((*head).data.addr(), (*head).ndim, (*head).descr.addr()) };
        // SAFETY: Head, attached.
        let (extents, strides) = unsafe { ((*head).dimensions, (*head).strides) };
        let same = |kept: &[isize], now: *const isize| {
            // SAFETY: Head: so many numbers.
            (0..self.ndim).all(|axis| kept[axis] == unsafe { now.add(axis).read() })
        };
        (data, descr) == (self.data, self.descr)
            && usize::try_from(ndim) == Ok(self.ndim)
            && same(&self.axes[0], extents)
            && same(&self.axes[1], strides)
            && NumpyArray::root(array, *array_type) == Some(self.root)
    }
}

/// The address of the type of NumPy's arrays, and how to read them.
static NUMPY: PyOnceLock<Option<(usize, Numpy)>> = PyOnceLock::new();

impl NumpyArray {
    /// The object that keeps the memory of an array of NumPy's own class; `None` for other objects, and for arrays that
    /// own their memory.
    pub(crate) fn base<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let py = object.py();
        let (array_type, _) = NUMPY.get(py)?.as_ref()?;
        if object.get_type_ptr().addr() != *array_type {
            return None;
        }
        // SAFETY: Head, attached: NULL or an object that the array keeps.
        unsafe {
            let base = (*object.as_ptr().cast_const().cast::<Head>()).base;
            Bound::from_borrowed_ptr_or_opt(py, base)
        }
    }

    /// Where the elements of an array are; `None` unless it is of NumPy's own class, with a dtype of NumPy's own that DLPack has,
    /// and has few dimensions.
    pub(crate) fn geometry(array: &Bound<'_, PyAny>) -> Option<Geometry> {
        let mut geometry = Geometry::EMPTY;
        Self::read_geometry(array, &mut geometry).then_some(geometry)
    }

    /// Writes where the elements of an array are; false where [`geometry`](Self::geometry) returns `None`.
    #[inline]
    pub(crate) fn read_geometry(array: &Bound<'_, PyAny>, geometry: &mut Geometry) -> bool {
        let Some(Some((array_type, numpy))) = NUMPY.get(array.py()) else { return false };
        if array.get_type_ptr().addr() != *array_type {
            return false;
        }
        let head: *const Head = array.as_ptr().cast_const().cast();
        // SAFETY: Head, attached.
        let (data, ndim, descr, flags) =
            unsafe { ((*head).data, (*head).ndim, (*head).descr.addr(), (*head).flags) };
        let known = numpy.dtypes.iter().find(|(address, _)| *address == descr);
        let ndim = usize::try_from(ndim).ok().filter(|&ndim| ndim <= FEW);
        let (Some(&(_, dtype)), Some(ndim)) = (known, ndim) else { return false };
        let Some(root) = Self::root(array, *array_type) else { return false };
        // SAFETY: Head, attached.
        let (extents, strides) = unsafe { ((*head).dimensions, (*head).strides) };
        let [to_extents, to_strides] = &mut geometry.axes;
        for (axis, (extent, stride)) in to_extents.iter_mut().zip(to_strides).take(ndim).enumerate()
        {
            // SAFETY: Head: so many numbers.
            (*extent, *stride) = unsafe { (extents.add(axis).read(), strides.add(axis).read()) };
        }
        geometry.data = data.addr();
        geometry.itemsize = dtype.itemsize();
        (geometry.root, geometry.descr, geometry.flags, geometry.ndim) = (root, descr, flags, ndim);
        true
    }

    /// The address of the object that keeps the memory of an array of NumPy's own class; `None` where an array of a class
    /// derived from it is between.
    fn root(array: &Bound<'_, PyAny>, array_type: usize) -> Option<usize> {
        let mut object = array.as_ptr();
        loop {
            // SAFETY: Head, attached: `object` is an array of NumPy's own class.
            let base = unsafe { (*object.cast_const().cast::<Head>()).base };
            if base.is_null() {
                return Some(object.addr());
            }
            // SAFETY: attached; an object that the array keeps.
            let base_type = unsafe { ffi::Py_TYPE(base) };
            if base_type.addr() != array_type {
                // SAFETY: as above; two types.
                let derived = unsafe { ffi::PyType_IsSubtype(base_type, array.get_type_ptr()) };
                return (derived == 0).then(|| base.addr());
            }
            object = base;
        }
    }

    /// How to read objects of a type; `None` unless it is NumPy's array itself, with an ABI that is known.
    pub(crate) fn of_type(object_type: &Bound<'_, PyType>) -> PyResult<Option<Self>> {
        let py = object_type.py();
        let Some((module, class)) = loaded(py)? else { return Ok(None) };
        let numpy = once(&NUMPY, py, || Numpy::find_out(&module, &class))?;
        let Some((array_type, numpy)) = numpy else { return Ok(None) };
        Ok((object_type.as_ptr().addr() == *array_type).then_some(Self(numpy)))
    }

    /// The dtype and the number of dimensions of an array, which is of the type that this is of; `None` for other dtypes.
    pub(crate) fn dtype_and_ndim(self, array: &Bound<'_, PyAny>) -> Option<(DataType, usize)> {
        let head: *const Head = array.as_ptr().cast_const().cast();
        // SAFETY: Head, attached.
        let (ndim, descr) = unsafe { ((*head).ndim, (*head).descr.addr()) };
        let &(_, dtype) = self.0.dtypes.iter().find(|(address, _)| *address == descr)?;
        Some((dtype, usize::try_from(ndim).ok()?))
    }

    /// The elements of an array, which is of the type that this is of, if they are contiguous in C order, with the strides of C
    /// order along all axes; `None` for other arrays, and for those without elements or with many dimensions.
    ///
    /// `expected` is the number of dimensions and `dtypes` has the dtypes; `None`, and no dtypes, for any. They are known when
    /// this is compiled, so what is read stays in registers until it is where it is to be.
    #[inline(always)]
    pub(crate) fn run<'a>(
        self,
        array: &'a Bound<'_, PyAny>,
        expected: Option<usize>,
        dtypes: &[DataType],
    ) -> Option<Run<'a>> {
        let head: *const Head = array.as_ptr().cast_const().cast();
        // SAFETY: Head, attached.
        let (data, ndim, descr, flags) =
            unsafe { ((*head).data, (*head).ndim, (*head).descr.addr(), (*head).flags) };
        let &(_, found) = self.0.dtypes.iter().find(|(address, _)| *address == descr)?;
        let dtype = match dtypes {
            // Not the one that was found, so that the compiler knows it.
            [only] if *only != found => return None,
            [only] => *only,
            _ if !dtypes.is_empty() && !dtypes.contains(&found) => return None,
            _ => found,
        };
        let ndim = match expected {
            Some(expected) if usize::try_from(ndim) == Ok(expected) => expected,
            Some(_) => return None,
            None => usize::try_from(ndim).ok()?,
        };
        if ndim > FEW || data.is_null() || flags & WARN_ON_WRITE != 0 {
            return None;
        }
        // SAFETY: Head, attached.
        let (extents, strides) = unsafe { ((*head).dimensions, (*head).strides) };
        let (mut shape, mut bytes) = ([0; FEW], dtype.itemsize() as isize);
        let axis = |axis: usize| {
            // SAFETY: Head: so many numbers; the axes below are less than `ndim`.
            unsafe { (extents.add(axis).read(), strides.add(axis).read()) }
        };
        // A loop would be unrolled only after the compiler has chosen what is kept in registers.
        macro_rules! add {
            ($($axis:literal)*) => {$(
                if $axis < ndim {
                    let (extent, stride) = axis($axis);
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

    /// The element of an array without dimensions, which is of the type that this is of; `None` for other arrays, and if
    /// `__dlpack__` must be asked.
    #[inline]
    pub(crate) fn element<'a>(self, array: &'a Bound<'_, PyAny>) -> Option<ElementOf<'a>> {
        let head: *const Head = array.as_ptr().cast_const().cast();
        // SAFETY: Head, attached.
        let (data, ndim, descr, flags) =
            unsafe { ((*head).data, (*head).ndim, (*head).descr.addr(), (*head).flags) };
        if ndim != 0 || data.is_null() || flags & WARN_ON_WRITE != 0 {
            return None;
        }
        let &(_, dtype) = self.0.dtypes.iter().find(|(address, _)| *address == descr)?;
        let fits = dtype.itemsize() <= LONGEST;
        fits.then_some(ElementOf { dtype, data, array: PhantomData })
    }

    /// An array, which is of the type that this is of; `None` if `__dlpack__` must be asked.
    pub(crate) fn describe<'a>(self, array: &'a Bound<'_, PyAny>) -> Option<Described<'a>> {
        let head: *const Head = array.as_ptr().cast_const().cast();
        // SAFETY: Head, attached.
        let descr = unsafe { (*head).descr.addr() };
        let &(_, dtype) = self.0.dtypes.iter().find(|(address, _)| *address == descr)?;
        self.described(array, dtype)
    }

    /// An array, which is of the type that this is of, whose numbers are in the other byte order, as if they were in this machine's;
    /// `None` for all other arrays.
    pub(crate) fn describe_swapped<'a>(self, array: &'a Bound<'_, PyAny>) -> Option<Described<'a>> {
        if !self.is_byte_swapped(array) {
            return None;
        }
        self.described(array, api::dtype_of_number(Self::dtype(array).2)?)
    }

    /// An array, which is of the type that this is of, with elements of the size of a dtype.
    fn described<'a>(self, array: &'a Bound<'_, PyAny>, dtype: DataType) -> Option<Described<'a>> {
        let head: *const Head = array.as_ptr().cast_const().cast();
        // SAFETY: Head, attached.
        let (data, ndim, flags) = unsafe { ((*head).data, (*head).ndim, (*head).flags) };
        if flags & WARN_ON_WRITE != 0 {
            return None;
        }
        let ndim = usize::try_from(ndim).ok()?;
        // A power of two.
        let shift = dtype.itemsize().trailing_zeros();
        let own_strides = self.0.own_strides || flags & C_CONTIGUOUS == 0;
        let axes = (0..ndim).map(|axis| {
            // SAFETY: Head: so many numbers.
            let (extent, stride) =
                unsafe { ((*head).dimensions.add(axis).read(), (*head).strides.add(axis).read()) };
            let (extent, stride) = in_elements(extent, stride, shift);
            (if extent > 1 || own_strides { extent } else { NO_EXTENT }, stride)
        });
        let writeable = flags & WRITEABLE != 0;
        let parts = RawParts::new(data.cast(), dtype);
        // SAFETY: the memory of the array's elements, which is as long there as the array. The program promises
        // that no other code writes while a view is alive (see the crate documentation).
        let tensor = unsafe { TensorRef::from_raw_axes(&parts, axes) };
        Some(Described { tensor: tensor.ok()?, dtype, read_only: !writeable, data })
    }

    /// Whether the numbers of an array, which is of the type that this is of, are in the other byte order: then
    /// `__dlpack__` refuses, as there is nothing that it could say.
    pub(crate) fn is_byte_swapped(self, array: &Bound<'_, PyAny>) -> bool {
        const OTHER: u8 = if cfg!(target_endian = "little") { b'>' } else { b'<' };
        let (kind, byte_order, _) = Self::dtype(array);
        matches!(kind, b'i' | b'u' | b'f' | b'c') && byte_order == OTHER
    }

    /// Returns true for an array, which is of the type that this is of, whose elements are points or spans of time.
    pub(crate) fn has_times(self, array: &Bound<'_, PyAny>) -> bool {
        matches!(Self::dtype(array).2, 21 | 22)
    }

    /// Returns true for an array, which is of the type that this is of, whose elements no dtype of tensors has: Python objects,
    /// text, records, raw bytes and times. Others, such as wide floats, only an import refuses.
    pub(crate) fn lacks_dtype(self, array: &Bound<'_, PyAny>) -> bool {
        const TEXT_OF_ANY_LENGTH: c_int = 2056;
        matches!(Self::dtype(array).2, 17..=22 | TEXT_OF_ANY_LENGTH)
    }

    /// The kind of the elements of an array, which is of the type that this is of, their byte order, and the number of the dtype.
    #[inline]
    fn dtype(array: &Bound<'_, PyAny>) -> (u8, u8, c_int) {
        let head: *const Head = array.as_ptr().cast_const().cast();
        // SAFETY: Head, attached.
        unsafe { ((*(*head).descr).kind, (*(*head).descr).byte_order, (*(*head).descr).number) }
    }

    /// The version of DLPack that the managed tensors of arrays say they are of.
    pub(crate) fn version(self) -> Option<DLPackVersion> {
        self.0.version
    }
}

impl Numpy {
    /// The address of the array's type, and what there is to know; `None` if it is not as it is known
    /// here.
    fn find_out(
        module: &Bound<'_, PyAny>,
        class: &Bound<'_, PyType>,
    ) -> PyResult<Option<(usize, Self)>> {
        let Some((version, own_strides)) = exported(module)? else { return Ok(None) };
        let Some(api) = NumpyApi::find(module, class)? else { return Ok(None) };
        let dtypes = api.dtypes();
        Ok(Some((class.as_ptr().addr(), Self { dtypes, version, own_strides })))
    }
}

/// The address of the deleter of NumPy's managed tensors, if each of them was found to hold one reference to the array that
/// its `manager_ctx` points at; 0 otherwise.
static DELETER: AtomicUsize = AtomicUsize::new(0);

/// The address of the deleter and `manager_ctx` of the foreign managed tensor that a tensor was imported from.
fn managed(tensor: &Tensor) -> Option<(usize, *mut c_void)> {
    let managed = tensor.foreign()?.as_ptr();
    // SAFETY: it is valid as long as the tensor.
    let (deleter, context) = unsafe { ((*managed).deleter, (*managed).manager_ctx) };
    Some((deleter? as usize, context))
}

/// Shows the array that a managed tensor of NumPy's holds to Python's garbage collector.
pub(crate) fn traverse(tensor: &Tensor, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
    let array = managed(tensor).filter(|&(found, _)| found == DELETER.load(Ordering::Relaxed));
    // SAFETY: the collector runs attached. The deleter says that this is an array; the reference is the managed tensor's, and is
    // neither counted nor given back here.
    let array = array.map(|(_, array)| unsafe {
        let py = Python::assume_attached();
        ManuallyDrop::new(Bound::from_owned_ptr(py, array.cast()).unbind())
    });
    visit.call(array.as_deref())
}

/// The version that the managed tensors of NumPy's arrays say they are of, and whether they have the array's own
/// strides. Before NumPy 2.1 they are not versioned and cannot say whether an array is read-only. The head of the array can.
fn exported(module: &Bound<'_, PyAny>) -> PyResult<Option<(Option<DLPackVersion>, bool)>> {
    let py = module.py();
    let Some(empty) = module.getattr_opt(intern!(py, "empty"))? else { return Ok(None) };
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "max_version"), capsule::max_version(py)?)?;
    // A new axis has a stride of zero.
    let Ok(array) = empty.call1((3,)).and_then(|array| array.get_item(py.None())) else {
        return Ok(None);
    };
    // SAFETY: attached; an object.
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
