//! The protocols: one file for each, import and export together. What tries them is `import`.

pub(crate) mod array_interface;
pub(crate) mod array_struct;
pub(crate) mod arrow;
pub(crate) mod buffer;
pub(crate) mod buffer_abi;
#[cfg(all(feature = "tensor-class", any(Py_3_11, not(Py_LIMITED_API))))]
pub(crate) mod buffer_export;
pub(crate) mod buffer_format;
pub(crate) mod caveats;
pub(crate) mod classes;
pub(crate) mod cuda_array_interface;
pub(crate) mod dlpack;
#[cfg(feature = "tensor-class")]
pub(crate) mod dlpack_export;
// The calling convention is part of the stable ABI from Python 3.10.
#[cfg(all(feature = "tensor-class", any(Py_3_10, not(Py_LIMITED_API))))]
pub(crate) mod dlpack_method;
pub(crate) mod exchange_api;
#[cfg(feature = "tensor-class")]
pub(crate) mod exchange_table;
pub(crate) mod kind;
pub(crate) mod lacking;
pub(crate) mod left_out;
pub(crate) mod lender;
pub(crate) mod memory;
pub(crate) mod moved;
pub(crate) mod numpy_api;
pub(crate) mod numpy_array;
pub(crate) mod numpy_import;
pub(crate) mod numpy_scalar;
pub(crate) mod pandas;
pub(crate) mod picture;
pub(crate) mod question;
pub(crate) mod sibling;
pub(crate) mod source;
pub(crate) mod storage;
pub(crate) mod stream;
mod strides;
pub(crate) mod time;
pub(crate) mod typestr;

use dlbridge::sys::{DLPACK_FLAG_BITMASK_IS_COPIED, DLPackVersion};
use dlbridge::{CopyReason, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

pub(crate) use self::kind::Kind;
pub(crate) use self::lacking::{Lacking, Method};
pub(crate) use self::stream::{DataStream, StreamOf, Streams};

/// The protocol by which a tensor was imported.
///
/// ```
/// use dlbridge_pyo3::Protocol;
///
/// assert_eq!(Protocol::LegacyDlpack.name(), "dlpack-legacy");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// The C exchange API of DLPack, which a type offers as `__dlpack_c_exchange_api__`.
    ExchangeApi,
    /// `__dlpack__`, answered with a versioned capsule; or such a capsule itself.
    Dlpack,
    /// `__dlpack__`, answered with a legacy capsule, which cannot say whether data is read-only; or
    /// such a capsule itself.
    LegacyDlpack,
    /// `__cuda_array_interface__`.
    CudaArrayInterface,
    /// `__array_interface__`.
    ArrayInterface,
    /// `__array_struct__`.
    ArrayStruct,
    /// The buffer protocol.
    Buffer,
    /// The Arrow PyCapsule interface.
    Arrow,
}

impl Protocol {
    /// All protocols.
    pub(crate) const ALL: [Self; 8] = [
        Self::ExchangeApi,
        Self::Dlpack,
        Self::LegacyDlpack,
        Self::CudaArrayInterface,
        Self::ArrayInterface,
        Self::ArrayStruct,
        Self::Buffer,
        Self::Arrow,
    ];

    /// The name that Python sees.
    ///
    /// ```
    /// assert_eq!(dlbridge_pyo3::Protocol::Buffer.name(), "buffer");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExchangeApi => "exchange-api",
            Self::Dlpack => "dlpack",
            Self::LegacyDlpack => "dlpack-legacy",
            Self::CudaArrayInterface => "cuda-array-interface",
            Self::ArrayInterface => "array-interface",
            Self::ArrayStruct => "array-struct",
            Self::Buffer => "buffer",
            Self::Arrow => "arrow",
        }
    }

    /// Whether a producer can say that its data is read-only. A legacy one cannot, and some of them
    /// lend what must not change: unless it is a copy it is taken for read-only, as NumPy does.
    pub(crate) const fn tells_read_only(self) -> bool {
        !matches!(self, Self::LegacyDlpack)
    }

    /// The feature of this crate that imports through this protocol need, if the extension is built without it.
    pub(crate) const fn missing_feature(self) -> Option<&'static str> {
        match self {
            Self::CudaArrayInterface | Self::ArrayInterface | Self::ArrayStruct
                if !cfg!(feature = "array-interface") =>
            {
                Some("array-interface")
            }
            Self::Buffer if !cfg!(feature = "buffer") => Some("buffer"),
            Self::Arrow if !cfg!(feature = "arrow") => Some("arrow"),
            _ => None,
        }
    }

    /// The attribute of an object that has this protocol, or the name of the protocol.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::ExchangeApi => "__dlpack_c_exchange_api__",
            Self::Dlpack | Self::LegacyDlpack => "__dlpack__",
            Self::CudaArrayInterface => "__cuda_array_interface__",
            Self::ArrayInterface => "__array_interface__",
            Self::ArrayStruct => "__array_struct__",
            Self::Buffer => "the buffer protocol",
            Self::Arrow => "the Arrow PyCapsule interface",
        }
    }
}

/// A tensor out of a Python object, with what is known of how it came.
pub(crate) struct Imported {
    pub(crate) tensor: Tensor,
    pub(crate) protocol: Protocol,
    /// Why the elements were copied, as far as is known.
    pub(crate) reason: Option<CopyReason>,
    /// The version of DLPack that the producer's managed tensor says it is of.
    pub(crate) version: Option<DLPackVersion>,
}

impl Imported {
    pub(crate) fn new(tensor: Tensor, protocol: Protocol) -> Self {
        Self { tensor, protocol, reason: None, version: None }
    }

    /// Whether the data must not be written, or its producer could not have said so.
    pub(crate) fn is_read_only(&self) -> bool {
        let told = self.reason.is_some() || self.protocol.tells_read_only();
        !told || self.tensor.is_read_only()
    }
}

/// Returns true if the producer says that the tensor is a copy.
pub(crate) fn is_copied(tensor: &Tensor) -> bool {
    tensor.flags() & DLPACK_FLAG_BITMASK_IS_COPIED != 0
}

/// An attribute of an object that is no class: a class has its instances' properties. `None` is how
/// an object declines a protocol.
pub(crate) fn attribute<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = object.getattr_opt(name)?.filter(|found| !found.is_none());
    Ok(found.filter(|_| !object.is_instance_of::<PyType>()))
}
