//! Lists, dicts and trees of arguments, whose errors name the item.

mod collections;
mod item;
mod tree;

use std::ops::{Deref, DerefMut};

use pyo3::prelude::*;

pub use self::collections::Entries;
pub use self::item::{FromItem, Item};
pub use self::tree::Tree;

/// A list, dict or tree of arguments, whose errors name the item that does not fit.
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
/// | [`Tree<T>`](Tree) | lists, tuples and dicts in each other; everything else is a `T` |
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
