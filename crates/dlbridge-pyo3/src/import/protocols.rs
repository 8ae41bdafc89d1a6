//! One function per task, which calls the file of the right protocol.

use pyo3::prelude::*;

use crate::import_options::ImportOptions;
use crate::imported::{Imported, Protocol};
use crate::protocol::{
    Lacking, Method, TypeInfo, array_interface, array_struct, arrow, buffer, cuda_array_interface,
    dlpack, left_out,
};
use crate::stream::Streams;

/// The protocols, in trial order. `__dlpack__` returns a legacy capsule by itself, if the producer lacks
/// versioned ones.
pub(super) const ORDER: [Protocol; 7] = [
    Protocol::ExchangeApi,
    Protocol::Dlpack,
    Protocol::CudaArrayInterface,
    Protocol::ArrayInterface,
    Protocol::ArrayStruct,
    Protocol::Buffer,
    Protocol::Arrow,
];

/// Returns true if an object has the methods of this protocol; does not call them.
pub(super) fn has(
    protocol: Protocol,
    object: &Bound<'_, PyAny>,
    type_info: &TypeInfo,
    lacking: Lacking,
) -> PyResult<bool> {
    let has_method = |method: Method| method.of(object, lacking).map(|found| found.is_some());
    match protocol {
        Protocol::ExchangeApi => Ok(type_info.table.is_some()),
        Protocol::Dlpack | Protocol::LegacyDlpack => has_method(Method::Dlpack),
        Protocol::CudaArrayInterface => has_method(Method::CudaArrayInterface),
        Protocol::ArrayInterface => has_method(Method::ArrayInterface),
        Protocol::ArrayStruct => has_method(Method::ArrayStruct),
        Protocol::Buffer => Ok(buffer::is_supported(object)),
        Protocol::Arrow => Ok(has_method(Method::ArrowArray)?
            || has_method(Method::ArrowDeviceArray)?
            || has_method(Method::ArrowStream)?),
    }
}

/// Imports through one protocol; `None` if the object does not have it.
pub(super) fn import<'py>(
    protocol: Protocol,
    object: &Bound<'py, PyAny>,
    type_info: &TypeInfo,
    lacking: Lacking,
    options: &ImportOptions,
    streams: &Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    if protocol.missing_feature().is_some() {
        return match has(protocol, object, type_info, lacking)? {
            true => Err(left_out::refusal(protocol, object)),
            false => Ok(None),
        };
    }
    match protocol {
        Protocol::ExchangeApi => match type_info.table {
            Some(table) => table.import(object, options, streams),
            None => Ok(None),
        },
        Protocol::Dlpack => dlpack::import(object, lacking, options, streams),
        Protocol::LegacyDlpack => dlpack::import_legacy(object, lacking, options, streams),
        Protocol::CudaArrayInterface if cfg!(feature = "array-interface") => {
            cuda_array_interface::import(object, lacking, options, streams)
        }
        Protocol::ArrayInterface if cfg!(feature = "array-interface") => {
            array_interface::import(object, lacking, options)
        }
        Protocol::ArrayStruct if cfg!(feature = "array-interface") => {
            array_struct::import(object, lacking, options)
        }
        Protocol::Buffer if cfg!(feature = "buffer") => buffer::import(object, options),
        Protocol::Arrow if cfg!(feature = "arrow") => {
            arrow::import(object, type_info, lacking, options)
        }
        _ => Ok(None),
    }
}
