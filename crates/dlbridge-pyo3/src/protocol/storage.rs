//! Keeps the storages of tensors that may replace their memory. The managed tensor of such a tensor keeps only the
//! tensor, and the memory belongs to the storage, a separate object.

use dlbridge::{Access, RawParts, Tensor};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::is_copied;
use super::type_info::TypeInfo;
use crate::error::to_py_err;
use crate::imported::Imported;
use crate::interpreter::PyOwner;

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

/// A tensor, and the storage of the object that it was imported from.
struct Stored {
    // Fields drop in this order.
    _tensor: Tensor,
    _storage: PyOwner,
}

/// Adds the storage that holds the memory to an imported tensor. The storage was found before the import.
pub(crate) fn with_storage(
    storage: Option<Bound<'_, PyAny>>,
    imported: Imported,
) -> PyResult<Imported> {
    let Some(storage) = storage.filter(|_| !is_copied(&imported.tensor)) else {
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
