//! The facts about Python types that imports need, found once per type.

use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use dlbridge::fork::ForkMutex;
use dlbridge_borrow::Label;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::buffer::SameBuffer;
use super::exchange_api::Table;
use super::framework_checks::TypeChecks;
use crate::borrow::BorrowedType;
use crate::numpy;
use crate::numpy::array::NumpyArray;
use crate::python::copies;
use crate::python::error::type_name;
use crate::python::objects::{defining_class, package_of};

/// Types whose objects are imported quickly, by the type's address, kept for ever. A lock would take a large part of
/// such an import; a lookup here is one load and one comparison. If two types share a place, the first one seen keeps
/// it. A place is NULL or complete, also in a child process.
static KEPT_TYPES: [AtomicPtr<Entry>; 64] = [const { AtomicPtr::new(ptr::null_mut()) }; 64];

/// NumPy's array, with a place of its own.
static ARRAY_TYPE: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

/// The other types that were seen, sorted by their addresses.
static TYPES: ForkMutex<Vec<(usize, Arc<Entry>)>> = ForkMutex::new(Vec::new());

/// The facts about a type.
pub struct TypeInfo {
    /// The facts about the type that borrows need.
    pub borrowed: BorrowedType,
    /// Its table of C functions.
    pub table: Option<Table>,
    /// The checks of its objects that no protocol makes.
    pub checks: TypeChecks,
    /// How to read an object in place, if the type is exactly NumPy's array.
    pub head: Option<NumpyArray>,
    /// The buffer of its objects, if it has the same data as their `__dlpack__`, and is exported faster.
    pub same_buffer: Option<SameBuffer>,
    /// True if its table describes the elements of its objects in their storages; empty until the first was imported.
    pub(super) torch_view: OnceLock<bool>,
}

impl TypeInfo {
    /// Refuses an object of the type for states that must be checked before an import through any protocol.
    pub fn check_before(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let check = |type_info: &Self, object: &Bound<'_, PyAny>| match type_info.checks.rules {
            Some(rules) => rules.check_before.map_or(Ok(()), |check| check(object)),
            None => Ok(()),
        };
        copies::forget_interrupt();
        check(self, object)?;
        if self.checks.is_memoryview {
            let exporter = object.getattr(intern!(object.py(), "obj"))?;
            check(&*of(&exporter)?, &exporter)?;
        }
        Ok(())
    }

    /// Returns true if a lock would take a large part of an import: the objects have a shortcut, or are columns.
    fn is_quick(&self) -> bool {
        self.head.is_some()
            || self.table.is_some()
            || self.same_buffer.is_some()
            || self.checks.is_column()
    }
}

/// The facts about a type, for as long as the caller needs them.
pub enum Known {
    /// Kept for ever.
    Kept(&'static TypeInfo),
    /// Kept until it is forgotten.
    Shared(Arc<Entry>),
}

impl Deref for Known {
    type Target = TypeInfo;

    fn deref(&self) -> &TypeInfo {
        match self {
            Self::Kept(type_info) => type_info,
            Self::Shared(entry) => &entry.type_info,
        }
    }
}

/// A type, which stays alive so that no other type can get its address, and the facts about it.
pub struct Entry {
    object_type: Py<PyType>,
    type_info: TypeInfo,
}

/// If there are more types than this, all are dropped and examined again. Otherwise a program that creates types
/// without end would keep them all.
const MAX_SHARED: usize = 256;

/// The facts about the type of an object that is imported quickly, which are kept for ever.
#[inline]
pub(crate) fn quick_of(object: &Bound<'_, PyAny>) -> Option<&'static TypeInfo> {
    let address = object.get_type_ptr().addr();
    kept(place(address), address)
}

/// The facts about the type of an object.
#[inline]
pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Known> {
    let address = object.get_type_ptr().addr();
    match kept(&ARRAY_TYPE, address).or_else(|| kept(place(address), address)) {
        Some(type_info) => Ok(Known::Kept(type_info)),
        None => look_up(object),
    }
}

/// The place of a type. Types are large, so the lowest bits of their addresses differ little.
fn place(address: usize) -> &'static AtomicPtr<Entry> {
    &KEPT_TYPES[(address >> 4 ^ address >> 10) % KEPT_TYPES.len()]
}

/// The facts about the type at an address, if they are kept for ever.
#[inline(always)]
fn kept(place: &AtomicPtr<Entry>, address: usize) -> Option<&'static TypeInfo> {
    let entry = entry(place)?;
    (entry.object_type.as_ptr().addr() == address).then_some(&entry.type_info)
}

