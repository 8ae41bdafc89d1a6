//! The doors: one file per protocol, import and export together; and the ladder that tries them.

pub(crate) mod array_interface;
pub(crate) mod array_struct;
pub(crate) mod arrow;
pub(crate) mod buffer;
pub(crate) mod buffer_abi;
#[cfg(all(feature = "tensor-class", any(Py_3_11, not(Py_LIMITED_API))))]
pub(crate) mod buffer_export;
mod buffer_format;
mod caveats;
pub(crate) mod cuda_array_interface;
mod dlpack;
#[cfg(feature = "tensor-class")]
mod dlpack_export;
// The calling convention is part of the stable ABI from Python 3.10.
#[cfg(all(feature = "tensor-class", any(Py_3_10, not(Py_LIMITED_API))))]
pub(crate) mod dlpack_method;
pub(crate) mod exchange_api;
#[cfg(feature = "tensor-class")]
pub(crate) mod exchange_table;
mod kind;
mod lacking;
mod ladder;
mod left_out;
mod lender;
mod memory;
mod moved;
pub(crate) mod numpy_api;
pub(crate) mod numpy_array;
mod on_device;
mod pandas;
mod picture;
mod question;
pub(crate) mod sibling;
pub(crate) mod source;
mod storage;
pub(crate) mod stream;
pub(crate) mod time;
mod typestr;

