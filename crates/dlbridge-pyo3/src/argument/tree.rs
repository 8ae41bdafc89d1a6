//! Trees of arguments: JAX's name is *pytree*.

use pyo3::BoundObject;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::each::{Entries, FromItem, Item};

/// Lists, tuples and dicts in each other, with arguments as their leaves: what JAX calls a pytree.
///
/// Everything except a list, a tuple and a dict is a leaf, also `None`: use `Tree<Option<T>>` if leaves may be missing.
/// A named tuple is a tuple. As an argument it is in an [`Each`](crate::Each). As a result it becomes the same lists,
/// tuples and dicts.
///
/// # Errors
/// As for [`Each`](crate::Each). `ValueError` for collections that are nested more than 64 deep.
///
/// ```no_run
/// use dlbridge_pyo3::{DYNAMIC, Each, PyReadonlyTensor, PyReadwriteTensor, Tree};
/// use pyo3::prelude::*;
///
/// /// The sum of all elements, in a tree of the same shape as the argument.
/// #[pyfunction]
/// fn sums(parameters: Each<Tree<PyReadonlyTensor<'_, f32, DYNAMIC>>>) -> Tree<f32> {
///     parameters.0.map(|tensor| tensor.iter().sum())
/// }
///
/// /// Subtracts gradients from parameters.
/// #[pyfunction]
/// fn step(
///     parameters: Each<Tree<PyReadwriteTensor<'_, f32, DYNAMIC>>>,
///     gradients: Each<Tree<PyReadonlyTensor<'_, f32, DYNAMIC>>>,
/// ) {
///     for (mut value, gradient) in parameters.0.into_leaves().into_iter().zip(gradients.leaves()) {
///         value.iter_mut().zip(gradient.iter()).for_each(|(value, by)| *value -= by);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree<T, K = String> {
    /// An item that is not a list, tuple or dict.
    Leaf(T),
    /// A list.
    List(Vec<Self>),
    /// A tuple.
    Tuple(Vec<Self>),
    /// A dict, in its order.
    Dict(Vec<(K, Self)>),
}

/// Real trees are a few levels deep; one that contains itself never ends.
const DEEPEST: usize = 64;

impl<T, K> Tree<T, K> {
    /// The leaves from left to right.
    ///
    /// ```
    /// use dlbridge_pyo3::Tree;
    ///
    /// let tree = Tree::<i32>::List(vec![Tree::Leaf(1), Tree::Dict(vec![("a".to_owned(), Tree::Leaf(2))])]);
    /// assert_eq!(tree.leaves(), [&1, &2]);
    /// ```
    pub fn leaves(&self) -> Vec<&T> {
        let mut leaves = Vec::new();
        self.collect(&mut leaves);
        leaves
    }

    fn collect<'a>(&'a self, leaves: &mut Vec<&'a T>) {
        match self {
            Self::Leaf(leaf) => leaves.push(leaf),
            Self::List(trees) | Self::Tuple(trees) => {
                trees.iter().for_each(|tree| tree.collect(leaves));
            }
            Self::Dict(trees) => trees.iter().for_each(|(_, tree)| tree.collect(leaves)),
        }
    }

    /// The leaves from left to right, as values.
    ///
    /// ```
    /// use dlbridge_pyo3::Tree;
    ///
    /// let tree = Tree::<i32>::Tuple(vec![Tree::Leaf(1), Tree::Leaf(2)]);
    /// assert_eq!(tree.into_leaves(), [1, 2]);
    /// ```
    pub fn into_leaves(self) -> Vec<T> {
        let mut leaves = Vec::new();
        self.map(|leaf| leaves.push(leaf));
        leaves
    }

    /// A tree of the same shape, with the results of a function as its leaves.
    ///
    /// ```
    /// use dlbridge_pyo3::Tree;
    ///
    /// let tree = Tree::<i32>::List(vec![Tree::Leaf(1), Tree::Leaf(2)]);
    /// assert_eq!(tree.map(|leaf| leaf * 10), Tree::List(vec![Tree::Leaf(10), Tree::Leaf(20)]));
    /// ```
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Tree<U, K> {
        self.mapped(&mut f)
    }

    fn mapped<U>(self, f: &mut impl FnMut(T) -> U) -> Tree<U, K> {
        match self {
            Self::Leaf(leaf) => Tree::Leaf(f(leaf)),
            Self::List(trees) => Tree::List(trees.into_iter().map(|tree| tree.mapped(f)).collect()),
            Self::Tuple(trees) => {
                Tree::Tuple(trees.into_iter().map(|tree| tree.mapped(f)).collect())
            }
            Self::Dict(trees) => {
                Tree::Dict(trees.into_iter().map(|(key, tree)| (key, tree.mapped(f))).collect())
            }
        }
    }
}

impl<'py, T: FromItem<'py>, K: FromPyObjectOwned<'py>> FromItem<'py> for Tree<T, K> {
    fn from_item(item: &Item<'_, 'py>) -> PyResult<Self> {
        let is_dict = item.object().is_instance_of::<PyDict>();
        let is_tuple = item.object().is_instance_of::<PyTuple>();
        if !is_dict && !is_tuple && !item.object().is_instance_of::<PyList>() {
            return T::from_item(item).map(Self::Leaf);
        }
        if item.depth() >= DEEPEST {
            return Err(item.placed(PyValueError::new_err(format!(
                "lists and dicts are nested more than {DEEPEST} deep; pass a tree that does not contain itself"
            ))));
        }
        if is_dict {
            return Entries::from_item(item).map(|entries| Self::Dict(entries.0));
        }
        Vec::from_item(item).map(if is_tuple { Self::Tuple } else { Self::List })
    }
}

impl<'py, T: IntoPyObject<'py>, K: IntoPyObject<'py>> IntoPyObject<'py> for Tree<T, K> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let objects = |trees: Vec<Self>| -> PyResult<Vec<_>> {
            trees.into_iter().map(|tree| tree.into_pyobject(py)).collect()
        };
        Ok(match self {
            Self::Leaf(leaf) => leaf.into_pyobject(py).map_err(Into::into)?.into_any().into_bound(),
            Self::List(trees) => PyList::new(py, objects(trees)?)?.into_any(),
            Self::Tuple(trees) => PyTuple::new(py, objects(trees)?)?.into_any(),
            Self::Dict(trees) => {
                let dict = PyDict::new(py);
                for (key, tree) in trees {
                    dict.set_item(key, tree.into_pyobject(py)?)?;
                }
                dict.into_any()
            }
        })
    }
}
