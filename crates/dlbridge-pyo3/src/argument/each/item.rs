//! One item of a collection, with its place.

use std::fmt::Write;

use pyo3::exceptions::{PyBufferError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::{ErrorClass, repr_in_message};
use crate::{PyDeviceTensor, PyReadonlyTensor, PyReadwriteTensor};
use crate::{
    argument::accepts::Accepts, argument::constraint::Constraint, argument::stream::Stream,
};

/// A type that [`Each`](crate::Each) can extract from an item of a collection.
///
/// Implement it for a type of your own to have it in a collection:
///
/// ```no_run
/// use dlbridge_pyo3::{Each, FromItem, Item, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// /// A layer is an object with two attributes.
/// #[derive(FromPyObject)]
/// struct Layer<'py> {
///     weight: PyReadonlyTensor<'py, f32, 2>,
///     bias: PyReadonlyTensor<'py, f32, 1>,
/// }
///
/// impl<'py> FromItem<'py> for Layer<'py> {
///     fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
///         item.extract()
///     }
/// }
///
/// #[pyfunction]
/// fn parameters(layers: Each<Vec<Layer<'_>>>) -> usize {
///     layers.iter().map(|layer| layer.weight.len() + layer.bias.len()).sum()
/// }
/// ```
pub trait FromItem<'py>: Sized {
    /// The type in stubs.
    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = pyo3::type_hint_identifier!("typing", "Any");

    /// Extracts an item.
    ///
    /// # Errors
    /// An exception that names the place of the item, as [`Item::extract`] makes it.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::{FromItem, Item, PyReadonlyTensor};
    /// use pyo3::prelude::*;
    ///
    /// struct Norm(f32);
    ///
    /// impl<'py> FromItem<'py> for Norm {
    ///     fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
    ///         let vector: PyReadonlyTensor<'_, f32, 1> = item.extract()?;
    ///         Ok(Self(vector.iter().map(|value| value * value).sum::<f32>().sqrt()))
    ///     }
    /// }
    /// ```
    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self>;
}

/// An object in a collection, with its place there.
///
/// ```no_run
/// use dlbridge_pyo3::{Item, PyTensor};
/// use pyo3::prelude::*;
///
/// fn tensor<'py>(item: &Item<'_, 'py>) -> PyResult<Py<PyTensor>> {
///     item.extract()
/// }
/// ```
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
    pub(super) fn of(object: &'a Bound<'py, PyAny>) -> Self {
        Self { object, within: None }
    }

    pub(super) fn at(&'a self, index: usize, object: &'a Bound<'py, PyAny>) -> Self {
        Self { object, within: Some((self, Place::Index(index))) }
    }

    pub(super) fn under(
        &'a self,
        key: &'a Bound<'py, PyAny>,
        object: &'a Bound<'py, PyAny>,
    ) -> Self {
        Self { object, within: Some((self, Place::Key(key))) }
    }

    /// The object.
    ///
    /// ```no_run
    /// fn is_none(item: &dlbridge_pyo3::Item<'_, '_>) -> bool {
    ///     use pyo3::prelude::*;
    ///     item.object().is_none()
    /// }
    /// ```
    pub fn object(&self) -> &'a Bound<'py, PyAny> {
        self.object
    }

    /// Extracts the object.
    ///
    /// # Errors
    /// The error of the extraction, with the place of the item in front of its message.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::Item;
    /// use pyo3::prelude::*;
    ///
    /// fn name(item: &Item<'_, '_>) -> PyResult<String> {
    ///     item.extract()
    /// }
    /// ```
    #[inline]
    pub fn extract<T: FromPyObject<'a, 'py>>(&self) -> PyResult<T> {
        self.object.extract().map_err(|error: T::Error| self.placed(error.into()))
    }

    /// The number of collections around the item.
    pub(super) fn depth(&self) -> usize {
        let mut depth = 0;
        let mut item = self;
        while let Some((collection, _)) = item.within {
            (item, depth) = (collection, depth + 1);
        }
        depth
    }

    /// A `TypeError` for an object that is not the expected collection.
    #[cold]
    pub(super) fn unexpected(&self, expected: &str, found: &str) -> PyErr {
        let text = format!("expected {expected}; got {found}");
        self.placed(ErrorClass::Mismatch.new_err(self.object.py(), &text))
    }

    /// The same exception with the place in front of its message, or as a note.
    #[cold]
    pub(super) fn placed(&self, error: PyErr) -> PyErr {
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
        let class = error.get_type(py);
        // Only their authors know how other classes show themselves.
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
        let mut steps = Vec::new();
        let mut item = self;
        while let Some((collection, place)) = item.within {
            steps.push(place);
            item = collection;
        }
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

impl<'py, A: Accepts, const N: usize, C: Constraint> FromItem<'py>
    for PyReadonlyTensor<'py, A, N, C>
{
    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = <Self as FromPyObject<'_, 'py>>::INPUT_TYPE;

    #[inline]
    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
        item.extract()
    }
}

impl<'py, A: Accepts, const N: usize, C: Constraint> FromItem<'py>
    for PyReadwriteTensor<'py, A, N, C>
{
    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = <Self as FromPyObject<'_, 'py>>::INPUT_TYPE;

    #[inline]
    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
        item.extract()
    }
}

impl<'py, A: Accepts, const N: usize, S: Stream, C: Constraint> FromItem<'py>
    for PyDeviceTensor<'py, A, N, S, C>
{
    #[cfg(feature = "experimental-inspect")]
    const INPUT_TYPE: pyo3::inspect::PyStaticExpr = <Self as FromPyObject<'_, 'py>>::INPUT_TYPE;

    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
        item.extract()
    }
}

impl<'py, T> FromItem<'py> for Bound<'py, T>
where
    Self: for<'a> FromPyObject<'a, 'py>,
{
    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
        item.extract()
    }
}

impl<'py, T> FromItem<'py> for Py<T>
where
    Self: for<'a> FromPyObject<'a, 'py>,
{
    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
        item.extract()
    }
}

macro_rules! single {
    ($($type:ty),+) => {$(
        impl<'py> FromItem<'py> for $type {
            #[cfg(feature = "experimental-inspect")]
            const INPUT_TYPE: pyo3::inspect::PyStaticExpr = <Self as FromPyObject<'_, 'py>>::INPUT_TYPE;

            fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
                item.extract()
            }
        }
    )+};
}

single!(bool, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64, String);
