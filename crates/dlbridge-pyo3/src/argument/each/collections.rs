//! The collections that `Each` extracts. Each reads a copy, because a producer may change the original.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
#[cfg(feature = "experimental-inspect")]
use pyo3::type_hint_union;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::item::{FromItem, Item};
use crate::error::{type_name, with_article};

/// The objects of a list or tuple; `None` for other objects.
pub(super) fn listed<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyTuple>> {
    match object.cast::<PyList>() {
        Ok(list) => Some(list.to_tuple()),
        Err(_) => object.cast::<PyTuple>().ok().cloned(),
    }
}

/// A copy of a dict; `None` for other objects.
pub(super) fn keyed<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    object.cast::<PyDict>().ok().map(|dict| dict.copy()).transpose()
}

fn list_of<'py>(item: &Item<'_, 'py>, count: Option<usize>) -> PyResult<Bound<'py, PyTuple>> {
    let expected = || match count {
        Some(count) => format!("a list or tuple of {count} items"),
        None => "a list or tuple".to_owned(),
    };
    let Some(objects) = listed(item.object()) else {
        let found = with_article(&type_name(item.object()));
        let object = item.object();
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
            extracted.push(T::from_item(&item.at(index, &object))?);
        }
        Ok(extracted)
    }
}

impl<'py, T: FromItem<'py>> FromItem<'py> for Option<T> {
    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr =
        type_hint_union!(T::INPUT_TYPE, <pyo3::types::PyNone as pyo3::PyTypeInfo>::TYPE_HINT);

    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
        if item.object().is_none() { Ok(None) } else { T::from_item(item).map(Some) }
    }
}

macro_rules! tuples {
    ($($count:literal: $($type:ident $index:literal),+;)+) => {$(
        impl<'py, $($type: FromItem<'py>),+> FromItem<'py> for ($($type,)+) {
            fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
                let objects = list_of(item, Some($count))?;
                Ok(($($type::from_item(&item.at($index, &objects.get_item($index)?))?,)+))
            }
        }
    )+};
}

tuples! {
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
}

/// Lets Ctrl-C end the extraction of many items, at each few thousand of them.
pub(super) fn check_signals(py: Python<'_>, index: usize) -> PyResult<()> {
    if index % 4096 == 4095 { py.check_signals() } else { Ok(()) }
}

/// Calls a function with the keys and values of a dict. It returns false for a key that it has already got: different
/// objects in Python may become equal keys in Rust.
pub(super) fn each_value<'py, K: FromPyObjectOwned<'py>, T: FromItem<'py>>(
    item: &Item<'_, 'py>,
    dict: &Bound<'py, PyDict>,
    mut insert: impl FnMut(K, T) -> bool,
) -> PyResult<()> {
    for (index, (key, object)) in dict.iter().enumerate() {
        check_signals(dict.py(), index)?;
        let at = item.under(&key, &object);
        let known = key.extract::<K>().map_err(|error| at.placed(error.into()))?;
        if !insert(known, T::from_item(&at)?) {
            let text = "an earlier key of the dict is equal to this one after its conversion; make the keys differ";
            return Err(at.placed(PyValueError::new_err(text)));
        }
    }
    Ok(())
}

fn dict_of<'py>(item: &Item<'_, 'py>) -> PyResult<Bound<'py, PyDict>> {
    keyed(item.object())?.ok_or_else(|| {
        let found = with_article(&type_name(item.object()));
        item.unexpected("a dict", &format!("{found}; pass dict(x)"))
    })
}

impl<'py, K, T, S> FromItem<'py> for HashMap<K, T, S>
where
    K: FromPyObjectOwned<'py> + Eq + Hash,
    T: FromItem<'py>,
    S: BuildHasher + Default,
{
    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_subscript!(
        pyo3::type_hint_identifier!("collections.abc", "Mapping"),
        K::INPUT_TYPE,
        T::INPUT_TYPE
    );

    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
        let dict = dict_of(item)?;
        let mut extracted = Self::with_capacity_and_hasher(dict.len(), S::default());
        each_value(item, &dict, |key, value| extracted.insert(key, value).is_none())?;
        Ok(extracted)
    }
}

impl<'py, K: FromPyObjectOwned<'py> + Ord, T: FromItem<'py>> FromItem<'py> for BTreeMap<K, T> {
    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_subscript!(
        pyo3::type_hint_identifier!("collections.abc", "Mapping"),
        K::INPUT_TYPE,
        T::INPUT_TYPE
    );

    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
        let dict = dict_of(item)?;
        let mut extracted = Self::new();
        each_value(item, &dict, |key, value| extracted.insert(key, value).is_none())?;
        Ok(extracted)
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

impl<'py, T: FromItem<'py>, K: FromPyObjectOwned<'py>> FromItem<'py> for Entries<T, K> {
    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_subscript!(
        pyo3::type_hint_identifier!("collections.abc", "Mapping"),
        K::INPUT_TYPE,
        T::INPUT_TYPE
    );

    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
        let dict = dict_of(item)?;
        let mut entries = Vec::with_capacity(dict.len());
        each_value(item, &dict, |key, value| {
            entries.push((key, value));
            true
        })?;
        Ok(Self(entries))
    }
}
