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
//! Source: `PyArrayObject_fields`, `PyArray_Descr` and the numbers of types in `numpy/ndarraytypes.h`, the places of functions
//! in NumPy's table in `numpy/__multiarray_api.h`, of NumPy 1.7 to 2.4.

use std::ffi::{c_int, c_long, c_longlong, c_uint, c_void};
use std::ptr;

use dlbridge::sys::DLPackVersion;
use dlbridge::{Access, DataType, DataTypeCode, RawParts, Tensor, TensorRef};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyType};
use pyo3::{ffi, intern};

use super::memory::{NO_EXTENT, in_elements};
use super::{Imported, Protocol, dlpack};
use crate::capsule;
use crate::interpreter::PyOwner;

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
}

/// The flag of an array that may be written.
pub(crate) const WRITEABLE: c_int = 0x0400;

/// The flag of an array whose elements are adjacent in C order.
const C_CONTIGUOUS: c_int = 0x0001;

/// The flag of an array on whose first write NumPy warns.
const WARN_ON_WRITE: c_int = 1 << 31;

/// How to read the arrays of the NumPy that is loaded.
#[derive(Clone, Copy)]
pub(crate) struct NumpyArray(&'static Numpy);

struct Numpy {
    /// The addresses of NumPy's own descriptions of its dtypes, which live as long as the process, and
    /// what they are in DLPack.
    dtypes: [(usize, DataType); DTYPES.len()],
    /// The version of DLPack that its managed tensors say they are of.
    version: Option<DLPackVersion>,
    /// Whether they have the array's own strides also where no step is taken; before NumPy 2.4 they have those
    /// of C order, if that is the array's.
    own_strides: bool,
}

/// A struct of the bindings, and not one without fields, as for a Python whose objects have none.
const _: () = assert!(size_of::<ffi::PyObject>() >= 2 * size_of::<usize>());

/// NumPy's numbers for its dtypes; those that are used most come first.
const DTYPES: [(c_int, DataType); 16] = [
    (11, DataType::FLOAT32),
    (12, DataType::FLOAT64),
    (7, integer(DataTypeCode::INT, size_of::<c_long>())),
    (2, DataType::UINT8),
    (5, integer(DataTypeCode::INT, size_of::<c_int>())),
    (0, DataType::BOOL),
    (23, DataType::FLOAT16),
    (1, DataType::INT8),
    (3, DataType::INT16),
    (4, DataType::UINT16),
    (6, integer(DataTypeCode::UINT, size_of::<c_uint>())),
    (8, integer(DataTypeCode::UINT, size_of::<c_long>())),
    (9, integer(DataTypeCode::INT, size_of::<c_longlong>())),
    (10, integer(DataTypeCode::UINT, size_of::<c_longlong>())),
    (14, DataType::COMPLEX64),
    (15, DataType::COMPLEX128),
];

const fn integer(code: DataTypeCode, size: usize) -> DataType {
    DataType::new(code, 8 * size as u8, 1)
}

/// An array as `__dlpack__` would describe it.
pub(crate) struct Described<'a> {
    pub(crate) tensor: TensorRef<'a>,
    pub(crate) dtype: DataType,
    pub(crate) read_only: bool,
    data: *mut u8,
}

impl NumpyArray {
    /// How to read objects of a type; `None` unless it is NumPy's array itself, with an ABI that is
    /// known and versioned capsules.
    pub(super) fn of_type(object_type: &Bound<'_, PyType>) -> PyResult<Option<Self>> {
        static NUMPY: PyOnceLock<Option<(usize, Numpy)>> = PyOnceLock::new();
        let py = object_type.py();
        let Some(module) = loaded(py)? else { return Ok(None) };
        let numpy = NUMPY.get_or_try_init(py, || Numpy::find_out(&module))?;
        let Some((array_type, numpy)) = numpy else { return Ok(None) };
        Ok((object_type.as_ptr().addr() == *array_type).then_some(Self(numpy)))
    }

