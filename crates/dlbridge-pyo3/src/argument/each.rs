//! Lists and dicts of arguments, whose errors name the item.
//!
//! Each collection is read from a copy, because a producer may change the original.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::hash::{BuildHasher, Hash};
use std::ops::{Deref, DerefMut};

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyBufferError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
#[cfg(feature = "experimental-inspect")]
use pyo3::type_hint_union;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::accepts::Accepts;
use super::constraint::Constraint;
use super::device::{PyDeviceTensor, Stream};
use super::host::{PyReadonlyTensor, PyReadwriteTensor};
use crate::python::error::{ErrorClass, repr_in_message, type_name, with_article};

/// A list or dict of arguments, whose errors name the item that does not fit.
///
/// PyO3 extracts `Vec<PyReadonlyTensor<..>>` and `HashMap<String, PyReadonlyTensor<..>>` too, but its errors do not
/// name the item. Its `Vec` also accepts an array as a list of rows, and its `HashMap` panics if a producer changes the
/// dict. `Each` reads a copy of the list or dict, and accepts these types, in each other to any depth:
///
/// | `T` | accepts |
/// | --- | --- |
/// | `Vec<T>` | a list or tuple |
/// | `(T, U)`, up to four | a list or tuple of this length |
/// | `HashMap<K, T>`, `BTreeMap<K, T>` | a dict |
/// | [`Entries<T, K>`](Entries) | a dict, whose order it keeps |
/// | `Option<T>` | `None`, or what `T` accepts |
/// | typed arguments, `Bound<T>`, `Py<T>`, numbers, `bool` and `String` | one item |
///
/// Each item borrows its memory as long as the collection lives. So an array may be twice in a list of
/// [`PyReadonlyTensor`](crate::PyReadonlyTensor), and not in one of [`PyReadwriteTensor`](crate::PyReadwriteTensor).
///
/// # Errors
/// The error of the item, which begins with its place: `item ['layers'][3]: expected float32[_, _] on cpu; got ...`. If
/// the exception is of a class that the producer defined, the place is a note of it. `TypeError` if the object is not
/// of the accepted type.
///
/// ```no_run
/// use std::collections::HashMap;
///
/// use dlbridge_pyo3::{Each, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// /// The number of elements of a state dict.
/// #[pyfunction]
/// fn size(state: Each<HashMap<String, PyReadonlyTensor<'_, f32, { dlbridge_pyo3::DYNAMIC }>>>) -> usize {
///     state.values().map(|tensor| tensor.len()).sum()
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Each<T>(
    /// The collection.
    pub T,
);

impl<T> Deref for Each<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Each<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<'py, T: FromItem<'py>> FromPyObject<'_, 'py> for Each<T> {
    type Error = PyErr;

    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = T::INPUT_TYPE;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        T::from_item(&Item::of(&object)).map(Self)
    }
}

/// A type that [`Each`](crate::Each) can extract from an item of a collection. Other crates cannot implement it.
pub trait FromItem<'py>: Sized {
    /// The type in stubs.
    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_identifier!("typing", "Any");

    /// Extracts an item. An exception names its place.
    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self>;
}

/// An object in a collection, with its place there.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a, 'py> {
    object: &'a Bound<'py, PyAny>,
    /// The collection and the place in it; `None` for the whole argument.
    within: Option<(&'a Item<'a, 'py>, Place<'a, 'py>)>,
}

#[derive(Clone, Copy, Debug)]
enum Place<'a, 'py> {
    Index(usize),
    Key(&'a Bound<'py, PyAny>),
}

impl<'a, 'py> Item<'a, 'py> {
    /// The whole argument.
    fn of(object: &'a Bound<'py, PyAny>) -> Self {
        Self { object, within: None }
    }

    fn at(&'a self, place: Place<'a, 'py>, object: &'a Bound<'py, PyAny>) -> Self {
        Self { object, within: Some((self, place)) }
    }

    /// Extracts the object. An error has the place of the item in front of its message.
    #[inline]
    fn extract<T: FromPyObject<'a, 'py>>(&self) -> PyResult<T> {
        self.object.extract().map_err(|error: T::Error| self.placed(error.into()))
    }

    /// The places from the item to the whole argument.
    fn places(&self) -> impl Iterator<Item = Place<'a, 'py>> {
        let mut within = self.within;
        std::iter::from_fn(move || {
            let (collection, place) = within?;
            within = collection.within;
            Some(place)
        })
    }

    /// A `TypeError` for an object that is not the expected collection.
    #[cold]
    fn unexpected(&self, expected: &str, found: &str) -> PyErr {
        let text = format!("expected {expected}; got {found}");
        self.placed(ErrorClass::Mismatch.new_err(self.object.py(), &text))
    }

