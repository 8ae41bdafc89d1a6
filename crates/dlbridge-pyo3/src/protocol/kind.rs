//! What a Python type speaks, found out once per type.

use std::collections::HashMap;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView, PyString, PyTuple, PyType};

use super::exchange_api::Table;
use super::numpy_array::NumpyArray;
use super::question::{Question, is_plain};
use crate::error::type_name;

/// What is known of a type.
pub(crate) struct Kind {
    /// Its name, for messages.
    pub(crate) name: String,
    /// Its table of C functions.
    pub(super) table: Option<Table>,
    /// What its objects may be that their bytes do not show.
    pub(super) caveats: Caveats,
    /// Whether it is NumPy's array or derived from it.
    pub(crate) numpy_array: bool,
    /// How to read an object where it is, if the type is NumPy's array itself.
    pub(crate) head: Option<NumpyArray>,
    /// Whether the buffer of its objects says what their `__dlpack__` does, and sooner: JAX's, which makes
    /// one on a single device that is the CPU.
    pub(super) same_buffer: bool,
    /// Whether its objects surely have no door but their buffer: then nobody needs to look.
    pub(super) only_buffer: bool,
}

impl Kind {
    /// Whether objects tell by a function of C what they are, so that a lock would be felt.
    fn is_quick(&self) -> bool {
        self.head.is_some() || self.table.is_some() || self.same_buffer
    }
}

/// States of a tensor in which its bytes are not its values, or must not be lent.
pub(super) struct Caveats {
    /// The attribute `requires_grad`: PyTorch.
    pub(super) requires_grad: Option<Question>,
    /// The methods `is_conj` and `is_neg`: PyTorch.
    pub(super) lazy_bits: Option<(Question, Question)>,
    /// The attribute `stop_gradient`: Paddle.
    pub(super) stop_gradient: Option<Question>,
    /// The attribute `mask`, of NumPy's masked arrays.
    pub(super) mask: bool,
    /// Python's own memoryview, whose object may be such an array.
    pub(super) memoryview: bool,
    /// A dtype that has no elements in memory, on which the producer ends the process: TensorFlow.
    pub(super) dtype: bool,
    /// One of the libraries whose refusals are of all classes.
    pub(super) library: bool,
}

/// What is known of a type, for as long as it is needed.
pub(crate) enum Known {
    /// For ever.
    Kept(&'static Kind),
    /// Until it is forgotten.
    Shared(Arc<Entry>),
}

impl Deref for Known {
    type Target = Kind;

    fn deref(&self) -> &Kind {
        match self {
            Self::Kept(kind) => kind,
            Self::Shared(entry) => &entry.kind,
        }
    }
}

/// A type, which stays alive so that no other one can get its address, and what is known of it.
pub(crate) struct Entry {
    object_type: Py<PyType>,
    kind: Kind,
}

/// Types of which objects are taken all the time, by their addresses, for ever: those that tell by a function of
/// C what they are. To look one up here is a load and a comparison. Of two that share a place it is the first that
/// was seen.
static KEPT: [AtomicPtr<Entry>; PLACES] = [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];

/// NumPy's array, with a place of its own.
static ARRAY: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

const PLACES: usize = 64;

/// The other types that were seen, by their addresses.
static SHARED: Mutex<Option<HashMap<usize, Arc<Entry>>>> = Mutex::new(None);

/// When there are more types than this, all are forgotten and found out again: a program that makes
/// them without end would keep them all.
const MAX_SHARED: usize = 256;

/// What is known of the type of an object.
#[inline]
pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Known> {
    let address = object.get_type_ptr().addr();
    match kept(&ARRAY, address).or_else(|| kept(place(address), address)) {
        Some(kind) => Ok(Known::Kept(kind)),
        None => look_up(object),
    }
}

/// A place for a type. Types are large, so the lowest bits of their addresses tell nothing.
fn place(address: usize) -> &'static AtomicPtr<Entry> {
    &KEPT[(address >> 4 ^ address >> 10) % PLACES]
}

/// What is known of a type for ever, by its address.
#[inline(always)]
fn kept(place: &AtomicPtr<Entry>, address: usize) -> Option<&'static Kind> {
    // SAFETY: what is there was leaked for this by `look_up`, and is never written.
    let entry = unsafe { place.load(Ordering::Acquire).as_ref() }?;
    (entry.object_type.as_ptr().addr() == address).then_some(&entry.kind)
}

