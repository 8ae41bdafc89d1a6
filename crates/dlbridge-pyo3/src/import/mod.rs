//! The import of an object: tries the protocols one after the other, until the object has one.

pub(crate) mod on_device;
mod protocols;
pub(crate) mod satisfy;
pub(crate) mod times;

use std::cell::Cell;

use dlbridge::{Access, Device, Tensor};
use pyo3::exceptions::{
    PyAttributeError, PyBufferError, PyException, PyRecursionError, PyTypeError,
};
use pyo3::prelude::*;
use pyo3::types::{
    PyCapsule, PyComplex, PyFloat, PyInt, PyList, PyModule, PyString, PyTuple, PyType,
};

use self::protocols::ORDER;
#[cfg(feature = "tensor-class")]
use crate::PyTensor;
use crate::borrow::Borrowed;
use crate::error::type_name;
use crate::protocol::left_out::is_left_out;
use crate::protocol::numpy_array::NumpyArray;
use crate::protocol::source::is_ours;
use crate::protocol::storage::{storage, with_storage};
use crate::protocol::{
    Imported, Kind, Lacking, Method, Protocol, Streams, arrow, attribute, buffer, buffer_abi,
    caveats, dlpack, is_copied, kind, left_out, numpy_import, pandas, typestr,
};
use crate::receipt::CopyReason;
use crate::wanted::Wanted;
use crate::{capsule, copies};

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
    from_producer(object, wanted)
}

/// As [`imported`]; `None` for an object that has no protocol.
pub(crate) fn any_imported(
    object: &Bound<'_, PyAny>,
    wanted: &Wanted,
) -> PyResult<Option<Imported>> {
    match is_ours(object) {
        true => imported(object, wanted).map(Some),
        false => any_from_producer(object, wanted),
    }
}

/// Imports by the protocol that the caller wants, or by the first that the object has.
pub(crate) fn from_producer(object: &Bound<'_, PyAny>, wanted: &Wanted) -> PyResult<Imported> {
    match at_once(object, wanted)? {
        Some(imported) => satisfy::settle(wanted, imported),
        None => from_producer_on(object, wanted, &Streams::default()),
    }
}

/// As [`from_producer`]; `None` for an object that has no protocol.
pub(crate) fn any_from_producer(
    object: &Bound<'_, PyAny>,
    wanted: &Wanted,
) -> PyResult<Option<Imported>> {
    match at_once(object, wanted)? {
        Some(imported) => satisfy::settle(wanted, imported).map(Some),
        None => any_from_producer_on(object, wanted, &Streams::default()),
    }
}

/// The tensor of an array of NumPy that no protocol needs to be asked for.
#[inline(always)]
fn at_once(object: &Bound<'_, PyAny>, wanted: &Wanted) -> PyResult<Option<Imported>> {
    let on_host = wanted.device.is_none_or(|device| device == Device::CPU);
    if wanted.protocol.is_none()
        && on_host
        && let Some(head) = kind::of(object)?.head
    {
        return in_place(object, head, wanted);
    }
    Ok(None)
}

/// The tensor of an array of NumPy's own class, as `__dlpack__` would return it, but without a call; `None` if the protocols
/// must be tried.
fn in_place(
    object: &Bound<'_, PyAny>,
    head: NumpyArray,
    wanted: &Wanted,
) -> PyResult<Option<Imported>> {
    if let Some(imported) = numpy_import::import(head, object)? {
        return Ok(Some(imported));
    }
    // The buffer would be left in the end, and says the same as the array interface, sooner.
    if !cfg!(feature = "buffer") || wanted.copy == Some(false) || !head.is_byte_swapped(object) {
        return Ok(None);
    }
    copies::forget_interrupt();
    match buffer::import(object, wanted) {
        Err(error)
            if copies::is_interrupt(object.py(), &error)
                || !error.is_instance_of::<PyException>(object.py()) =>
        {
            Err(error)
        }
        imported => Ok(imported.unwrap_or(None)),
    }
}

/// The answer of the table of an object's type.
pub(crate) enum ByTable<'py> {
    /// The tensor, and the storage to keep with it.
    Tensor(Tensor, Option<Bound<'py, PyAny>>),
    /// The data is on a device, and other protocols synchronise it with a stream.
    OnDevice,
    /// The type has no table.
    None,
}

