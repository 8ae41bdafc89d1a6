//! NumPy's C API: makes arrays over the memory of tensors and of lists, converts elements, and finds NumPy's own
//! descriptions of its dtypes.
//!
//! The functions are looked up in NumPy's table at run time, so extensions are not built against a release of NumPy.
//!
//! - **Api.** The functions of a [`NumpyApi`] are those of NumPy's static table, in the places that they have in all
//!   releases with ABI versions 1 and 2, and its class is the table's class of arrays. Only attached threads call them.
//! - **Base.** The base object of an array is a capsule that owns the tensor or the elements, and NumPy keeps the
//!   capsule as long as the array and its views. So the memory stays as long as it can be reached, and is freed once,
//!   when the capsule dies. NumPy itself makes one exception: `__setstate__` replaces the base of an array, and its
//!   views keep the old address.
//!
//! Source: the numbers of types in `numpy/ndarraytypes.h`, the places of functions in NumPy's table in
//! `numpy/__multiarray_api.h`, of NumPy 1.7 to 2.5.

use std::ffi::{c_int, c_long, c_longlong, c_uint, c_void};
use std::num::NonZeroUsize;
use std::{mem, ptr, slice};

use dlbridge::{DataType, DataTypeCode, Device, Tensor, TensorRef};
use pyo3::exceptions::{PyImportError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyType};

use crate::capsule;
use crate::elements::Elements;
use crate::numpy::Head;
use crate::python::error::is_absent;
use crate::python::objects::once;
use crate::python::objects::{attr_if_any, modules};

