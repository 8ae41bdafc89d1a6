//! Keeps the storages of tensors that may replace their memory. The managed tensor of such a tensor keeps only the
//! tensor, and the memory belongs to the storage, a separate object.

use dlbridge::{Access, RawParts, Tensor, TensorRef};
use pyo3::exceptions::{PyBufferError, PyException};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::cached_attr::CachedAttr;
use super::is_copied;
use super::type_info::TypeInfo;
use crate::error::to_py_err;
use crate::imported::Imported;
use crate::interpreter::PyOwner;
use crate::keepalive::address_range;
use crate::once::once;

/// The storage of an object whose storage can be replaced. `None` for all other objects, and for tensors without a
/// storage or whose library does not return it: their managed tensor keeps the memory alive, as for any producer.
pub(crate) fn storage<'py>(
    object: &Bound<'py, PyAny>,
    type_info: &TypeInfo,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(storage) = &type_info.checks.storage else { return Ok(None) };
    match storage.value(object) {
        Ok(storage) => Ok(Some(storage)),
        Err(error) if error.is_instance_of::<PyException>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The function of a class of storages that returns its address. Its length is its size in bytes.
struct Extent {
    class: Py<PyType>,
    address: CachedAttr,
}

/// That of the first class that was seen; `None` if its length is something else. PyTorch has one class.
static EXTENT: PyOnceLock<Option<Extent>> = PyOnceLock::new();

impl Extent {
    fn of(storage: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let (py, class) = (storage.py(), storage.get_type());
        let address = CachedAttr::method(&class, intern!(py, "data_ptr"), true)?;
        let bytes: usize = storage.call_method0(intern!(py, "nbytes"))?.extract()?;
        let address = address.filter(|_| storage.len().is_ok_and(|len| len == bytes));
        Ok(address.map(|address| Self { class: class.unbind(), address }))
    }

    /// The address of a storage, and its size in bytes.
    #[inline]
    fn read(&self, storage: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
        Ok((self.address.value(storage)?.extract()?, storage.len()?))
    }
}

/// Returns true if a storage has the memory of a tensor, false if it has other memory, and `None` if it does not say.
#[inline]
pub(super) fn holds(storage: &Bound<'_, PyAny>, tensor: &TensorRef<'_>) -> PyResult<Option<bool>> {
    if tensor.is_empty() {
        return Ok(Some(true));
    }
    let py = storage.py();
    let found = once(&EXTENT, py, || Extent::of(storage)).and_then(|extent| {
        let extent = extent.as_ref();
        let known = extent.filter(|known| known.class.as_ptr() == storage.get_type_ptr().cast());
        known.map(|extent| extent.read(storage)).transpose()
    });
    match found {
        Ok(None) => Ok(None),
        Ok(Some((address, bytes))) => {
            let (memory, end) = (address_range(tensor), address.saturating_add(bytes));
            Ok(Some(address <= memory.start && memory.end <= end))
        }
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The storage that keeps the memory of a tensor that was imported from an object, after `storage` was found before the
/// import: this one, or the object's present one if other code gave the object other memory in between.
pub(crate) fn keeping<'py>(
    object: &Bound<'py, PyAny>,
    type_info: &TypeInfo,
    storage: Bound<'py, PyAny>,
    tensor: &TensorRef<'_>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if holds(&storage, tensor)? != Some(false) {
        return Ok(Some(storage));
    }
    match self::storage(object, type_info)? {
        None => Ok(None),
        Some(storage) if holds(&storage, tensor)? != Some(false) => Ok(Some(storage)),
        Some(_) => Err(PyBufferError::new_err(
            "the tensor got other memory while it was imported; do not set its data or storage \
             in another thread or in a function mode meanwhile",
        )),
    }
}

/// A tensor, and the storage of the object that it was imported from.
struct Stored {
    // Fields drop in this order.
    _tensor: Tensor,
    _storage: PyOwner,
}

/// Adds the storage that keeps the memory to an imported tensor. `storage` was found before the import.
pub(crate) fn with_storage<'py>(
    object: &Bound<'py, PyAny>,
    type_info: &TypeInfo,
    storage: Option<Bound<'py, PyAny>>,
    imported: Imported,
) -> PyResult<Imported> {
    let Some(storage) = storage.filter(|_| !is_copied(&imported.tensor)) else {
        return Ok(imported);
    };
    let described = TensorRef::from(&imported.tensor);
    let Some(storage) = keeping(object, type_info, storage, &described)? else {
        return Ok(imported);
    };
    let Imported { tensor, .. } = imported;
    let parts = RawParts {
        device: tensor.device(),
        access: if tensor.is_read_only() { Access::ReadOnly } else { Access::Shared },
        subbyte_padded: tensor.is_subbyte_padded(),
        byte_offset: tensor.byte_offset(),
        ..RawParts::new(tensor.data(), tensor.dtype())
    };
    let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
    let owner = Stored { _tensor: tensor, _storage: PyOwner::new(&storage)? };
    // SAFETY: the metadata of a valid tensor, whose invariants (Data, Dims) hold as long as it lives; it is part of
    // the owner. The storage is kept in addition, and nothing here relies on it.
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, &shape, Some(&strides)) };
    Ok(Imported { tensor: tensor.map_err(to_py_err)?, ..imported })
}
