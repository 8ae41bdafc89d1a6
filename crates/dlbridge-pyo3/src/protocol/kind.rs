//! What a Python type speaks, found out once per type.

use std::collections::HashMap;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use dlbridge_borrow::LabelWords;
use dlbridge_fork::ForkMutex;
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyTuple, PyType};

use super::classes::{is_subclass, package_of};
use super::exchange_api::Table;
use super::lacking::Remembered;
use super::question::Question;
use crate::borrow::BorrowedType;
use crate::error::type_name;
use crate::numpy;
use crate::numpy::array::NumpyArray;

/// Types whose objects are imported quickly, by the type's address, kept for ever. Imports of such objects are so
/// fast that a lock would cost much; a lookup here is one load and one comparison. If two types share a place, the
/// first one seen keeps it. A place is NULL or complete, also in a child process.
static KEPT_TYPES: [AtomicPtr<Entry>; 64] = [const { AtomicPtr::new(ptr::null_mut()) }; 64];

/// NumPy's array, with a place of its own.
static ARRAY_TYPE: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

/// The other types that were seen, by their addresses.
static TYPES: ForkMutex<Option<HashMap<usize, Arc<Entry>>>> = ForkMutex::new(None);

/// What is known of a type.
pub(crate) struct Kind {
    /// What borrows of its objects need.
    pub(crate) borrowed: BorrowedType,
    /// Its table of C functions.
    pub(crate) table: Option<Table>,
    /// What its objects may be that their bytes do not show.
    pub(crate) caveats: Caveats,
    /// How to read an object where it is, if the type is NumPy's array itself.
    pub(crate) head: Option<NumpyArray>,
    /// Whether the buffer of its objects says what their `__dlpack__` does, and sooner: JAX's, which makes
    /// one on a single device that is the CPU.
    pub(crate) same_buffer: bool,
    /// The attributes of protocols that its objects lack.
    pub(crate) lacking: Remembered,
}

impl Kind {
    /// Whether a lock would be felt: objects tell by a function of C what they are, or their attributes are remembered so
    /// that an import is quick.
    fn is_quick(&self) -> bool {
        self.head.is_some() || self.table.is_some() || self.same_buffer || self.lacking.may_differ()
    }
}

/// States of a tensor in which its bytes are not its values, or must not be lent.
pub(crate) struct Caveats {
    /// The attribute `requires_grad`: PyTorch.
    pub(crate) requires_grad: Option<Question>,
    /// The methods `is_conj` and `is_neg`: PyTorch.
    pub(crate) lazy_bits: Option<(Question, Question)>,
    /// The attribute `stop_gradient`: Paddle.
    pub(crate) stop_gradient: Option<Question>,
    /// The method `untyped_storage`, which answers with the memory that a tensor has now: PyTorch.
    pub(crate) storage: Option<Question>,
    /// The attribute `mask`, of NumPy's masked arrays.
    pub(crate) mask: bool,
    /// Python's own memoryview, whose object may be such an array.
    pub(crate) memoryview: bool,
    /// A dtype that has no elements in memory, on which the producer ends the process: TensorFlow.
    pub(crate) dtype: bool,
    /// One of the libraries whose refusals are of all classes.
    pub(crate) library: bool,
    /// `pandas.Series` or a class derived from it.
    pub(crate) series: bool,
    /// `PIL.Image.Image` or a class derived from it.
    pub(crate) picture: bool,
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

/// When there are more types than this, all are forgotten and found out again: a program that makes
/// them without end would keep them all.
const MAX_SHARED: usize = 256;

/// What is known for ever of the type of an object that is imported quickly.
#[inline]
pub(crate) fn quick_of(object: &Bound<'_, PyAny>) -> Option<Known> {
    let address = object.get_type_ptr().addr();
    kept(place(address), address).map(Known::Kept)
}

/// What is known of the type of an object.
#[inline]
pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Known> {
    let address = object.get_type_ptr().addr();
    match kept(&ARRAY_TYPE, address).or_else(|| kept(place(address), address)) {
        Some(kind) => Ok(Known::Kept(kind)),
        None => look_up(object),
    }
}

/// A place for a type. Types are large, so the lowest bits of their addresses tell nothing.
fn place(address: usize) -> &'static AtomicPtr<Entry> {
    &KEPT_TYPES[(address >> 4 ^ address >> 10) % KEPT_TYPES.len()]
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
    kept(&ARRAY_TYPE, object.get_type_ptr().addr())
}

#[cold]
fn look_up(object: &Bound<'_, PyAny>) -> PyResult<Known> {
    let address = object.get_type_ptr().addr();
    // No Python code runs while the lock is held.
    let known = TYPES.lock();
    if let Some(entry) = known.as_ref().and_then(|entries| entries.get(&address)) {
        return Ok(Known::Shared(Arc::clone(entry)));
    }
    drop(known);
    let object_type = object.get_type();
    let kind = find_out(object)?;
    let entry = Entry { object_type: object_type.unbind(), kind };
    let place = if entry.kind.head.is_some() { &ARRAY_TYPE } else { place(address) };
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
    let mut known = TYPES.lock();
    let entries = known.get_or_insert_default();
    let forgotten = if entries.len() < MAX_SHARED { None } else { Some(std::mem::take(entries)) };
    entries.entry(address).or_insert_with(|| Arc::clone(&entry));
    drop(known);
    // Types that go may run code.
    drop(forgotten);
    Ok(Known::Shared(entry))
}

fn find_out(object: &Bound<'_, PyAny>) -> PyResult<Kind> {
    let object_type = &object.get_type();
    let py = object.py();
    let has = |name| object_type.hasattr(name);
    let package = package_of(object_type)?;
    let is_conj = Question::method(object_type, intern!(py, "is_conj"))?;
    let is_neg = Question::method(object_type, intern!(py, "is_neg"))?;
    let caveats = Caveats {
        requires_grad: Question::attribute(object_type, intern!(py, "requires_grad"))?,
        lazy_bits: is_conj.zip(is_neg),
        stop_gradient: Question::attribute(object_type, intern!(py, "stop_gradient"))?,
        storage: Question::method(object_type, intern!(py, "untyped_storage"))?,
        mask: has(intern!(py, "mask"))?
            && is_subclass(object_type, intern!(py, "numpy.ma"), intern!(py, "MaskedArray"))?,
        memoryview: object_type.is(py.get_type::<PyMemoryView>()),
        dtype: package == "tensorflow" && has(intern!(py, "dtype"))?,
        library: LIBRARIES.contains(&package.as_str()),
        series: is_subclass(object_type, intern!(py, "pandas"), intern!(py, "Series"))?,
        picture: is_subclass(object_type, intern!(py, "PIL.Image"), intern!(py, "Image"))?,
    };
    let table = match overrides_table(object_type)? {
        true => None,
        false => Table::of_type(object_type)?,
    };
    let lacking = Remembered::find_out(object)?;
    let numpy_array = match numpy::api::class(py)? {
        Some(class) => object_type.is_subclass(&class)?,
        None => false,
    };
    let head = NumpyArray::of_type(object_type)?;
    let same_buffer = package == "jaxlib" && jax_has_one_cpu(py);
    let name = type_name(object);
    let label = LabelWords::new(&name);
    let borrowed = BorrowedType { name, label, numpy_array };
    Ok(Kind { borrowed, table, caveats, head, same_buffer, lacking })
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
