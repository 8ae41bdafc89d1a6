//! Lists and tuples of numbers as arguments: `AllowSequence`.
//!
//! A loop ([`plain`]) reads lists of real numbers, which NumPy reads several times more slowly. NumPy reads all other
//! lists, from a copy that holds only numbers and arrays ([`snapshot`]).
//!
//! The rule is NumPy's: a list has the dtype that `numpy.asarray` gives it, and that dtype must convert to the
//! demanded one by the casting rule `same_kind`. A Python integer does not have a size, so its value decides.

mod plain;
mod snapshot;

use std::fmt::Write;

use dlbridge::{DataType, DataTypeCode as Code, Tensor};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyRange, PyTuple, PyType};

use self::snapshot::Stop;
use super::accepts::Accepts;
use super::cast::is_converted;
use super::refusal::{Found, Refusal};
use super::spec::ArgumentSpec;
use crate::classes;
use crate::import;
use crate::protocol::type_info;

/// The deepest nesting of lists, as in NumPy: deeper lists could overflow a thread's stack.
const MAX_DEPTH: usize = 64;

/// A tensor of one of the expected dtypes, from the numbers of a list, tuple or range; `None` for other objects.
pub(super) fn tensor_of<A: Accepts>(
    spec: &'static ArgumentSpec,
    object: &Bound<'_, PyAny>,
) -> Result<Option<Tensor>, Refusal> {
    let Some(items) = Items::of(object)? else { return Ok(None) };
    let is_exact =
        object.is_exact_instance_of::<PyList>() || object.is_exact_instance_of::<PyTuple>();
    // A subclass may export a tensor itself.
    if !is_exact && import::has_protocol(object)? {
        return Ok(None);
    }
    if let Some(tensor) = plain::read::<A>(spec, &items)? {
        return Ok(Some(tensor));
    }
    match snapshot::read(spec, &items) {
        Ok(tensor) => Ok(Some(tensor)),
        Err(Stop::Raised(error)) => Err(error.into()),
        Err(Stop::Misfit(misfit)) => {
            let object_type = object.get_type().unbind();
            Err(Refusal::new(spec, Found::Sequence { object_type, misfit }))
        }
    }
}

/// A list or a tuple, or an instance of a subclass, which is read as its base class. Items are looked up by a checked
/// index, and held while they are read, because Python code may change the list.
enum Items<'py> {
    List(Bound<'py, PyList>),
    Tuple(Bound<'py, PyTuple>),
}

impl<'py> Items<'py> {
    /// The items of a list, tuple or range; `None` for other objects.
    #[inline]
    fn of(object: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        // A failed cast takes longer than these comparisons.
        Ok(if object.is_instance_of::<PyList>() {
            Some(Self::List(object.cast()?.clone()))
        } else if object.is_instance_of::<PyTuple>() {
            Some(Self::Tuple(object.cast()?.clone()))
        } else if object.is_exact_instance_of::<PyRange>() {
            let list = object.py().get_type::<PyList>().call1((object,))?;
            Some(Self::List(list.cast_into()?))
        } else {
            None
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Tuple(tuple) => tuple.len(),
        }
    }

    /// An item; `None` if the list has become shorter.
    #[inline]
    fn get(&self, index: usize) -> Option<Bound<'py, PyAny>> {
        match self {
            Self::List(list) => list.get_item(index).ok(),
            Self::Tuple(tuple) => tuple.get_item(index).ok(),
        }
    }

    fn py(&self) -> Python<'py> {
        match self {
            Self::List(list) => list.py(),
            Self::Tuple(tuple) => tuple.py(),
        }
    }

    /// The lengths of the first lists, at most one more than [`MAX_DEPTH`], and the first item that is not a list.
    fn lengths(&self) -> PyResult<(Vec<i64>, Option<Bound<'py, PyAny>>)> {
        let (mut lengths, mut first) = (vec![self.len() as i64], self.get(0));
        while lengths.len() <= MAX_DEPTH
            && let Some(item) = &first
            && let Some(items) = Self::of(item)?
        {
            lengths.push(items.len() as i64);
            first = items.get(0);
        }
        Ok((lengths, first))
    }
}

