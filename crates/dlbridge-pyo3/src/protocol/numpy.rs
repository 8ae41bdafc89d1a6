//! NumPy's arrays as tensors, read in place.
//!
//! An array that was made from a dlbridge tensor keeps the owner of its memory. An import keeps this owner instead of the array:
//! otherwise each turn of a loop that exports a tensor and imports the result would add an owner, and the memory of all of them
//! would stay until the last one is dropped. Invariant Within of `layout.rs` makes this sound.

use std::ops::Range;
use std::sync::OnceLock;

use dlbridge::{Access, ArcTensor, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyMemoryView};

use crate::capsule::OWNER_OF_ARRAY;
use crate::imported::{Imported, Protocol};
use crate::layout::{address_range, inner, is_within, root};
use crate::numpy::array::{Described, NumpyArray};
use crate::python::interpreter::PyOwner;

/// Imports an array of `head`'s type; `None` if `__dlpack__` is needed.
pub fn import(head: NumpyArray, array: &Bound<'_, PyAny>) -> PyResult<Option<Imported>> {
    let (tensor, read_only) = match head
        .run(array, None, &[])
        .and_then(|run| Some((run.tensor()?, run.is_read_only())))
    {
        Some(run) => run,
        None => match head.describe(array) {
            Some(Described { tensor, read_only }) => (tensor, read_only),
            None => return Ok(None),
        },
    };
    let access = if read_only { Access::ReadOnly } else { Access::Shared };
    let base = NumpyArray::base(array);
    let source = base.and_then(|base| Source::of(&base, &address_range(&tensor)));
    // SAFETY: `head` found the memory of the array's elements. The owner keeps the array itself, or the tensor or the
    // Python object that keeps the memory which they lie within (Within of `layout.rs`). The program promises that
    // no code writes while a view is alive (see the crate documentation).
    let tensor = unsafe {
        match source {
            None => Tensor::from_described(PyOwner::new(array)?, &tensor, access),
            Some(Source::Object(owner)) => Tensor::from_described(owner, &tensor, access),
            Some(Source::Tensor(owner)) => Tensor::from_described(owner, &tensor, access),
        }
    };
    Ok(Some(Imported { version: head.version(), ..Imported::new(tensor, Protocol::Dlpack) }))
}

/// The name of the capsule in which a NumPy array holds the versioned managed tensor that it was made from.
const NUMPY_CAPSULE: &std::ffi::CStr = c"numpy_dltensor_versioned";

/// The most objects to follow from an object to its tensor; in practice there are fewer.
const MOST: usize = 8;

/// The tensor of an object of the package's class, and true if the object may hold a borrow; `None` for other objects.
pub type TensorOf = for<'a> fn(&'a Bound<'_, PyAny>) -> Option<(&'a ArcTensor, bool)>;

/// Set by the package in its own module, which links this crate, and empty in an extension.
static OF_PACKAGE: OnceLock<TensorOf> = OnceLock::new();

/// Lets the package's own module recognise the objects of its class.
pub fn set_class(tensor_of: TensorOf) {
    let _ = OF_PACKAGE.set(tensor_of);
}

/// Calls that function, in the package.
pub fn tensor_of<'a>(object: &'a Bound<'_, PyAny>) -> Option<(&'a ArcTensor, bool)> {
    OF_PACKAGE.get()?(object)
}

/// The owner of memory.
pub enum Source {
    /// A dlbridge tensor.
    Tensor(ArcTensor),
    /// The Python object that a dlbridge tensor was made from.
    Object(PyOwner),
}

impl Source {
    /// The owner of some bytes of an object's memory (Within); `None` if it is not known.
    ///
    /// Only types that Python code cannot imitate are examined: dlbridge's own, NumPy's array, memoryview, capsule.
    pub fn of(object: &Bound<'_, PyAny>, bytes: &Range<usize>) -> Option<Self> {
        let py = object.py();
        let mut object = object.clone();
        for _ in 0..MOST {
            if let Some((tensor, may_borrow)) = tensor_of(&object) {
                // An object that may hold a borrow must be kept itself.
                let is_left = !may_borrow && is_within(bytes, tensor);
                return is_left.then(|| Self::Tensor(root(tensor)));
            }
            if let Ok(capsule) = object.cast_exact::<PyCapsule>() {
                return Self::in_capsule(capsule, bytes);
            }
            object = match NumpyArray::base(&object) {
                Some(base) => base,
                None => {
                    let view = object.cast_exact::<PyMemoryView>().ok()?;
                    view.getattr(intern!(py, "obj")).ok()?
                }
            };
        }
        None
    }

    /// The owner of some bytes of the tensor that a NumPy array was made from.
    fn in_capsule(capsule: &Bound<'_, PyCapsule>, bytes: &Range<usize>) -> Option<Self> {
        let names = [NUMPY_CAPSULE, OWNER_OF_ARRAY];
        let name = names.into_iter().find(|&name| capsule.is_valid_checked(Some(name)))?;
        let managed = capsule.pointer_checked(Some(name)).ok()?;
        let source = |tensor: &Tensor| {
            let is_within = is_within(bytes, tensor);
            is_within.then(|| Self::of_tensor(capsule.py(), tensor)).flatten()
        };
        // SAFETY: the name shows a versioned managed tensor, which NumPy or dlbridge keeps as long as the capsule.
        unsafe { Tensor::with_raw(managed.cast(), source) }.flatten()
    }

    /// The owner of a tensor's memory; `None` if the tensor itself owns it.
    fn of_tensor(py: Python<'_>, tensor: &Tensor) -> Option<Self> {
        if let Some(source) = inner(tensor) {
            return Some(Self::Tensor(root(source)));
        }
        // SAFETY: this reads the type of the owner, and accesses no element through it.
        let owner = unsafe { tensor.owner_ref::<PyOwner>() };
        owner.filter(|_| tensor.access() != Access::Exclusive)?.clone_ref(py).map(Self::Object)
    }
}