/// The tensor of an object by the table of its type. Other protocols are not tried.
pub(crate) fn by_table<'py>(object: &Bound<'py, PyAny>, kind: &Kind) -> PyResult<ByTable<'py>> {
    let Some(table) = kind.table else { return Ok(ByTable::None) };
    let caveats = &kind.caveats;
    let _depth = Depth::enter()?;
    caveats::check_before(object, caveats)?;
    match table.on_host(object) {
        Ok(Some(tensor)) => {
            caveats::check(object, caveats, tensor.dtype())?;
            Ok(ByTable::Tensor(tensor, storage(object, kind)?))
        }
        Ok(None) => Ok(ByTable::OnDevice),
        Err(error) => Err(caveats::explained(object, caveats, error)),
    }
}

/// As [`any_from_producer`], past the table of the object's type, which has been asked.
pub(crate) fn past_table(object: &Bound<'_, PyAny>, wanted: &Wanted) -> PyResult<Option<Imported>> {
    let _depth = Depth::enter()?;
    let protocols_ = &ORDER[1..];
    let imported = by_first_protocol(protocols_, object, wanted, &Streams::default())?;
    imported.map(|imported| satisfy::settle(wanted, told_copied(imported, wanted)?)).transpose()
}

/// As [`from_producer`], synchronised with a stream.
pub(crate) fn from_producer_on<'py>(
    object: &Bound<'py, PyAny>,
    wanted: &Wanted,
    streams: &Streams<'_, 'py>,
) -> PyResult<Imported> {
    let imported = any_from_producer_on(object, wanted, streams)?;
    imported.ok_or_else(|| no_protocol(object, &ORDER))
}

/// As [`from_producer_on`]; `None` for an object that has no protocol.
fn any_from_producer_on<'py>(
    object: &Bound<'py, PyAny>,
    wanted: &Wanted,
    streams: &Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    let _depth = Depth::enter()?;
    as_wanted(object, wanted, streams, |wanted, streams| {
        by_capsule_or_protocol(object, wanted, streams)
    })
}

/// The result of an import, changed as the caller wants.
fn as_wanted<'py>(
    object: &Bound<'py, PyAny>,
    wanted: &Wanted,
    streams: &Streams<'_, 'py>,
    import: impl Fn(&Wanted, &Streams<'_, 'py>) -> PyResult<Option<Imported>>,
) -> PyResult<Option<Imported>> {
    let imported = match import(wanted, streams) {
        Ok(None) => return Ok(None),
        Ok(Some(imported)) => told_copied(imported, wanted)?,
        Err(refusal) => match satisfy::wherever_it_is(object, wanted, &refusal) {
            // Its data is where it is, if it has any: what it said first is the answer if it has none.
            Some(anywhere) => {
                match satisfy::from_source(wanted, streams, |streams| import(&anywhere, streams)) {
                    Ok(Some(imported)) if satisfy::is_within_reach(&imported.tensor, wanted) => {
                        imported
                    }
                    _ => return Err(refusal),
                }
            }
            None => return Err(refusal),
        },
    };
    let imported = match wanted.device.is_some() || wanted.copy == Some(true) {
        true => satisfy::moved(object, imported, wanted, streams)?,
        false => imported,
    };
    satisfy::settle(wanted, imported).map(Some)
}

fn by_capsule_or_protocol<'py>(
    object: &Bound<'py, PyAny>,
    wanted: &Wanted,
    streams: &Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    match (object.cast::<PyCapsule>(), wanted.protocol) {
        (Ok(capsule), None | Some(Protocol::Dlpack | Protocol::LegacyDlpack)) => {
            if wanted.protocol == Some(Protocol::LegacyDlpack) {
                capsule::expect_legacy(capsule)?;
            }
            capsule::take(capsule).map(Some)
        }
        (_, Some(protocol)) => by_protocol(protocol, object, wanted, streams).map(Some),
        _ => by_first_protocol(&ORDER, object, wanted, streams),
    }
}