    /// An array, which is of the type that this is of; `None` if `__dlpack__` must be asked, or if there
    /// are not `expected` dimensions. Where that number is known when this is compiled, extents and strides
    /// stay in registers until they are where they are to be.
    #[inline(always)]
    pub(crate) fn describe<'a>(
        self,
        array: &'a Bound<'_, PyAny>,
        expected: Option<usize>,
    ) -> Option<Described<'a>> {
        let head: *const Head = array.as_ptr().cast_const().cast();
        // SAFETY: Head, attached.
        let (data, ndim, descr, flags) =
            unsafe { ((*head).data, (*head).ndim, (*head).descr.addr(), (*head).flags) };
        let known = self.0.dtypes.iter().find(|(address, _)| *address == descr);
        let &(_, dtype) = known.filter(|_| flags & WARN_ON_WRITE == 0)?;
        let ndim = usize::try_from(ndim).ok()?;
        let ndim = match expected {
            Some(expected) if expected == ndim => expected,
            Some(_) => return None,
            None => ndim,
        };
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
        // SAFETY: the memory of the array's elements, which is as long there as the array. That nobody
        // writes while a view is alive is promised by the program (see the crate documentation).
        let tensor = unsafe { TensorRef::from_raw_axes(&parts, axes) };
        Some(Described { tensor: tensor.ok()?, dtype, read_only: !writeable, data })
    }

    /// Whether the numbers of an array, which is of the type that this is of, are in the other byte order: then
    /// `__dlpack__` refuses, as there is nothing that it could say.
    pub(super) fn is_byte_swapped(self, array: &Bound<'_, PyAny>) -> bool {
        const OTHER: u8 = if cfg!(target_endian = "little") { b'>' } else { b'<' };
        let head: *const Head = array.as_ptr().cast_const().cast();
        // SAFETY: Head, attached.
        let (kind, byte_order) = unsafe { ((*(*head).descr).kind, (*(*head).descr).byte_order) };
        matches!(kind, b'i' | b'u' | b'f' | b'c') && byte_order == OTHER
    }

    /// Imports an array, which is of the type that this is of; `None` if `__dlpack__` must be asked.
    pub(super) fn import(self, array: &Bound<'_, PyAny>) -> PyResult<Option<Imported>> {
        let Some(described) = self.describe(array, None) else { return Ok(None) };
        let Described { tensor, dtype, read_only, data } = described;
        let access = if read_only { Access::ReadOnly } else { Access::Shared };
        let parts = RawParts { access, ..RawParts::new(data.cast(), dtype) };
        let owner = PyOwner::new(array)?;
        // SAFETY: as in `describe`; the owner keeps the array.
        let imported =
            unsafe { Tensor::from_raw_parts(owner, parts, tensor.shape(), Some(tensor.strides())) };
        let Ok(tensor) = imported else { return Ok(None) };
        let version = self.0.version;
        Ok(Some(Imported { version, ..Imported::new(tensor, Protocol::Dlpack) }))
    }
}

impl Numpy {
    /// The address of the array's type, and what there is to know; `None` if it is not as it is known
    /// here.
    fn find_out(module: &Bound<'_, PyAny>) -> PyResult<Option<(usize, Self)>> {
        let py = module.py();
        let Some((version, own_strides)) = exported(module)? else { return Ok(None) };
        let Some(api) = module.getattr_opt(intern!(py, "_ARRAY_API"))? else { return Ok(None) };
        let Ok(api) = api.cast_into::<PyCapsule>() else { return Ok(None) };
        // SAFETY: attached; a capsule. NumPy's has no name.
        let table: *const *const c_void =
            unsafe { ffi::PyCapsule_GetPointer(api.as_ptr(), ptr::null()) }.cast_const().cast();
        if table.is_null() {
            PyErr::take(py);
            return Ok(None);
        }
        // SAFETY: NumPy's table has these functions and this type in these places, in all versions.
        let (abi, array_type, descr_from_type) = unsafe {
            let abi: extern "C" fn() -> c_uint = std::mem::transmute(table.add(0).read());
            let descr_from_type: unsafe extern "C" fn(c_int) -> *mut ffi::PyObject =
                std::mem::transmute(table.add(45).read());
            (abi(), table.add(2).read().addr(), descr_from_type)
        };
        if !matches!(abi >> 24, 1 | 2) {
            return Ok(None);
        }
        let mut dtypes = [(0, DataType::UINT8); DTYPES.len()];
        for (place, (number, dtype)) in dtypes.iter_mut().zip(DTYPES) {
            // SAFETY: attached; the number of a dtype. The reference is kept for ever.
            let descr = unsafe { descr_from_type(number) };
            if descr.is_null() {
                return Err(PyErr::fetch(py));
            }
            *place = (descr.addr(), dtype);
        }
        Ok(Some((array_type, Self { dtypes, version, own_strides })))
    }
}

/// The module with NumPy's C API, if it is loaded.
fn loaded(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    let modules = modules.cast::<PyDict>()?;
    for name in [intern!(py, "numpy._core.multiarray"), intern!(py, "numpy.core.multiarray")] {
        if let Some(module) = modules.get_item(name)? {
            return Ok(Some(module));
        }
    }
    Ok(None)
}

/// The version that the managed tensors of NumPy's arrays say they are of, and whether they have the array's own
/// strides; `None` where they are not versioned: then nobody could say that an array is read-only, and all are taken
/// for that.
fn exported(module: &Bound<'_, PyAny>) -> PyResult<Option<(Option<DLPackVersion>, bool)>> {
    let py = module.py();
    let Some(empty) = module.getattr_opt(intern!(py, "empty"))? else { return Ok(None) };
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "max_version"), dlpack::max_version(py)?)?;
    // A new axis has a stride of zero.
    let answer = empty
        .call1((3,))
        .and_then(|array| array.get_item(py.None()))
        .and_then(|array| array.call_method(intern!(py, "__dlpack__"), (), Some(&keywords)));
    let Ok(Ok(answer)) = answer.map(|answer| answer.cast_into::<PyCapsule>()) else {
        return Ok(None);
    };
    let imported = capsule::take(&answer)?;
    let own_strides = imported.tensor.strides().first() == Some(&0);
    Ok((imported.protocol == Protocol::Dlpack).then_some((imported.version, own_strides)))
}