    /// The same exception with the place in front of its message, or as a note.
    #[cold]
    fn placed(&self, error: PyErr) -> PyErr {
        let py = self.object.py();
        if self.within.is_none() {
            return error;
        }
        let place = self.place();
        let value = error.value(py);
        // A producer may raise one exception many times.
        let begins_with_place =
            |text: &str| text.strip_prefix(&place).is_some_and(|rest| rest.starts_with(": "));
        let note = format!("while processing {place}");
        let has_note = || -> PyResult<bool> {
            value.getattr_opt("__notes__")?.map_or(Ok(false), |notes| notes.contains(&note))
        };
        // Only their authors know how other classes show themselves.
        let class = error.get_type(py);
        let is_known = class.is(py.get_type::<PyTypeError>())
            || class.is(py.get_type::<PyValueError>())
            || class.is(py.get_type::<PyBufferError>())
            || class.is(py.get_type::<PyOverflowError>())
            || ErrorClass::Mismatch.is(py, &error)
            || ErrorClass::Borrowed.is(py, &error);
        let message = value.getattr("args").and_then(|arguments| arguments.extract::<(String,)>());
        // An exception without the place is better than an error of this code instead of it.
        let _ = match message {
            Ok((message,)) if is_known && begins_with_place(&message) => Ok(()),
            Ok((message,)) if is_known => value.setattr("args", (format!("{place}: {message}"),)),
            _ if has_note().unwrap_or(false) => Ok(()),
            _ => value.call_method1("add_note", (note,)).map(drop),
        };
        error
    }

    /// The words `item ['layers'][3]`.
    fn place(&self) -> String {
        /// The end of a deeper place is left out.
        const SHOWN: usize = 16;
        let steps: Vec<_> = self.places().collect();
        let mut text = "item ".to_owned();
        for place in steps.iter().rev().take(SHOWN) {
            let _ = match place {
                Place::Index(index) => write!(text, "[{index}]"),
                Place::Key(key) => write!(text, "[{}]", repr_in_message(key)),
            };
        }
        if steps.len() > SHOWN {
            text.push_str("...");
        }
        text
    }
}

/// The entries of a dict in its order, as an item of an [`Each`](crate::Each).
///
/// It takes less time than a `HashMap` if there are many thousands of tensors, because it visits their memory in order.
///
/// ```no_run
/// use dlbridge_pyo3::{DYNAMIC, Each, Entries, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn largest(state: Each<Entries<PyReadonlyTensor<'_, f32, DYNAMIC>>>) -> Option<String> {
///     let entries = &state.0.0;
///     entries.iter().max_by_key(|(_, tensor)| tensor.len()).map(|(name, _)| name.clone())
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries<T, K = String>(
    /// The keys and the items.
    pub Vec<(K, T)>,
);

/// Implements `FromItem` for a dict: a function makes the collection, another one inserts an entry and returns false
/// for a key that was there before.
macro_rules! dicts {
    ($([$($generics:tt)*] $type:ty: $new:expr, $insert:expr;)+) => {$(
        impl<'py, $($generics)*> FromItem<'py> for $type {
            #[cfg(feature = "experimental-inspect")]
            const INPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_subscript!(
                pyo3::type_hint_identifier!("collections.abc", "Mapping"),
                K::INPUT_TYPE,
                T::INPUT_TYPE
            );

            fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
                let dict = dict_of(item)?;
                let mut extracted: Self = $new(dict.len());
                each_value(item, &dict, |key, value| $insert(&mut extracted, key, value))?;
                Ok(extracted)
            }
        }
    )+};
}

dicts! {
    [K: FromPyObjectOwned<'py> + Eq + Hash, T: FromItem<'py>, S: BuildHasher + Default]
    HashMap<K, T, S>:
        |len| Self::with_capacity_and_hasher(len, S::default()),
        |map: &mut Self, key, value| map.insert(key, value).is_none();
    [K: FromPyObjectOwned<'py> + Ord, T: FromItem<'py>]
    BTreeMap<K, T>: |_| Self::new(), |map: &mut Self, key, value| map.insert(key, value).is_none();
    [K: FromPyObjectOwned<'py>, T: FromItem<'py>]
    Entries<T, K>: |len| Self(Vec::with_capacity(len)), |entries: &mut Self, key, value| {
        entries.0.push((key, value));
        true
    };
}

impl<'py, T: FromItem<'py>> FromItem<'py> for Vec<T> {
    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_subscript!(
        pyo3::type_hint_identifier!("collections.abc", "Sequence"),
        T::INPUT_TYPE
    );

    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
        let objects = list_of(item, None)?;
        let mut extracted = Self::with_capacity(objects.len());
        for (index, object) in objects.iter().enumerate() {
            check_signals(object.py(), index)?;
            extracted.push(T::from_item(&item.at(Place::Index(index), &object))?);
        }
        Ok(extracted)
    }
}