/// What is known of the type of an object, if that is NumPy's array itself.
#[inline(always)]
pub(crate) fn array_of(object: &Bound<'_, PyAny>) -> Option<&'static Kind> {
    kept(&ARRAY, object.get_type_ptr().addr())
}

#[cold]
fn look_up(object: &Bound<'_, PyAny>) -> PyResult<Known> {
    let address = object.get_type_ptr().addr();
    // No Python code runs while the lock is held.
    let known = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(entry) = known.as_ref().and_then(|entries| entries.get(&address)) {
        return Ok(Known::Shared(Arc::clone(entry)));
    }
    drop(known);
    let object_type = object.get_type();
    let kind = Kind { name: type_name(object), ..find_out(&object_type)? };
    let entry = Entry { object_type: object_type.unbind(), kind };
    let place = if entry.kind.head.is_some() { &ARRAY } else { place(address) };
    if entry.kind.is_quick() && place.load(Ordering::Acquire).is_null() {
        let entry = Box::into_raw(Box::new(entry));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        if place.compare_exchange(ptr::null_mut(), entry, success, failure).is_ok() {
            // SAFETY: just leaked, and never written again.
            return Ok(Known::Kept(unsafe { &(*entry).kind }));
        }
        // SAFETY: the box from above, which nobody else has seen.
        return Ok(Known::Shared(Arc::new(*unsafe { Box::from_raw(entry) })));
    }
    let entry = Arc::new(entry);
    let mut known = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let entries = known.get_or_insert_default();
    let forgotten = if entries.len() < MAX_SHARED { None } else { Some(std::mem::take(entries)) };
    entries.entry(address).or_insert_with(|| Arc::clone(&entry));
    drop(known);
    // Types that go may run code.
    drop(forgotten);
    Ok(Known::Shared(entry))
}

fn find_out(object_type: &Bound<'_, PyType>) -> PyResult<Kind> {
    let py = object_type.py();
    let has = |name| object_type.hasattr(name);
    let package = package_of(object_type)?;
    let is_conj = Question::method(object_type, intern!(py, "is_conj"))?;
    let is_neg = Question::method(object_type, intern!(py, "is_neg"))?;
    let caveats = Caveats {
        requires_grad: Question::attribute(object_type, intern!(py, "requires_grad"))?,
        lazy_bits: is_conj.zip(is_neg),
        stop_gradient: Question::attribute(object_type, intern!(py, "stop_gradient"))?,
        mask: has(intern!(py, "mask"))?
            && is_subclass(object_type, intern!(py, "numpy.ma"), intern!(py, "MaskedArray"))?,
        memoryview: object_type.is(py.get_type::<PyMemoryView>()),
        dtype: package == "tensorflow" && has(intern!(py, "dtype"))?,
        library: LIBRARIES.contains(&package.as_str()),
    };
    let table = match overrides_table(object_type)? {
        true => None,
        false => Table::of_type(object_type)?,
    };
    let only_buffer = table.is_none() && has_only_buffer(object_type)?;
    // Not the name in the module `numpy`, which anybody may give to another class.
    let modules = [intern!(py, "numpy._core.multiarray"), intern!(py, "numpy.core.multiarray")];
    let mut numpy_array = false;
    for module in modules {
        numpy_array |= is_subclass(object_type, module, intern!(py, "ndarray"))?;
    }
    let head = NumpyArray::of_type(object_type)?;
    let same_buffer = package == "jaxlib" && jax_has_one_cpu(py);
    let name = String::new();
    Ok(Kind { name, table, caveats, numpy_array, head, same_buffer, only_buffer })
}

/// Whether the CPU is one device for JAX, and not several with numbers, which a buffer could not tell. It is
/// asked when the first array is seen; who makes JAX begin anew with several has them as one here.
fn jax_has_one_cpu(py: Python<'_>) -> bool {
    let count = || -> PyResult<usize> {
        py.import(intern!(py, "jax"))?.call_method1(intern!(py, "devices"), ("cpu",))?.len()
    };
    count().is_ok_and(|count| count == 1)
}

/// Libraries whose exceptions for data that they cannot export are not those of the standard.
const LIBRARIES: [&str; 8] =
    ["jax", "jaxlib", "paddle", "pandas", "polars", "pyarrow", "tensorflow", "torch"];

/// The package that a type says it is of; nothing if it says so in no usual way.
pub(super) fn package_of(object_type: &Bound<'_, PyType>) -> PyResult<String> {
    let module = object_type.getattr_opt(intern!(object_type.py(), "__module__"))?;
    let module = module.and_then(|module| module.extract::<String>().ok()).unwrap_or_default();
    Ok(module.split('.').next().unwrap_or_default().to_owned())
}

/// The attributes that are doors.
const DOORS: [&str; 7] = [
    "__dlpack__",
    "__cuda_array_interface__",
    "__array_interface__",
    "__array_struct__",
    "__arrow_c_array__",
    "__arrow_c_device_array__",
    "__arrow_c_stream__",
];

/// Whether objects of a type surely have none of the attributes that are doors: the type cannot
/// change, its objects have no attributes of their own, and nothing makes some up.
fn has_only_buffer(object_type: &Bound<'_, PyType>) -> PyResult<bool> {
    const IMMUTABLE: u64 = 1 << 8;
    const HEAP: u64 = 1 << 9;
    let py = object_type.py();
    let flags = object_type.getattr(intern!(py, "__flags__"))?.extract::<u64>()?;
    let dict_offset = object_type.getattr(intern!(py, "__dictoffset__"))?.extract::<i64>()?;
    let fixed = flags & HEAP == 0 || flags & IMMUTABLE != 0;
    if !fixed || dict_offset != 0 || !is_plain(object_type) {
        return Ok(false);
    }
    for door in DOORS {
        if object_type.hasattr(door)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a subclass has a `__dlpack__` of its own and the table of its base: then what the
/// subclass says holds.
fn overrides_table(object_type: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = object_type.py();
    let bases = object_type.getattr(intern!(py, "__mro__"))?.cast_into::<PyTuple>()?;
    for class in bases.iter() {
        let namespace = class.getattr(intern!(py, "__dict__"))?;
        if namespace.contains(intern!(py, "__dlpack_c_exchange_api__"))? {
            return Ok(false);
        }
        if namespace.contains(intern!(py, "__dlpack__"))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a type is a class of a module or derived from it; without importing the module, since who has
/// an object of the class has done so.
fn is_subclass(
    object_type: &Bound<'_, PyType>,
    module: &Bound<'_, PyString>,
    class: &Bound<'_, PyString>,
) -> PyResult<bool> {
    let py = object_type.py();
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    let Some(module) = modules.cast::<PyDict>()?.get_item(module)? else { return Ok(false) };
    // Somebody else's module may have the name.
    let class = module.getattr_opt(class)?.and_then(|class| class.cast_into::<PyType>().ok());
    class.map_or(Ok(false), |class| object_type.is_subclass(&class))
}
