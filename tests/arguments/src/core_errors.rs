//! Errors of the core as Python exceptions.

use dlbridge_pyo3::dlbridge::{Access, DataType, Device, Error};
use pyo3::prelude::*;

/// The name of each variant of the core's error, and the class of the exception that it becomes.
#[pyfunction]
pub(crate) fn core_error_classes(py: Python<'_>) -> PyResult<Vec<(String, String)>> {
    let dtype = DataType::FLOAT32;
    let errors = [
        Error::NullPointer { field: "field" },
        Error::MisalignedStruct { address: 1 },
        Error::Version { major: 2, minor: 0 },
        Error::InvalidNdim { ndim: -1 },
        Error::NegativeExtent { axis: 0, extent: -1 },
        Error::InvalidDataType { dtype },
        Error::UnknownDataTypeName,
        Error::UnknownDeviceName,
        Error::TooLarge,
        Error::OutOfMemory { bytes: 1, for_copy: false },
        Error::ElementCount { shape: 1, owner: 2 },
        Error::ByteCount { needed: 2, available: 1 },
        Error::StridesLength { ndim: 1, strides: 2 },
        Error::OutOfBounds { lowest: 0, highest: 1, owner: 1 },
        Error::DataType { expected: dtype, found: DataType::UINT8 },
        Error::Ndim { expected: 1, found: 2 },
        Error::AxisCount { given: 1, ndim: 2 },
        Error::Extent { axis: 0, expected: 1, found: 2 },
        Error::ExtentLimit { axis: 0, limit: 1, found: 2 },
        Error::NotHostAccessible { device: Device::CPU },
        Error::Misaligned { address: 1, required: 4 },
        Error::SubbytePacked { dtype },
        Error::NotSubbyte { dtype },
        Error::InvalidElement { dtype },
        Error::ReadOnly,
        Error::Shared,
        Error::Unstable { access: Access::Shared },
        Error::Overlapping,
        Error::NotContiguous,
        Error::NotFortranContiguous,
        Error::InvalidAxis { axis: 1, ndim: 1 },
        Error::RepeatedAxis { axis: 0 },
        Error::InvalidRange { axis: 0, start: 1, end: 0, extent: 1 },
        Error::NotReshapable,
        Error::NoByteOrder { dtype },
        Error::LegacyReadOnly,
        Error::LegacySubbytePadded,
    ];
    let described = |error: Error| {
        let variant = format!("{error:?}");
        let variant = variant.split(' ').next().unwrap_or_default().to_owned();
        Ok((variant, PyErr::from(error).get_type(py).name()?.to_string()))
    };
    errors.into_iter().map(described).collect()
}