/// NumPy's numbers for its dtypes, the most common first.
pub(super) const DTYPES: [(c_int, DataType); 16] = [
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

/// Returns true if NumPy has a dtype.
pub(crate) fn has_dtype(dtype: DataType) -> bool {
    DTYPES.iter().any(|(_, known)| *known == dtype)
}

/// The dtype with a NumPy number; `None` for numbers that DLPack lacks.
pub(super) fn dtype_of_number(number: c_int) -> Option<DataType> {
    DTYPES.iter().find(|(of_dtype, _)| *of_dtype == number).map(|(_, dtype)| *dtype)
}

/// The flag of a writable array.
pub(crate) const WRITEABLE: c_int = 0x0400;

/// The flag of an array whose elements are contiguous in C order.
const C_CONTIGUOUS: c_int = 0x0001;

/// The flag of an array whose elements are aligned.
const ALIGNED: c_int = 0x0100;

/// `PyArray_NewFromDescr`: class, dtype (takes the reference), number of dimensions, extents, byte strides, first
/// element, flags, and an object for `__array_finalize__`.
type NewFromDescr = unsafe extern "C" fn(
    *mut ffi::PyTypeObject,
    *mut ffi::PyObject,
    c_int,
    *const isize,
    *const isize,
    *mut c_void,
    c_int,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// `PyArray_SetBaseObject`: an array, and its new base object. Takes the reference to the base, even if it fails.
type SetBaseObject = unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> c_int;

/// `PyArray_CastToType`: an array, the dtype of the copy (takes the reference), and 0 for C order.
type CastToType =
    unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject, c_int) -> *mut ffi::PyObject;

/// `PyArray_FromAny`: an object, the dtype of the array or NULL (takes the reference), the fewest and the most
/// dimensions, or 0 for any, flags, and NULL.
type FromAny = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *mut ffi::PyObject,
    c_int,
    c_int,
    c_int,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// The part of NumPy's C API that dlbridge uses (Api).
pub(crate) struct NumpyApi {
    class: Py<PyType>,
    /// NumPy's own descriptions of its dtypes, and their dtypes in DLPack.
    dtypes: [(Py<PyAny>, DataType); DTYPES.len()],
    new_from_descr: NewFromDescr,
    set_base_object: SetBaseObject,
    cast_to_type: CastToType,
    from_any: FromAny,
    /// The most dimensions of an array.
    max_ndim: usize,
}

/// The API of the loaded NumPy, once it was found.
static API: PyOnceLock<NumpyApi> = PyOnceLock::new();

impl NumpyApi {
    /// The API, if it was found before.
    #[inline]
    pub(crate) fn known(py: Python<'_>) -> Option<&'static Self> {
        API.get(py)
    }

    /// The API of the loaded NumPy; `None` if NumPy is not loaded or does not match what dlbridge knows.
    #[cold]
    pub(crate) fn of_loaded(py: Python<'_>) -> PyResult<Option<&'static Self>> {
        if let Some(api) = Self::known(py) {
            return Ok(Some(api));
        }
        let modules = modules(py)?;
        for name in ["numpy._core.multiarray", "numpy.core.multiarray"] {
            if let Some(module) = modules.get_item(name)?
                && let Some(api) = Self::find(&module)?
            {
                return once(&API, py, || Ok(api)).map(Some);
            }
        }
        Ok(None)
    }

    /// The API of NumPy, which is imported if it is not loaded.
    ///
    /// # Errors
    /// `ImportError` if NumPy is not installed, or does not match what dlbridge knows; errors of the import.
    pub(crate) fn required(py: Python<'_>) -> PyResult<&'static Self> {
        match Self::known(py) {
            Some(api) => Ok(api),
            None => Self::imported(py),
        }
    }

    #[cold]
    fn imported(py: Python<'_>) -> PyResult<&'static Self> {
        let refused = |text: &'static str, cause| {
            let error = PyImportError::new_err(text);
            error.set_cause(py, cause);
            error
        };
        if let Err(error) = py.import("numpy") {
            return Err(match is_absent(&error, py, "numpy")? {
                true => refused(
                    "NumPy converts lists and other dtypes, and is not installed: pip install numpy",
                    Some(error),
                ),
                false => error,
            });
        }
        Self::of_loaded(py)?.ok_or_else(|| {
            refused("NumPy converts lists and other dtypes, and has an unknown ABI; pip install 'numpy<3'", None)
        })
    }

    /// NumPy's class of arrays.
    pub(super) fn class<'py>(&self, py: Python<'py>) -> &Bound<'py, PyType> {
        self.class.bind(py)
    }

    /// Returns true for NumPy's class of arrays.
    #[inline(always)]
    pub(super) fn is_class(&self, class: *const ffi::PyTypeObject) -> bool {
        class.addr() == self.class.as_ptr().addr()
    }

    /// NumPy's own descriptions of its dtypes, which live as long as the process, and their dtypes in DLPack, ordered as
    /// [`DTYPES`].
    #[inline(always)]
    pub(super) fn dtypes(&self) -> &[(Py<PyAny>, DataType); DTYPES.len()] {
        &self.dtypes
    }

    /// A new array that owns a tensor and its memory. Returns the tensor if NumPy lacks its dtype, if it has too many
    /// dimensions, or if its memory is not the CPU's.
    ///
    /// The array is writable unless the tensor is read-only.
    pub(crate) fn array<'py>(
        &self,
        py: Python<'py>,
        tensor: Tensor,
    ) -> PyResult<Result<Bound<'py, PyAny>, Tensor>> {
        let Some(descr) = self.descr_of(&(&tensor).into()) else { return Ok(Err(tensor)) };
        let (first, extents, strides) = in_bytes(&(&tensor).into());
        let flags = if tensor.is_read_only() { 0 } else { WRITEABLE };
        let base = capsule::owner_of_array(py, tensor)?;
        // SAFETY: Base: the tensor's metadata is valid, so extents and strides lead from `first` to elements that the
        // tensor keeps; they may be written unless the tensor is read-only.
        unsafe { self.over(base.into_any(), descr, first, &extents, Some(&strides), flags) }.map(Ok)
    }

    /// A new array in C order with the elements of a tensor, converted as by `astype`. `None` if NumPy lacks one of
    /// the dtypes, or if the tensor has too many dimensions.
    ///
    /// NumPy lets other threads run during a large conversion. The caller must hold a borrow of the tensor, which the
    /// CPU can read.
    pub(crate) fn converted<'py>(
        &self,
        py: Python<'py>,
        tensor: &TensorRef<'_>,
        dtype: DataType,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (Some(from), Some(to)) = (self.descr(tensor.dtype()), self.descr(dtype)) else {
            return Ok(None);
        };
        if tensor.ndim() > self.max_ndim {
            return Ok(None);
        }
        let (first, extents, strides) = in_bytes(tensor);
        // SAFETY: the tensor's metadata is valid, so extents and strides lead from `first` to elements that `tensor`
        // keeps until the view is dropped below. NumPy does not keep the view, and does not write to it.
        let view = unsafe { self.view(py, from, first, &extents, Some(&strides), 0) }?;
        // SAFETY: Api, attached: an array, and NumPy's own dtype, whose reference the call takes.
        let copy = unsafe {
            let copy = (self.cast_to_type)(view.as_ptr(), to.clone_ref(py).into_ptr(), 0);
            Bound::from_owned_ptr_or_err(py, copy)?
        };
        Ok(Some(copy))
    }

    /// A new array of nested lists, as `numpy.asarray(list, dtype)` makes it; without a dtype it has the natural one.
    pub(crate) fn array_of_list<'py>(
        &self,
        list: &Bound<'py, PyAny>,
        dtype: Option<DataType>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = list.py();
        let descr = match dtype.map(|dtype| self.descr(dtype)) {
            None => ptr::null_mut(),
            Some(Some(descr)) => descr.clone_ref(py).into_ptr(),
            Some(None) => return Err(PyTypeError::new_err("NumPy lacks this dtype")),
        };
        // SAFETY: Api, attached: any object, and NULL or NumPy's own dtype, whose reference the call takes.
        unsafe {
            let array = (self.from_any)(list.as_ptr(), descr, 0, 0, 0, ptr::null_mut());
            Bound::from_owned_ptr_or_err(py, array)
        }
    }

    /// A new array that owns elements. Returns them if NumPy lacks their dtype.
    #[inline]
    pub(crate) fn array_of_elements<'py>(
        &self,
        py: Python<'py>,
        elements: Elements,
    ) -> PyResult<Result<Bound<'py, PyAny>, Elements>> {
        let Some(descr) = self.descr(elements.dtype()) else { return Ok(Err(elements)) };
        let (first, axes) = (elements.first(), elements.axes());
        // The elements are aligned, and NumPy computes the strides of C order itself.
        let (strides, flags) = match axes.strides() {
            None => (None, C_CONTIGUOUS | ALIGNED | WRITEABLE),
            strides => (strides, WRITEABLE),
        };
        let base = elements.into_capsule(py)?;
        // SAFETY: Within of `elements.rs`: extents and strides lead from `first` to elements that the capsule keeps
        // (Base), and that nothing else owns.
        unsafe { self.over(base.into_any(), descr, first, axes.extents(), strides, flags) }.map(Ok)
    }

    /// A view of the elements of an array. It keeps the object behind the array that owns them, which stays if the array
    /// gets other elements.
    ///
    /// # Safety
    /// Head of `mod.rs`: `array` is a NumPy array.
    pub(crate) unsafe fn view_of<'py>(
        &self,
        array: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: Head: the fields of an array, with an object for its dtype, an object that keeps its elements or NULL,
        // and `ndim` extents and byte strides of these elements, which no code changes before NumPy has copied them.
        unsafe {
            let (py, head) = (array.py(), &*Head::of(array.as_ptr()));
            let base = Bound::from_borrowed_ptr_or_opt(py, head.base);
            let base = base.unwrap_or_else(|| array.clone());
            let descr = Bound::from_borrowed_ptr(py, head.descr).unbind();
            let numbers = |first| match head.ndim {
                0 => &[][..],
                ndim => slice::from_raw_parts(first, ndim as usize),
            };
            let (extents, strides) = (numbers(head.dimensions), Some(numbers(head.strides)));
            let flags = head.flags & WRITEABLE;
            self.over(base, &descr, head.data.cast(), extents, strides, flags)
        }
    }

    /// The address of the object that keeps the elements of an array, behind all arrays that are views of them.
    ///
    /// # Safety
    /// Head of `mod.rs`: `array` is a NumPy array.
    pub(crate) unsafe fn root(&self, array: &Bound<'_, PyAny>) -> usize {
        let mut object = array.as_ptr();
        loop {
            // SAFETY: Head: an array, whose base is NULL or an object that it keeps; attached, as `array` shows.
            unsafe {
                let base = (*Head::of(object)).base;
                if base.is_null() {
                    return object.addr();
                }
                if ffi::PyObject_TypeCheck(base, self.class.as_ptr().cast()) == 0 {
                    return base.addr();
                }
                object = base;
            }
        }
    }

    /// A new array over memory that `base` keeps.
    ///
    /// # Safety
    /// As long as `base` lives, `extents` and byte `strides` (or the strides of C order) lead from `first` to
    /// elements of the dtype. There are as many strides as extents, and no more than an array can have. The flags are
    /// right for them.
    #[inline]
    unsafe fn over<'py>(
        &self,
        base: Bound<'py, PyAny>,
        descr: &Py<PyAny>,
        first: *mut c_void,
        extents: &[isize],
        strides: Option<&[isize]>,
        flags: c_int,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = base.py();
        // SAFETY: the caller promises that the elements live as long as `base`, which becomes the base below.
        let array = unsafe { self.view(py, descr, first, extents, strides, flags) }?;
        // SAFETY: Api, attached: a new array without a base; the call takes the reference to `base`.
        match unsafe { (self.set_base_object)(array.as_ptr(), base.into_ptr()) } {
            0 => Ok(array),
            _ => Err(PyErr::fetch(py)),
        }
    }

    /// A new array over memory that nothing keeps.
    ///
    /// # Safety
    /// Those of [`over`](Self::over), as long as the array lives or has no base.
    #[inline]
    unsafe fn view<'py>(
        &self,
        py: Python<'py>,
        descr: &Py<PyAny>,
        first: *mut c_void,
        extents: &[isize],
        strides: Option<&[isize]>,
        flags: c_int,
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: Api, attached. The class and the dtype are NumPy's own, and the call takes the reference to the
        // dtype. There are as many strides as extents, and NumPy copies both. The caller promises that they lead to
        // elements.
        unsafe {
            let array = (self.new_from_descr)(
                self.class.as_ptr().cast(),
                descr.clone_ref(py).into_ptr(),
                extents.len() as c_int,
                extents.as_ptr(),
                strides.map_or(ptr::null(), <[isize]>::as_ptr),
                first,
                flags,
                ptr::null_mut(),
            );
            Bound::from_owned_ptr_or_err(py, array)
        }
    }

    /// The most dimensions that an array can have.
    pub(crate) fn max_ndim(&self) -> usize {
        self.max_ndim
    }

    /// Returns true if [`array`](Self::array) makes an array of the tensor.
    pub(crate) fn has(&self, tensor: &Tensor) -> bool {
        self.descr_of(&tensor.into()).is_some()
    }

    /// NumPy's dtype for a tensor; `None` if NumPy cannot have such an array.
    #[inline]
    fn descr_of(&self, tensor: &TensorRef<'_>) -> Option<&Py<PyAny>> {
        let fits = tensor.ndim() <= self.max_ndim && tensor.device() == Device::CPU;
        self.descr(tensor.dtype()).filter(|_| fits)
    }

    #[inline]
    fn descr(&self, dtype: DataType) -> Option<&Py<PyAny>> {
        Some(&self.dtypes.iter().find(|(_, known)| *known == dtype)?.0)
    }

    /// The API of a module that should be NumPy's.
    fn find(module: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = module.py();
        let Some(class) = attr_if_any(module, "ndarray")? else { return Ok(None) };
        let Some(api) = attr_if_any(module, "_ARRAY_API")? else { return Ok(None) };
        let Ok(class) = class.cast_into::<PyType>() else { return Ok(None) };
        let Ok(api) = api.cast_into::<PyCapsule>() else { return Ok(None) };
        // SAFETY: the thread is attached, and `api` is a capsule. NumPy's capsule is unnamed.
        let table: *const *const c_void =
            unsafe { ffi::PyCapsule_GetPointer(api.as_ptr(), ptr::null()) }.cast_const().cast();
        if table.is_null() {
            PyErr::take(py);
            return Ok(None);
        }
        // Any module may have a capsule of this name. NumPy's table and its functions are statics of the library that
        // contains NumPy's class.
        let object = shared_object(class.as_ptr().cast_const().cast());
        let is_numpys =
            |address: *const c_void| object.is_some() && shared_object(address) == object;
        const ABI: usize = 0;
        const ARRAY_TYPE: usize = 2;
        const DESCR_FROM_TYPE: usize = 45;
        const CAST_TO_TYPE: usize = 49;
        const FROM_ANY: usize = 69;
        const NEW_FROM_DESCR: usize = 94;
        const SET_BASE_OBJECT: usize = 282;
        let end = table.wrapping_add(SET_BASE_OBJECT + 1);
        if !is_numpys(table.cast()) || !is_numpys(end.cast()) || !table.is_aligned() {
            return Ok(None);
        }
        // SAFETY: the first and the last of these entries are statics of one library, so the entries between them are
        // readable.
        let entry = |place: usize| unsafe { table.add(place).read() };
        let functions =
            [ABI, DESCR_FROM_TYPE, CAST_TO_TYPE, FROM_ANY, NEW_FROM_DESCR, SET_BASE_OBJECT]
                .map(entry);
        if entry(ARRAY_TYPE).addr() != class.as_ptr().addr()
            || !functions.into_iter().all(is_numpys)
        {
            return Ok(None);
        }
        let [abi, descr_from_type, cast_to_type, from_any, new_from_descr, set_base_object] =
            functions;
        // SAFETY: a static table of NumPy's library with NumPy's class in its place is NumPy's table, which has these
        // functions in these places in all versions.
        let (abi, descr_from_type, cast_to_type, from_any, new_from_descr, set_base_object) = unsafe {
            let abi: extern "C" fn() -> c_uint = mem::transmute(abi);
            let descr_from_type: unsafe extern "C" fn(c_int) -> *mut ffi::PyObject =
                mem::transmute(descr_from_type);
            let cast_to_type: CastToType = mem::transmute(cast_to_type);
            let from_any: FromAny = mem::transmute(from_any);
            let new_from_descr: NewFromDescr = mem::transmute(new_from_descr);
            let set_base_object: SetBaseObject = mem::transmute(set_base_object);
            (abi(), descr_from_type, cast_to_type, from_any, new_from_descr, set_base_object)
        };
        let max_ndim = match abi >> 24 {
            1 => 32,
            2 => 64,
            _ => return Ok(None),
        };
        let descr = |(number, dtype)| {
            // SAFETY: attached; `number` is a dtype's number. The function returns a new reference, or NULL and an
            // exception.
            let descr = unsafe { Bound::from_owned_ptr_or_err(py, descr_from_type(number)) }?;
            Ok((descr.unbind(), dtype))
        };
        let dtypes = DTYPES.into_iter().map(descr).collect::<PyResult<Vec<_>>>()?;
        let Ok(dtypes) = dtypes.try_into() else { return Ok(None) };
        let class = class.unbind();
        Ok(Some(Self {
            class,
            dtypes,
            new_from_descr,
            set_base_object,
            cast_to_type,
            from_any,
            max_ndim,
        }))
    }
}

