//! PyTorch's tensors. They may replace their memory, which belongs to a storage, a separate object. A managed tensor keeps
//! only the tensor, so an import keeps the storage too; and an argument describes a tensor in place, without an import.
//!
//! - **Stored.** A storage keeps its memory as long as it lives. So elements that lie in the memory of a storage may be
//!   read as long as the storage is kept ([`is_stored`]). A description alone shows nothing: other code may
//!   have given the object other memory since the storage was found.
//! - **Undisturbed.** No code changes an object between its description and the last read of its extents: this thread
//!   runs none, and another one would need the GIL. In a Python without the GIL the program promises it
//!   (`docs/free-threaded.md`), for PyTorch's own functions too.

use std::slice;

use dlbridge::sys::DLTensor;
use dlbridge::{DataType, Device, MAX_NDIM, RawParts, Tensor, TensorRef};
use pyo3::exceptions::{PyBufferError, PyException, PyRecursionError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::framework_checks::CachedAttr;
use super::type_info::TypeInfo;
use crate::frameworks::Attribute;
use crate::imported::is_copied;
use crate::layout::address_range;
use crate::python::interpreter::PyOwner;
use crate::python::objects::once;

/// Returns true if the table of a type is known to describe the elements of its objects in their storages.
#[inline]
pub(crate) fn is_described(type_info: &TypeInfo) -> bool {
    type_info.torch_view.get() == Some(&true)
}

/// The description of an object, and the storage that keeps the memory of its elements. [`is_sound`] makes the checks
/// of an import.
pub(crate) struct Described<'py> {
    dtype: DataType,
    device: Device,
    ndim: usize,
    description: DLTensor,
    pub(crate) storage: Bound<'py, PyAny>,
}

impl<'py> Described<'py> {
    /// Describes an object; `None` if only an import can decide: for data on a device, and for elements that are not
    /// whole bytes, because a description lacks flags.
    ///
    /// # Errors
    /// Exceptions that are not errors, such as `KeyboardInterrupt`.
    #[inline(always)]
    pub(crate) fn of(object: &Bound<'py, PyAny>, type_info: &TypeInfo) -> PyResult<Option<Self>> {
        let Some(table) = type_info.table else { return Ok(None) };
        // Before the description: while the storage is looked up, other code may give the object other memory.
        let Some(storage) = storage(object, type_info)? else { return Ok(None) };
        let found = match table.describe(object) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) => return ignored(object.py(), error).map(|()| None),
        };
        let (dtype, device) = (DataType::from(found.dtype), Device::from(found.device));
        let ndim = usize::try_from(found.ndim).ok().filter(|&ndim| ndim <= MAX_NDIM);
        let is_readable =
            |dims: *const i64| found.ndim == 0 || !dims.is_null() && dims.is_aligned();
        let has_dims = is_readable(found.shape) && is_readable(found.strides);
        let on_host = device.device_type().is_host_accessible();
        let ndim = ndim.filter(|_| has_dims && on_host && !dtype.is_subbyte());
        Ok(ndim.map(|ndim| Self { dtype, device, ndim, description: found, storage }))
    }

    /// The extents and strides.
    ///
    /// # Safety
    /// No code has run on this thread since the object was described.
    #[inline(always)]
    unsafe fn dims(&self) -> (&[i64], &[i64]) {
        let dims = |dims: *const i64| match self.ndim {
            0 => &[][..],
            // SAFETY: Undisturbed, and the specification: `ndim` numbers, which stay until other code runs; `of` refused
            // pointers that are NULL or not aligned.
            ndim => unsafe { slice::from_raw_parts(dims, ndim) },
        };
        (dims(self.description.shape), dims(self.description.strides))
    }

    /// The elements as a tensor with extents and strides of its own, if they are contiguous in memory of the CPU and
    /// have at most four dimensions. `None` for all others.
    ///
    /// # Safety
    /// No code has run since the object was described. The caller drops the tensor unless [`is_stored`] returns
    /// true for it, and otherwise keeps the storage as long as the tensor.
    #[inline(always)]
    pub(crate) unsafe fn run(&self) -> Option<TensorRef<'static>> {
        // SAFETY: the caller promises that no code has run.
        let (shape, strides) = unsafe { self.dims() };
        let mut next = 1_i64;
        for (&extent, &stride) in shape.iter().zip(strides).rev() {
            if stride != next {
                return None;
            }
            next = next.wrapping_mul(extent);
        }
        if self.device != Device::CPU || self.description.byte_offset != 0 {
            return None;
        }
        // SAFETY: Stored: the caller reads no element before `is_stored` has returned true, and keeps the storage. The
        // program promises that no code writes while a view is alive (see the crate documentation).
        unsafe { TensorRef::from_raw_run(self.description.data, self.dtype, shape) }
    }

    /// As [`run`](Self::run), for elements of any layout; `None` if the description is not valid.
    ///
    /// # Safety
    /// As for `run`.
    pub(crate) unsafe fn tensor(&self) -> Option<TensorRef<'static>> {
        // SAFETY: the caller promises that no code has run.
        let (shape, strides) = unsafe { self.dims() };
        let DLTensor { data, byte_offset, .. } = self.description;
        let parts =
            RawParts { device: self.device, byte_offset, ..RawParts::new(data, self.dtype) };
        let axes = shape.iter().copied().zip(strides.iter().copied());
        // SAFETY: Stored, as for `run`.
        unsafe { TensorRef::from_raw_axes(&parts, axes) }.ok()
    }
}

