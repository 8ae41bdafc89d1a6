//! What a Python type speaks, found out once per type.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::exchange_api::Table;

/// What is known of a type.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// Its table of C functions.
    pub(super) table: Option<Table>,
    /// What its objects may be that their bytes do not show.
    pub(super) caveats: Caveats,
}

/// States of a tensor in which its bytes are not its values, or must not be lent.
#[derive(Clone, Copy)]
pub(super) struct Caveats {
    /// The attribute `requires_grad`: PyTorch.
    pub(super) requires_grad: bool,
    /// The methods `is_conj` and `is_neg`: PyTorch.
    pub(super) lazy_bits: bool,
    /// The attribute `stop_gradient`: Paddle.
    pub(super) stop_gradient: bool,
    /// The attribute `mask`, of NumPy's masked arrays.
    pub(super) mask: bool,
}

/// What is known, by the address of the type. An entry keeps its type alive, so that no other type can
/// get that address.
type Kinds = HashMap<usize, (Py<PyType>, Kind)>;

/// The types seen so far.
static KINDS: Mutex<Option<Kinds>> = Mutex::new(None);

/// More types than this are not remembered: a program that makes them without end would keep them
/// all.
const MAX_KINDS: usize = 256;

/// What is known of the type of an object.
pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Kind> {
    let address = object.get_type_ptr().addr();
    // No Python code runs while the lock is held.
    let known = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, kind)) = known.as_ref().and_then(|kinds| kinds.get(&address)) {
        return Ok(*kind);
    }
    drop(known);
    let object_type = object.get_type();
    let kind = find_out(&object_type)?;
    let mut known = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
    let kinds = known.get_or_insert_default();
    if kinds.len() < MAX_KINDS {
        kinds.entry(address).or_insert_with(|| (object_type.unbind(), kind));
    }
    Ok(kind)
}

fn find_out(object_type: &Bound<'_, PyType>) -> PyResult<Kind> {
    let py = object_type.py();
    let has = |name| object_type.hasattr(name);
    let caveats = Caveats {
        requires_grad: has(intern!(py, "requires_grad"))?,
        lazy_bits: has(intern!(py, "is_conj"))? && has(intern!(py, "is_neg"))?,
        stop_gradient: has(intern!(py, "stop_gradient"))?,
        mask: has(intern!(py, "mask"))? && is_masked_array(object_type)?,
    };
    let table = match overrides_table(object_type)? {
        true => None,
        false => Table::of_type(object_type)?,
    };
    Ok(Kind { table, caveats })
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

/// Whether a type is NumPy's masked array or derived from it; without importing NumPy, since who has
/// such an array has done so.
fn is_masked_array(object_type: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = object_type.py();
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    let Some(module) = modules.cast::<PyDict>()?.get_item(intern!(py, "numpy.ma"))? else {
        return Ok(false);
    };
    object_type.is_subclass(&module.getattr(intern!(py, "MaskedArray"))?)
}