/// The first element of a tensor on the CPU, its extents, and its strides in bytes, for an array.
fn in_bytes(tensor: &TensorRef<'_>) -> (*mut c_void, Vec<isize>, Vec<isize>) {
    let itemsize = tensor.dtype().itemsize() as isize;
    let extents = tensor.shape().iter().map(|&extent| extent as isize).collect();
    // A product overflows only for dimensions of extent 1.
    let in_bytes = |&stride: &i64| (stride as isize).wrapping_mul(itemsize);
    let strides = tensor.strides().iter().map(in_bytes).collect();
    // NULL would make NumPy allocate; without elements any other address works.
    let first = match tensor.data() {
        data if data.is_null() => ptr::without_provenance_mut(align_of::<u128>()),
        data => data.wrapping_byte_add(tensor.byte_offset() as usize),
    };
    (first, extents, strides)
}

/// NumPy's class of arrays, if NumPy is loaded.
pub(crate) fn class(py: Python<'_>) -> PyResult<Option<&Bound<'_, PyType>>> {
    Ok(NumpyApi::of_loaded(py)?.map(|api| api.class(py)))
}

/// The start, in memory, of the program or shared library that contains the function or static at an address; `None`
/// for all other memory.
#[cfg(unix)]
fn shared_object(address: *const c_void) -> Option<NonZeroUsize> {
    let mut found = mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: `dladdr` accepts any address and only looks it up; `found` is writable, and filled unless the result is 0.
    unsafe {
        match libc::dladdr(address, found.as_mut_ptr()) {
            0 => None,
            _ => NonZeroUsize::new(found.assume_init().dli_fbase.addr()),
        }
    }
}

/// The start of the program or library that contains an address, as on Unix.
#[cfg(windows)]
fn shared_object(address: *const c_void) -> Option<NonZeroUsize> {
    const FROM_ADDRESS: u32 = 4;
    const UNCHANGED_COUNT: u32 = 2;
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetModuleHandleExW(flags: u32, address: *const c_void, image: *mut *mut c_void) -> i32;
    }
    let mut image = ptr::null_mut();
    // SAFETY: the function accepts any address and only looks it up; `image` is writable.
    match unsafe { GetModuleHandleExW(FROM_ADDRESS | UNCHANGED_COUNT, address, &mut image) } {
        0 => None,
        _ => NonZeroUsize::new(image.addr()),
    }
}

/// Returns `None`: on other systems, no memory is known to belong to a library.
#[cfg(not(any(unix, windows)))]
fn shared_object(_address: *const c_void) -> Option<NonZeroUsize> {
    None
}