#[inline(always)]
fn entry(place: &AtomicPtr<Entry>) -> Option<&'static Entry> {
    // SAFETY: a place is NULL, or points to an entry that `look_up` leaked; no code writes or frees a leaked entry.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

/// The facts about the type of an object, if that is exactly NumPy's array.
#[inline(always)]
pub(crate) fn array_of(object: &Bound<'_, PyAny>) -> Option<&'static TypeInfo> {
    kept(&ARRAY_TYPE, object.get_type_ptr().addr())
}

/// The facts about NumPy's arrays, once one was imported. Reading an array in place compares its class.
#[inline(always)]
pub(crate) fn of_arrays() -> Option<&'static TypeInfo> {
    entry(&ARRAY_TYPE).map(|entry| &entry.type_info)
}

#[cold]
fn look_up(object: &Bound<'_, PyAny>) -> PyResult<Known> {
    let address = object.get_type_ptr().addr();
    // No Python code runs while the lock is held.
    let known = TYPES.lock();
    if let Ok(place) = known.binary_search_by_key(&address, |entry| entry.0) {
        return Ok(Known::Shared(Arc::clone(&known[place].1)));
    }
    drop(known);
    let object_type = object.get_type();
    let type_info = find_out(object)?;
    let entry = Entry { object_type: object_type.unbind(), type_info };
    let place = if entry.type_info.head.is_some() { &ARRAY_TYPE } else { place(address) };
    if entry.type_info.is_quick() && place.load(Ordering::Acquire).is_null() {
        let entry = Box::into_raw(Box::new(entry));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        if place.compare_exchange(ptr::null_mut(), entry, success, failure).is_ok() {
            // SAFETY: from `Box::into_raw` above. The exchange put it into its place, from which nothing removes it.
            return Ok(Known::Kept(unsafe { &(*entry).type_info }));
        }
        // SAFETY: from `Box::into_raw` above. The exchange failed, so no other thread has seen the pointer.
        return Ok(Known::Shared(Arc::new(*unsafe { Box::from_raw(entry) })));
    }
    let entry = Arc::new(entry);
    let mut known = TYPES.lock();
    let forgotten = if known.len() < MAX_SHARED { Vec::new() } else { std::mem::take(&mut *known) };
    if let Err(place) = known.binary_search_by_key(&address, |entry| entry.0) {
        known.insert(place, (address, Arc::clone(&entry)));
    }
    drop(known);
    // Dropping types may run Python code.
    drop(forgotten);
    Ok(Known::Shared(entry))
}

fn find_out(object: &Bound<'_, PyAny>) -> PyResult<TypeInfo> {
    let object_type = &object.get_type();
    let py = object.py();
    let package = package_of(object_type)?;
    let checks = TypeChecks::of_type(object_type, &package)?;
    let table = match overrides_table(object_type)? {
        true => None,
        false => Table::of_type(object_type)?,
    };
    let numpy_array = match numpy::api::class(py)? {
        Some(class) => object_type.is_subclass(class)?,
        None => false,
    };
    let head = NumpyArray::of_type(object_type)?;
    let same_buffer = checks.rules.is_some_and(|rules| (rules.same_buffer)(py, &package));
    let same_buffer = same_buffer.then(SameBuffer::default);
    let label = Label::new(type_name(object).as_bytes());
    let borrowed = BorrowedType { label, numpy_array };
    Ok(TypeInfo { borrowed, table, checks, head, same_buffer, torch_view: OnceLock::new() })
}

/// Returns true if a subclass defines `__dlpack__` and only its base has the table. Then the method of the subclass
/// counts.
fn overrides_table(object_type: &Bound<'_, PyType>) -> PyResult<bool> {
    let table = defining_class(object_type, "__dlpack_c_exchange_api__")?;
    let method = defining_class(object_type, "__dlpack__")?;
    Ok(matches!((table, method), (Some((table, _)), Some((method, _))) if method < table))
}