/// Returns true if the elements of an object that was described lie in the memory of a storage.
///
/// # Errors
/// Exceptions that are not errors, such as `KeyboardInterrupt`.
#[inline]
pub(crate) fn is_stored(storage: &Bound<'_, PyAny>, tensor: &TensorRef<'_>) -> PyResult<bool> {
    Ok(holds(storage, tensor)? == Some(true))
}

/// Returns true if the elements of an object that was described are its values. False for one in a state that the
/// import refuses.
///
/// # Errors
/// Exceptions that are not errors, such as `KeyboardInterrupt`.
#[inline(always)]
pub(crate) fn is_sound(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    dtype: DataType,
) -> PyResult<bool> {
    match type_info.checks.check(object, dtype) {
        Ok(()) => Ok(true),
        Err(error) => ignored(object.py(), error).map(|()| false),
    }
}

/// Compares the description of an object with its imported tensor, once per type. A type whose table describes
/// something else is always imported.
#[inline]
pub(crate) fn measure(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    imported: &Tensor,
) -> PyResult<()> {
    match type_info.torch_view.get() {
        Some(_) => Ok(()),
        None => measure_now(object, type_info, imported),
    }
}

#[cold]
fn measure_now(object: &Bound<'_, PyAny>, type_info: &TypeInfo, imported: &Tensor) -> PyResult<()> {
    // Empty tensors lack an address to compare, and data on a device is not described.
    if imported.is_empty() || !imported.device().device_type().is_host_accessible() {
        return Ok(());
    }
    let by_function = type_info.checks.storage.as_ref().is_some_and(CachedAttr::is_function);
    let mut is_equal = by_function;
    if by_function {
        let Some(found) = Described::of(object, type_info)? else { return Ok(()) };
        // SAFETY: no code has run since the line above. The tensor does not leave this block, and no element is read.
        let tensor = unsafe { found.tensor() };
        is_equal = match tensor.filter(|tensor| is_same(tensor, imported)) {
            Some(tensor) => is_stored(&found.storage, &tensor)?,
            None => false,
        };
    }
    let _ = type_info.torch_view.set(is_equal);
    Ok(())
}

/// Returns true if a tensor has the elements of an imported one, whose flags a description cannot have.
fn is_same(tensor: &TensorRef<'_>, imported: &Tensor) -> bool {
    let theirs = TensorRef::from(imported);
    tensor.data() == theirs.data()
        && tensor.byte_offset() == theirs.byte_offset()
        && tensor.dtype() == theirs.dtype()
        && tensor.device() == theirs.device()
        && tensor.shape() == theirs.shape()
        && tensor.strides() == theirs.strides()
        && !imported.is_read_only()
        && !is_copied(imported)
}

