//! The doors: one file per protocol, import and export together; and the ladder that tries them.

pub(crate) mod array_interface;
pub(crate) mod array_struct;
pub(crate) mod arrow;
pub(crate) mod buffer;
mod buffer_format;
mod caveats;
pub(crate) mod cuda_array_interface;
mod dlpack;
pub(crate) mod exchange_api;
pub(crate) mod exchange_table;
mod kind;
mod memory;
mod typestr;

use std::cell::Cell;

use dlbridge::sys::{DLPACK_FLAG_BITMASK_IS_COPIED, DLPackVersion};
use dlbridge::{Access, Tensor};
use pyo3::exceptions::{PyBufferError, PyException, PyRecursionError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString, PyType};
use pyo3::{ffi, intern};

pub(crate) use dlpack::{Request, expect_named_device, export};
pub(crate) use memory::normalized;

use self::exchange_api::Table;
use self::kind::Kind;
use crate::PyTensor;
use crate::borrow::Borrowed;
use crate::error::type_name;
use crate::receipt::CopyReason;
use crate::wanted::Wanted;

/// The door through which a tensor came.
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
    /// All doors.
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

    /// Whether an object has this door, without opening it.
    fn is_there(self, object: &Bound<'_, PyAny>, kind: &Kind) -> PyResult<bool> {
        let py = object.py();
        let has = |name| attribute(object, name).map(|found| found.is_some());
        match self {
            Self::ExchangeApi => Ok(kind.table.is_some()),
            Self::Dlpack | Self::LegacyDlpack => has(intern!(py, "__dlpack__")),
            Self::CudaArrayInterface => has(intern!(py, "__cuda_array_interface__")),
            Self::ArrayInterface => has(intern!(py, "__array_interface__")),
            Self::ArrayStruct => has(intern!(py, "__array_struct__")),
            // SAFETY: attached; an object.
            Self::Buffer => Ok(unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } != 0),
            Self::Arrow => Ok(has(intern!(py, "__arrow_c_array__"))?
                || has(intern!(py, "__arrow_c_device_array__"))?
                || has(intern!(py, "__arrow_c_stream__"))?),
        }
    }

    /// Imports through this door alone; `None` if the object does not have it.
    fn import(
        self,
        object: &Bound<'_, PyAny>,
        kind: &Kind,
        wanted: &Wanted,
    ) -> PyResult<Option<Imported>> {
        match self {
            Self::ExchangeApi => match kind.table {
                Some(table) => table.import(object, wanted),
                None => Ok(None),
            },
            Self::Dlpack => dlpack::import(object, wanted),
            Self::LegacyDlpack => dlpack::import_legacy(object, wanted),
            Self::CudaArrayInterface => cuda_array_interface::import(object, wanted),
            Self::ArrayInterface => array_interface::import(object, wanted),
            Self::ArrayStruct => array_struct::import(object, wanted),
            Self::Buffer => buffer::import(object, wanted),
            Self::Arrow => arrow::import(object, wanted),
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
    match object.cast::<PyTensor>() {
        Ok(tensor) => Ok(Imported::new(tensor.get().alias()?, Protocol::ExchangeApi)),
        Err(_) => by_ladder(object, wanted),
    }
}

/// What is known of the type of an object.
pub(crate) fn kind_of(object: &Bound<'_, PyAny>) -> PyResult<Kind> {
    kind::of(object)
}

/// Imports through the door that the caller wants, or through the first that there is.
pub(crate) fn by_ladder(object: &Bound<'_, PyAny>, wanted: &Wanted) -> PyResult<Imported> {
    let _depth = Depth::enter()?;
    let imported = match (object.cast::<PyCapsule>(), wanted.protocol) {
        (Ok(capsule), None | Some(Protocol::Dlpack | Protocol::LegacyDlpack)) => {
            if wanted.protocol == Some(Protocol::LegacyDlpack) {
                crate::capsule::expect_legacy(capsule)?;
            }
            crate::capsule::take(capsule)?
        }
        (_, Some(protocol)) => by_door(protocol, object, wanted)?,
        _ => by_first_door(object, wanted)?,
    };
    wanted.settle(told_copied(imported, wanted)?)
}

/// Notes that the producer says it made a copy, and refuses that where none is wanted.
fn told_copied(mut imported: Imported, wanted: &Wanted) -> PyResult<Imported> {
    let by_flags = matches!(imported.protocol, Protocol::ExchangeApi | Protocol::Dlpack);
    let says_so = imported.tensor.flags() & DLPACK_FLAG_BITMASK_IS_COPIED != 0;
    if imported.reason.is_none() && by_flags && says_so {
        if wanted.copy == Some(false) {
            return Err(PyBufferError::new_err(
                "the producer made a copy, and copy=False forbids it; leave that out",
            ));
        }
        imported.reason = Some(CopyReason::Producer);
    }
    Ok(imported)
}

/// A producer that imports itself again and again is stopped. Python's own limit counts calls, and
/// those of an import take more of the stack than it reckons with.
struct Depth;

thread_local! {
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

impl Depth {
    /// Wrappers of wrappers are a few deep.
    const MAX: u8 = 24;

    fn enter() -> PyResult<Self> {
        DEPTH.with(|depth| match depth.get() {
            Self::MAX => Err(PyRecursionError::new_err(
                "importing a tensor led to importing another, and so on, too often; the producer's \
                 __dlpack__ must not import the producer",
            )),
            count => {
                depth.set(count + 1);
                Ok(Self)
            }
        })
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Imports through `__dlpack__` alone, as the array API standard describes it.
pub(crate) fn by_dlpack(object: &Bound<'_, PyAny>, wanted: &Wanted) -> PyResult<Imported> {
    wanted.settle(by_door(Protocol::Dlpack, object, wanted)?)
}

fn by_door(protocol: Protocol, object: &Bound<'_, PyAny>, wanted: &Wanted) -> PyResult<Imported> {
    let kind = kind::of(object)?;
    if let Err(refusal) = caveats::check_before(object, kind.caveats) {
        return Err(if protocol.is_there(object, &kind)? {
            refusal
        } else {
            no_door(object, &[protocol])
        });
    }
    let imported = protocol
        .import(object, &kind, wanted)
        .map_err(|error| caveats::explained(object, kind.caveats, error))?;
    let imported = imported.ok_or_else(|| no_door(object, &[protocol]))?;
    caveats::check(object, kind.caveats, imported.tensor.dtype())?;
    Ok(imported)
}

fn by_first_door(object: &Bound<'_, PyAny>, wanted: &Wanted) -> PyResult<Imported> {
    let kind = kind::of(object)?;
    caveats::check_before(object, kind.caveats)?;
    let ladder = if kind.only_buffer { &[Protocol::Buffer][..] } else { &Protocol::LADDER };
    for &protocol in ladder {
        let imported = match protocol.import(object, &kind, wanted) {
            Ok(Some(imported)) => imported,
            Ok(None) => continue,
            Err(refusal) if protocol == Protocol::Dlpack => repaired(object, wanted, refusal)
                .map_err(|error| caveats::explained(object, kind.caveats, error))?,
            Err(error) => return Err(caveats::explained(object, kind.caveats, error)),
        };
        caveats::check(object, kind.caveats, imported.tensor.dtype())?;
        return Ok(imported);
    }
    Err(no_door(object, &Protocol::LADDER))
}

/// What `__dlpack__` refused because DLPack or the producer cannot express it, through a door that can:
/// data in the other byte order, strides that are no whole elements, dtypes that NumPy does not know,
/// and what Arrow has beyond plain numbers. Anything else that was refused stays so.
fn repaired(object: &Bound<'_, PyAny>, wanted: &Wanted, refusal: PyErr) -> PyResult<Imported> {
    let py = object.py();
    if !refusal.is_instance_of::<PyException>(py) {
        return Err(refusal);
    }
    if attribute(object, intern!(py, "__arrow_c_array__"))?.is_some() {
        // Arrow's own exceptions are no BufferErrors, and do not say what to do.
        return match arrow::import(object, wanted) {
            Ok(imported) => imported.ok_or(refusal),
            Err(error) => {
                error.set_cause(py, Some(refusal));
                Err(error)
            }
        };
    }
    if !refusal.is_instance_of::<PyBufferError>(py) || !dlpack::is_on_host(object)? {
        return Err(refusal);
    }
    for door in [array_interface::import, buffer::import] {
        match door(object, wanted) {
            Ok(Some(imported)) if is_beyond_dlpack(&imported) => return Ok(imported),
            Ok(_) => {}
            // What it says is more than that DLPack does not have it.
            Err(error) if error.is_instance_of::<PyBufferError>(py) => {
                error.set_cause(py, Some(refusal));
                return Err(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(refusal)
}

/// Whether a tensor is one that a producer by NumPy could not have made.
fn is_beyond_dlpack(imported: &Imported) -> bool {
    imported.reason.is_some() || typestr::of_dtype(imported.tensor.dtype()).is_none()
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

fn no_door(object: &Bound<'_, PyAny>, looked_for: &[Protocol]) -> PyErr {
    let name = type_name(object);
    let mut names = Vec::new();
    for protocol in looked_for {
        let name = match protocol {
            Protocol::ExchangeApi => "__dlpack_c_exchange_api__",
            Protocol::Dlpack | Protocol::LegacyDlpack => "__dlpack__",
            Protocol::CudaArrayInterface => "__cuda_array_interface__",
            Protocol::ArrayInterface => "__array_interface__",
            Protocol::ArrayStruct => "__array_struct__",
            Protocol::Buffer => "the buffer protocol",
            Protocol::Arrow => "the Arrow PyCapsule interface",
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let remedy = match looked_for.len() {
        1 => "leave out protocol to look for the others",
        _ if object.is_none() => "pass a tensor",
        _ => "convert it with numpy.asarray first",
    };
    PyTypeError::new_err(format!(
        "'{name}' object speaks no exchange protocol: looked for {}; {remedy}",
        names.join(", ")
    ))
}
