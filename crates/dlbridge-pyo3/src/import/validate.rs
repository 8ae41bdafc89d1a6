//! Validate: the elements are the values of the object, and their memory stays.
//!
//! The file of each protocol checks the layout of a tensor, where it reads the producer's description.

use dlbridge::CopyReason;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::request::Received;
use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::protocol::{TypeInfo, framework_checks, is_copied, storage};

/// A tensor whose elements are the values of its producer.
pub(super) struct Valid(pub(super) Imported);

impl Valid {
    pub(super) fn imported(&self) -> &Imported {
        &self.0
    }
}

impl Received<'_, '_> {
    /// Checks the states of the producer that its protocols do not report, and the producer's own mark of a copy.
    pub(super) fn validate(self, options: &ImportOptions) -> PyResult<Valid> {
        let Self { mut imported, producer, storage } = self;
        if let Some(producer) = producer {
            imported = with_values(&producer.object, &producer.type_info, storage, imported)?;
            let column = producer.column.as_ref();
            imported.reason = imported.reason.or(column.and_then(|column| column.reason));
        }
        with_claim(imported, options)
    }
}

/// Refuses the tensor of an object whose state changes the meaning of its bytes, and keeps the memory of storages.
pub(super) fn with_values<'py>(
    object: &Bound<'py, PyAny>,
    type_info: &TypeInfo,
    storage: Option<Bound<'py, PyAny>>,
    imported: Imported,
) -> PyResult<Imported> {
    framework_checks::check(object, &type_info.checks, imported.tensor.dtype())?;
    let tensor = storage::with_storage(object, type_info, storage, imported.tensor)?;
    Ok(Imported { tensor, ..imported })
}

/// Records that the producer marked a copy, and refuses it if `copy=False`.
pub(super) fn with_claim(mut imported: Imported, options: &ImportOptions) -> PyResult<Valid> {
    let by_flags = matches!(imported.protocol, Protocol::ExchangeApi | Protocol::Dlpack);
    if imported.reason.is_none() && by_flags && is_copied(&imported.tensor) {
        if options.copy == Some(false) {
            return Err(PyBufferError::new_err(
                "the producer made a copy, and copy=False forbids it; leave copy=False out",
            ));
        }
        imported.reason = Some(CopyReason::Producer);
    }
    Ok(Valid(imported))
}