/// The storage of an object whose storage can be replaced. `None` for all other objects, and for tensors without a
/// storage or whose library does not return it: their managed tensor keeps the memory alive, as for any producer.
pub fn storage<'py>(
    object: &Bound<'py, PyAny>,
    type_info: &TypeInfo,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(storage) = &type_info.checks.storage else { return Ok(None) };
    match storage.value(object) {
        Ok(storage) => Ok(Some(storage)),
        Err(error) => ignored(object.py(), error).map(|()| None),
    }
}

/// Raises an exception, unless an import goes on without the answer of the library that raised it. An import within an
/// import that goes too deep must end all of them.
#[cold]
pub(super) fn ignored(py: Python<'_>, error: PyErr) -> PyResult<()> {
    let is_ignored =
        error.is_instance_of::<PyException>(py) && !error.is_instance_of::<PyRecursionError>(py);
    if is_ignored { Ok(()) } else { Err(error) }
}

/// The function of a class of storages that returns its address. Its length is its size in bytes.
struct Extent {
    class: Py<PyType>,
    address: CachedAttr,
}

/// That of the first class whose addresses a C function returns. PyTorch has one class.
static EXTENT: PyOnceLock<Extent> = PyOnceLock::new();

impl Extent {
    /// As [`read_if_known`](Self::read_if_known), for the first storage. `None` for one of a class of Python code, and if
    /// the length is something else.
    #[cold]
    fn learn(storage: &Bound<'_, PyAny>) -> PyResult<Option<(usize, usize)>> {
        let (py, class) = (storage.py(), storage.get_type());
        let address = CachedAttr::of(&class, Attribute::Method("data_ptr"), true)?;
        let Some(address) = address.filter(CachedAttr::is_function) else { return Ok(None) };
        let bytes: usize = storage.call_method0(intern!(py, "nbytes"))?.extract()?;
        if storage.len()? != bytes {
            return Ok(None);
        }
        let extent = Self { class: class.unbind(), address };
        once(&EXTENT, py, || Ok::<_, PyErr>(extent))?.read_if_known(storage)
    }

    /// The address of a storage, and its size in bytes; `None` for one of another class.
    #[inline]
    fn read_if_known(&self, storage: &Bound<'_, PyAny>) -> PyResult<Option<(usize, usize)>> {
        match self.class.as_ptr() == storage.get_type_ptr().cast() {
            true => Ok(Some((self.address.size(storage)?, storage.len()?))),
            false => Ok(None),
        }
    }
}

/// Returns true if a storage has the memory of a tensor, false if it has other memory, and `None` if it does not say.
#[inline]
pub fn holds(storage: &Bound<'_, PyAny>, tensor: &TensorRef<'_>) -> PyResult<Option<bool>> {
    if tensor.is_empty() {
        return Ok(Some(true));
    }
    let py = storage.py();
    let found = match EXTENT.get(py) {
        Some(extent) => extent.read_if_known(storage),
        None => Extent::learn(storage),
    };
    match found {
        Ok(None) => Ok(None),
        Ok(Some((address, bytes))) => {
            let (memory, end) = (address_range(tensor), address.saturating_add(bytes));
            Ok(Some(address <= memory.start && memory.end <= end))
        }
        Err(error) => ignored(py, error).map(|()| None),
    }
}

/// Adds the storage that keeps the memory to a tensor that was imported from an object. `found` is the object's storage
/// before the import. If other code gave the object other memory meanwhile, the object's present storage is kept.
pub(crate) fn with_storage(
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    found: Option<Bound<'_, PyAny>>,
    tensor: Tensor,
) -> PyResult<Tensor> {
    let Some(mut kept) = found.filter(|_| !is_copied(&tensor)) else { return Ok(tensor) };
    let has_other =
        |storage| Ok::<_, PyErr>(holds(storage, &TensorRef::from(&tensor))? == Some(false));
    if has_other(&kept)? {
        let Some(present) = storage(object, type_info)? else { return Ok(tensor) };
        if has_other(&present)? {
            return Err(PyBufferError::new_err(
                "the tensor got other memory while it was imported; do not set its data or storage \
                 in another thread or in a function mode meanwhile",
            ));
        }
        kept = present;
    }
    Ok(tensor.with_keepalive(PyOwner::new(&kept)?))
}