/// Notes that the producer says it made a copy, and refuses that where none is wanted.
pub(crate) fn told_copied(mut imported: Imported, wanted: &Wanted) -> PyResult<Imported> {
    let by_flags = matches!(imported.protocol, Protocol::ExchangeApi | Protocol::Dlpack);
    if imported.reason.is_none() && by_flags && is_copied(&imported.tensor) {
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

/// Imports through `__dlpack__` alone, as the array API standard describes it: an object without it
/// is an AttributeError.
pub(crate) fn from_dlpack<'py>(
    object: &Bound<'py, PyAny>,
    wanted: &Wanted,
    streams: &Streams<'_, 'py>,
) -> PyResult<Imported> {
    let imported = as_wanted(object, wanted, streams, |wanted, streams| {
        by_protocol(Protocol::Dlpack, object, wanted, streams).map(Some)
    });
    let imported = imported
        .and_then(|imported| imported.ok_or_else(|| no_protocol(object, &[Protocol::Dlpack])));
    match imported {
        Ok(imported) => Ok(imported),
        Err(_) if attribute(object, intern!(object.py(), "__dlpack__"))?.is_none() => {
            Err(PyAttributeError::new_err(format!(
                "'{}' object has no attribute '__dlpack__'; asdlpack looks for other protocols too",
                type_name(object)
            )))
        }
        Err(error) => Err(error),
    }
}

fn by_protocol<'py>(
    protocol: Protocol,
    object: &Bound<'py, PyAny>,
    wanted: &Wanted,
    streams: &Streams<'_, 'py>,
) -> PyResult<Imported> {
    let kind = kind::of(object)?;
    if let Err(refusal) = caveats::check_before(object, &kind.caveats) {
        return Err(if protocols::has(protocol, object, &kind)? {
            refusal
        } else {
            no_protocol(object, &[protocol])
        });
    }
    let imported = without_lacking(object, &kind, |lacking| {
        let imported = protocols::import(protocol, object, &kind, lacking, wanted, streams)
            .map_err(|error| caveats::explained(object, &kind.caveats, error))?;
        imported.ok_or_else(|| no_protocol(object, &[protocol])).map(Some)
    })?;
    let imported = imported.ok_or_else(|| no_protocol(object, &[protocol]))?;
    caveats::check(object, &kind.caveats, imported.tensor.dtype())?;
    with_storage(object, &kind, imported)
}

/// Imports by the first protocol that an object has; `None` if it has none.
fn by_first_protocol<'py>(
    protocols_: &[Protocol],
    object: &Bound<'py, PyAny>,
    wanted: &Wanted,
    streams: &Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    let kind = kind::of(object)?;
    caveats::check_before(object, &kind.caveats)?;
    if kind.caveats.series
        && let Some((array, reason)) = pandas::array_of(object, wanted)
            .map_err(|error| caveats::explained(object, &kind.caveats, error))?
    {
        let in_place = match kind::of(&array)?.head {
            Some(head) if wanted.device.is_none_or(|device| device == Device::CPU) => {
                in_place(&array, head, wanted)?
            }
            _ => None,
        };
        let imported = match in_place {
            None => by_first_protocol(protocols_, &array, wanted, streams)?,
            imported => imported,
        };
        return Ok(
            imported.map(|imported| Imported { reason: imported.reason.or(reason), ..imported })
        );
    }
    without_lacking(object, &kind, |lacking| {
        by_protocols_of(protocols_, object, &kind, lacking, wanted, streams)
    })
}

/// Imports without a look at the attributes that objects of the type lack; with one, if the import is refused and this
/// object has one of them all the same.
fn without_lacking(
    object: &Bound<'_, PyAny>,
    kind: &Kind,
    import: impl Fn(Lacking) -> PyResult<Option<Imported>>,
) -> PyResult<Option<Imported>> {
    let lacking = kind.lacking.now(object.py())?;
    match import(lacking) {
        Err(_) | Ok(None) if kind.lacking.may_differ() && lacking.is_wrong_for(object)? => {
            import(Lacking::UNKNOWN)
        }
        imported => imported,
    }
}

/// Imports through the first protocol that an object has, without those that it lacks; `None` if it has none.
fn by_protocols_of<'py>(
    protocols_: &[Protocol],
    object: &Bound<'py, PyAny>,
    kind: &Kind,
    lacking: Lacking,
    wanted: &Wanted,
    streams: &Streams<'_, 'py>,
) -> PyResult<Option<Imported>> {
    // A class has the attributes of its objects.
    let lacks_all = lacking == Lacking::ALL || object.is_instance_of::<PyType>();
    let only_buffer = lacks_all && kind.table.is_none();
    let protocols_ = if only_buffer { &[Protocol::Buffer] } else { protocols_ };
    for &protocol in protocols_ {
        let imported = match protocols::import(protocol, object, kind, lacking, wanted, streams) {
            Ok(Some(imported)) => imported,
            Ok(None) => continue,
            Err(interrupt) if copies::is_interrupt(object.py(), &interrupt) => {
                return Err(interrupt);
            }
            Err(refusal) if protocol == Protocol::Dlpack => {
                repaired(object, kind, lacking, wanted, refusal)
                    .map_err(|error| caveats::explained(object, &kind.caveats, error))?
            }
            Err(error) => return Err(caveats::explained(object, &kind.caveats, error)),
        };
        caveats::check(object, &kind.caveats, imported.tensor.dtype())?;
        return with_storage(object, kind, imported).map(Some);
    }
    Ok(None)
}

/// Returns true for an object of a type whose objects never have a protocol, by a look at what is known of the type.
pub(crate) fn never_has_protocol(object: &Bound<'_, PyAny>, kind: &Kind) -> bool {
    kind.table.is_none()
        && kind.lacking.is_all_for_ever()
        && !buffer_abi::check(object)
        && !object.is_instance_of::<PyCapsule>()
}