/// The error of a list that Python code changed meanwhile.
fn changed(index: &[usize]) -> PyErr {
    let place = place(index);
    let text = format!("{place} changed while it was read; do not change a list meanwhile");
    PyRuntimeError::new_err(text)
}

fn extents(shape: &[i64]) -> Vec<usize> {
    shape.iter().map(|&extent| extent as usize).collect()
}

/// Reading this many numbers takes at least as long as reading an array in place, or as importing a tensor.
const ARRAY: usize = 1 << 4;
const TENSOR: usize = 1 << 8;

/// Counts items, and checks for signals if many were read since the last check.
fn count(py: Python<'_>, items: usize, unasked: &mut usize) -> PyResult<()> {
    const UNINTERRUPTED: usize = 1 << 20;
    *unasked += items;
    if *unasked > UNINTERRUPTED {
        *unasked = 0;
        py.check_signals()?;
    }
    Ok(())
}

/// The kinds of numbers, in NumPy's order: a number may become an element of its own kind or of a later kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Bool,
    Integer,
    Float,
    Complex,
}

impl Kind {
    /// The kind of the elements of a dtype; `None` for dtypes that lists cannot become.
    fn of(dtype: DataType) -> Option<Self> {
        is_converted(dtype).then(|| match dtype.code() {
            Code::BOOL => Self::Bool,
            Code::INT | Code::UINT => Self::Integer,
            Code::FLOAT | Code::BFLOAT => Self::Float,
            _ => Self::Complex,
        })
    }
}

/// The kinds of numbers, by their types.
#[derive(Default)]
struct Kinds<'py> {
    /// The last type that is neither `float` nor `int`, and its kind: most lists have one type.
    last: Option<(Bound<'py, PyType>, Option<Kind>)>,
}

impl<'py> Kinds<'py> {
    /// The kind of a number; `None` for objects that are not numbers of Python or NumPy.
    #[inline(always)]
    fn of(&mut self, item: &Bound<'py, PyAny>) -> PyResult<Option<Kind>> {
        if item.is_exact_instance_of::<PyFloat>() {
            return Ok(Some(Kind::Float));
        }
        if item.is_exact_instance_of::<PyInt>() {
            return Ok(Some(Kind::Integer));
        }
        match &self.last {
            Some((last, kind)) if item.get_type_ptr() == last.as_type_ptr() => Ok(*kind),
            _ => self.find_out(item),
        }
    }

    #[cold]
    fn find_out(&mut self, item: &Bound<'py, PyAny>) -> PyResult<Option<Kind>> {
        let py = item.py();
        let kind = if type_info::array_of(item).is_some() {
            None
        } else if item.is_instance_of::<PyBool>() {
            Some(Kind::Bool)
        } else if item.is_instance_of::<PyInt>() {
            Some(Kind::Integer)
        } else if item.is_instance_of::<PyFloat>() {
            Some(Kind::Float)
        } else if item.is_instance_of::<PyComplex>() {
            Some(Kind::Complex)
        } else if classes::is_instance(item, "numpy", "generic")? {
            let dtype = item.getattr(intern!(py, "dtype"))?;
            match dtype.getattr(intern!(py, "kind"))?.extract::<char>()? {
                'b' => Some(Kind::Bool),
                'i' | 'u' => Some(Kind::Integer),
                'f' => Some(Kind::Float),
                'c' => Some(Kind::Complex),
                // The numbers of ml_dtypes have this kind, and so do structures, which are not numbers.
                'V' if classes::package_of(item.get_type().as_any())? == "ml_dtypes" => {
                    Some(Kind::Float)
                }
                _ => None,
            }
        } else {
            None
        };
        self.last = Some((item.get_type(), kind));
        Ok(kind)
    }
}

/// An item's place, for a message.
fn place(index: &[usize]) -> String {
    if index.is_empty() {
        return "the list".to_owned();
    }
    let mut place = "element ".to_owned();
    for index in index {
        let _ = write!(place, "[{index}]");
    }
    place
}
