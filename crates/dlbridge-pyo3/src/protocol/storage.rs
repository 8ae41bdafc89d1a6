//! Keeps the storages of tensors that may replace their memory. The managed tensor of such a tensor keeps only the
//! tensor, and the memory belongs to the storage, a separate object.

use dlbridge::{Tensor, TensorRef};
use pyo3::exceptions::{PyBufferError, PyException, PyRecursionError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::cached_attr::CachedAttr;
use super::type_info::TypeInfo;
use crate::frameworks::Attribute;
use crate::imported::is_copied;
use crate::keepalive::address_range;
use crate::python::interpreter::PyOwner;
use crate::python::once::once;

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