use dlbridge::sys::DLPackVersion;
use dlbridge::{Access, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

pub(crate) use dlpack::expect_named_device;
#[cfg(feature = "tensor-class")]
pub(crate) use dlpack_export::{Request, export};
pub(crate) use ladder::{
    ByTable, any_by_ladder, by_dlpack, by_ladder, by_ladder_on, by_table, has_a_door, is_copied,
    never_has_a_door, past_table, told_copied,
};
pub(crate) use left_out::{Described, described, is_left_out};
pub(crate) use lender::{Lender, same_buffer};
pub(crate) use memory::{counts_of_times, normalized};
pub(crate) use moved::{copied, kept_until_passed};
pub(crate) use on_device::on_device;
pub(crate) use stream::{DataStream, StreamOf, Streams};
pub(crate) use typestr::is_beyond_tensors;

use self::exchange_api::Table;
use self::kind::Known;
pub(crate) use self::kind::{
    Kind, array_of, is_instance, is_plain_python, package_of, plain_python,
    quick_of as quick_kind_of,
};
use self::lacking::{Lacking, Method};
#[cfg(feature = "tensor-class")]
use crate::PyTensor;
use crate::borrow::Borrowed;
use crate::receipt::CopyReason;
use crate::wanted::Wanted;

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

    /// The doors in the order in which they are tried. `__dlpack__` gives the legacy answer by
    /// itself, if it has no other.
    const LADDER: [Self; 7] = [
        Self::ExchangeApi,
        Self::Dlpack,
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

    /// Returns true if an object has the methods of this protocol, without a call of them.
    fn is_there(self, object: &Bound<'_, PyAny>, kind: &Kind) -> PyResult<bool> {
        let lacking = kind.lacking.now(object.py())?;
        let has = |method: Method| method.of(object, lacking).map(|found| found.is_some());
        match self {
            Self::ExchangeApi => Ok(kind.table.is_some()),
            Self::Dlpack | Self::LegacyDlpack => has(Method::Dlpack),
            Self::CudaArrayInterface => has(Method::CudaArrayInterface),
            Self::ArrayInterface => has(Method::ArrayInterface),
            Self::ArrayStruct => has(Method::ArrayStruct),
            Self::Buffer => Ok(buffer_abi::check(object)),
            Self::Arrow => Ok(has(Method::ArrowArray)?
                || has(Method::ArrowDeviceArray)?
                || has(Method::ArrowStream)?),
        }
    }

    /// Imports through this door alone; `None` if the object does not have it.
    fn import<'py>(
        self,
        object: &Bound<'py, PyAny>,
        kind: &Kind,
        lacking: Lacking,
        wanted: &Wanted,
        streams: &Streams<'_, 'py>,
    ) -> PyResult<Option<Imported>> {
        if self.missing_feature().is_some() {
            return match self.is_there(object, kind)? {
                true => Err(self.left_out(object)),
                false => Ok(None),
            };
        }
        match self {
            Self::ExchangeApi => match kind.table {
                Some(table) => table.import(object, wanted, streams),
                None => Ok(None),
            },
            Self::Dlpack => dlpack::import(object, lacking, wanted, streams),
            Self::LegacyDlpack => dlpack::import_legacy(object, lacking, wanted, streams),
            Self::CudaArrayInterface if cfg!(feature = "array-interface") => {
                cuda_array_interface::import(object, lacking, wanted, streams)
            }
            Self::ArrayInterface if cfg!(feature = "array-interface") => {
                array_interface::import(object, lacking, wanted)
            }
            Self::ArrayStruct if cfg!(feature = "array-interface") => {
                array_struct::import(object, lacking, wanted)
            }
            Self::Buffer if cfg!(feature = "buffer") => buffer::import(object, wanted),
            Self::Arrow if cfg!(feature = "arrow") => arrow::import(object, kind, lacking, wanted),
            _ => Ok(None),
        }
    }

    /// The feature of this crate that imports through this protocol need, if the extension is built without it.
    const fn missing_feature(self) -> Option<&'static str> {
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

    /// The refusal of an object that has this protocol, in an extension that is built without it; the reason why no build
    /// imports the object, if its description gives one.
    #[cold]
    fn left_out(self, object: &Bound<'_, PyAny>) -> PyErr {
        left_out::refusal(self, object)
    }

    /// The attribute of an object that has this protocol, or the name of the protocol.
    const fn words(self) -> &'static str {
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

/// Imports any Python object that speaks a protocol, without a copy wherever a tensor can express the
/// data; whether a producer of DLPack makes one is up to it. What a legacy producer lends comes as
/// read-only, since that one cannot say whether it is.
///
/// The memory is borrowed to be read until the tensor, and all that was made of it without a copy, is
/// dropped. To keep an object without that, there is [`PyTensor::import`].
///
/// # Errors
/// `TypeError` for an object that speaks none; `BufferError` if the memory is borrowed to be written; `BufferError` for data that breaks the specification or
/// that a tensor cannot express; `ValueError` for a capsule that was consumed before or holds
/// something else; whatever the producer raises.
///
/// ```no_run
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn ndim(x: &Bound<'_, PyAny>) -> PyResult<usize> {
///     Ok(dlbridge_pyo3::import(x)?.ndim())
/// }
/// ```
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let imported = imported(object, &Wanted::default())?;
    let read_only = imported.is_read_only();
    if imported.tensor.access() == Access::Exclusive {
        return Ok(imported.tensor);
    }
    Borrowed::tensor(object, imported.tensor, read_only)
}

/// Imports an object, also one of our own class.
pub(crate) fn imported(object: &Bound<'_, PyAny>, wanted: &Wanted) -> PyResult<Imported> {
    #[cfg(feature = "tensor-class")]
    if let Ok(tensor) = object.cast::<PyTensor>() {
        tensor.get().in_default_order(object.py())?;
        return Ok(Imported::new(tensor.get().alias()?, Protocol::ExchangeApi));
    }
    by_ladder(object, wanted)
}

/// As [`imported`]; `None` for an object that has no protocol.
pub(crate) fn any_imported(
    object: &Bound<'_, PyAny>,
    wanted: &Wanted,
) -> PyResult<Option<Imported>> {
    match is_ours(object) {
        true => imported(object, wanted).map(Some),
        false => any_by_ladder(object, wanted),
    }
}

/// Whether an object is of our own class, which has no subclasses.
pub(crate) fn is_ours(object: &Bound<'_, PyAny>) -> bool {
    #[cfg(feature = "tensor-class")]
    return object.is_exact_instance_of::<PyTensor>();
    #[cfg(not(feature = "tensor-class"))]
    return {
        let _ = object;
        false
    };
}

/// Whether an object says that its data is where the CPU cannot read it.
pub(crate) fn is_on_device(object: &Bound<'_, PyAny>) -> bool {
    matches!(dlpack::is_on_host(object), Ok(false))
}

/// What is known of the type of an object.
#[inline]
pub(crate) fn kind_of(object: &Bound<'_, PyAny>) -> PyResult<Known> {
    kind::of(object)
}

/// The table of C functions of a type, if it has one.
pub(crate) fn table_of(object_type: &Bound<'_, PyType>) -> PyResult<Option<Table>> {
    Table::of_type(object_type)
}

/// An attribute of an object that is no class: a class has its instances' properties. `None` is how
/// an object declines a protocol.
fn attribute<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = object.getattr_opt(name)?.filter(|found| !found.is_none());
    Ok(found.filter(|_| !object.is_instance_of::<PyType>()))
}