/// Returns true if an object has any protocol.
pub(crate) fn has_protocol(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let kind = kind::of(object)?;
    for protocol in ORDER {
        if protocols::has(protocol, object, &kind)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What `__dlpack__` refused because DLPack or the producer cannot express it, through a door that can:
/// data in the other byte order, strides that are no whole elements, dtypes that NumPy does not know,
/// and what Arrow has beyond plain numbers. Anything else that was refused stays so.
fn repaired(
    object: &Bound<'_, PyAny>,
    kind: &Kind,
    lacking: Lacking,
    wanted: &Wanted,
    refusal: PyErr,
) -> PyResult<Imported> {
    let py = object.py();
    if !refusal.is_instance_of::<PyException>(py) {
        return Err(refusal);
    }
    // The other protocols do not import from a device, and not to one.
    if matches!(dlpack::is_on_host(object), Ok(false))
        || wanted.device.is_some_and(|device| device != Device::CPU)
    {
        return Err(refusal);
    }
    if Method::ArrowArray.of(object, lacking)?.is_some() {
        if Protocol::Arrow.missing_feature().is_some() {
            let left_out = left_out::refusal(Protocol::Arrow, object);
            left_out.set_cause(py, Some(refusal));
            return Err(left_out);
        }
        // Arrow's own exceptions are not of the class BufferError, and do not say what to do.
        return match arrow::import(object, kind, lacking, wanted) {
            Ok(imported) => imported.ok_or(refusal),
            Err(error) => {
                error.set_cause(py, Some(refusal));
                Err(error)
            }
        };
    }
    if !refusal.is_instance_of::<PyBufferError>(py) {
        return Err(refusal);
    }
    let mut final_refusal = None;
    for other in [Protocol::ArrayInterface, Protocol::Buffer] {
        match protocols::import(other, object, kind, lacking, wanted, &Streams::default()) {
            Ok(Some(imported)) if is_beyond_dlpack(&imported) => return Ok(imported),
            // A protocol that is left out would find the same.
            Ok(Some(_)) if Protocol::Buffer.missing_feature().is_some() => break,
            Ok(_) => {}
            Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
            // The next protocol may have it.
            Err(error) if is_left_out(&error) && final_refusal.is_none() => {
                final_refusal = Some(error);
            }
            Err(error) => {
                final_refusal = final_refusal.or(Some(error));
                break;
            }
        }
    }
    match final_refusal {
        // What it says is more than that DLPack does not have it.
        Some(error) => {
            if error.is_instance_of::<PyBufferError>(py) {
                error.set_cause(py, Some(refusal));
            }
            Err(error)
        }
        None => Err(refusal),
    }
}

/// Returns true for a tensor that a producer could not have made through NumPy.
fn is_beyond_dlpack(imported: &Imported) -> bool {
    imported.reason.is_some() || typestr::of_dtype(imported.tensor.dtype()).is_none()
}

fn no_protocol(object: &Bound<'_, PyAny>, looked_for: &[Protocol]) -> PyErr {
    let name = type_name(object);
    let mut names = Vec::new();
    for protocol in looked_for {
        let name = protocol.words();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let of_pandas = pandas::remedy(object);
    let remedy = match (of_pandas.as_deref(), looked_for.len()) {
        (Some(remedy), _) => remedy,
        (None, 1) => "leave out protocol to look for the others",
        _ if object.is_none() => "pass a tensor",
        _ if object.is_instance_of::<PyModule>() || object.is_instance_of::<PyType>() => {
            "pass an array or tensor, not a module or a class"
        }
        _ if object.is_instance_of::<PyString>() => {
            "encode text with text.encode(), or open the file first, for example with PIL.Image.open(path)"
        }
        _ if object.hasattr(intern!(object.py(), "__fspath__")).unwrap_or(false) => {
            "open the file first, for example with PIL.Image.open(path)"
        }
        _ if object.is_instance_of::<PyList>()
            || object.is_instance_of::<PyTuple>()
            || object.is_instance_of::<PyFloat>()
            || object.is_instance_of::<PyInt>()
            || object.is_instance_of::<PyComplex>() =>
        {
            "make an array of it first: asdlpack(numpy.asarray(obj))"
        }
        _ if buffer_abi::is_missing(object.py()) => buffer_abi::MISSING,
        _ => "pass an array or tensor that has its elements",
    };
    PyTypeError::new_err(format!(
        "'{name}' object speaks no exchange protocol: looked for {}; {remedy}",
        names.join(", ")
    ))
}