impl<'py, T: FromItem<'py>> FromItem<'py> for Option<T> {
    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr =
        type_hint_union!(T::INPUT_TYPE, <pyo3::types::PyNone as pyo3::PyTypeInfo>::TYPE_HINT);

    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
        if item.object.is_none() { Ok(None) } else { T::from_item(item).map(Some) }
    }
}

macro_rules! tuples {
    ($($count:literal: $($type:ident $index:literal),+;)+) => {$(
        impl<'py, $($type: FromItem<'py>),+> FromItem<'py> for ($($type,)+) {
            fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
                let objects = list_of(item, Some($count))?;
                Ok(($($type::from_item(&item.at(Place::Index($index), &objects.get_item($index)?))?,)+))
            }
        }
    )+};
}

tuples! {
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
}

/// Implements `FromItem` for types that are one item.
macro_rules! single {
    ($([$($generics:tt)*] $type:ty $(where [$($bounds:tt)*])?;)+) => {$(
        impl<'py, $($generics)*> FromItem<'py> for $type $(where $($bounds)*)? {
            #[cfg(feature = "experimental-inspect")]
            const INPUT_TYPE: pyo3::inspect::PyStaticExpr = <Self as FromPyObject<'_, 'py>>::INPUT_TYPE;

            #[inline]
            fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
                item.extract()
            }
        }
    )+};
}

single! {
    [A: Accepts, const N: usize, C: Constraint] PyReadonlyTensor<'py, A, N, C>;
    [A: Accepts, const N: usize, C: Constraint] PyReadwriteTensor<'py, A, N, C>;
    [A: Accepts, const N: usize, S: Stream, C: Constraint] PyDeviceTensor<'py, A, N, S, C>;
    [T] Bound<'py, T> where [Self: for<'a> FromPyObject<'a, 'py>];
    [T] Py<T> where [Self: for<'a> FromPyObject<'a, 'py>];
    [] bool; [] String; [] f32; [] f64;
    [] i8; [] i16; [] i32; [] i64; [] isize;
    [] u8; [] u16; [] u32; [] u64; [] usize;
}

/// The objects of a list or tuple, of this number if it is given.
fn list_of<'py>(item: &Item<'_, 'py>, count: Option<usize>) -> PyResult<Bound<'py, PyTuple>> {
    let expected = || match count {
        Some(count) => format!("a list or tuple of {count} items"),
        None => "a list or tuple".to_owned(),
    };
    let object = item.object;
    let listed = match object.cast::<PyList>() {
        Ok(list) => Some(list.to_tuple()),
        Err(_) => object.cast::<PyTuple>().ok().cloned(),
    };
    let Some(objects) = listed else {
        let found = with_article(&type_name(object));
        let is_text = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
        let remedy = match () {
            () if object.is_instance_of::<PyDict>() => "pass list(x.values())",
            () if is_text || !object.hasattr("__iter__")? => "put it into a list",
            () => "put it into a list, or pass list(x)",
        };
        return Err(item.unexpected(&expected(), &format!("{found}; {remedy}")));
    };
    match count {
        Some(count) if objects.len() != count => {
            let items = if objects.len() == 1 { "item" } else { "items" };
            Err(item.unexpected(&expected(), &format!("{} {items}", objects.len())))
        }
        _ => Ok(objects),
    }
}

fn dict_of<'py>(item: &Item<'_, 'py>) -> PyResult<Bound<'py, PyDict>> {
    let Ok(dict) = item.object.cast::<PyDict>() else {
        let found = with_article(&type_name(item.object));
        return Err(item.unexpected("a dict", &format!("{found}; pass dict(x)")));
    };
    dict.copy()
}

/// Lets Ctrl-C end the extraction of many items, at each few thousand of them.
fn check_signals(py: Python<'_>, index: usize) -> PyResult<()> {
    if index % 4096 == 4095 { py.check_signals() } else { Ok(()) }
}

/// Calls a function with the keys and values of a dict. It returns false for a key that it has already got: different
/// objects in Python may become equal keys in Rust.
fn each_value<'py, K: FromPyObjectOwned<'py>, T: FromItem<'py>>(
    item: &Item<'_, 'py>,
    dict: &Bound<'py, PyDict>,
    mut insert: impl FnMut(K, T) -> bool,
) -> PyResult<()> {
    for (index, (key, object)) in dict.iter().enumerate() {
        check_signals(dict.py(), index)?;
        let at = item.at(Place::Key(&key), &object);
        let known = key.extract::<K>().map_err(|error| at.placed(error.into()))?;
        if !insert(known, T::from_item(&at)?) {
            let text = "an earlier key of the dict is equal to this one after its conversion; make the keys differ";
            return Err(at.placed(PyValueError::new_err(text)));
        }
    }
    Ok(())
}
