//! The checks of an import that no protocol makes: states in which a tensor's bytes are not its values, or that make
//! autograd miss writes. `frameworks/` states the facts, `type_checks.rs` finds those of a type, and this file
//! applies them.

use dlbridge::DataType;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::cached_attr::CachedAttr;
use super::type_checks::TypeChecks;
use super::type_info;
use crate::copies;
use crate::frameworks::State;

/// Refuses an object in a state that its bytes do not show. `dtype` is the dtype of its tensor, because most states
/// belong to some dtypes only.
#[inline]
pub fn check(object: &Bound<'_, PyAny>, checks: &TypeChecks, dtype: DataType) -> PyResult<()> {
    if checks.states.is_empty() { Ok(()) } else { check_states(object, &checks.states, dtype) }
}

fn check_states(
    object: &Bound<'_, PyAny>,
    states: &[(CachedAttr, &State)],
    dtype: DataType,
) -> PyResult<()> {
    for (attr, state) in states {
        if state.dtypes.contain(dtype) && attr.is_true(object)? == state.refused {
            return Err(PyBufferError::new_err(state.reason));
        }
    }
    Ok(())
}

/// Refuses an object for states that must be checked before an import through any protocol.
pub fn check_before(object: &Bound<'_, PyAny>, checks: &TypeChecks) -> PyResult<()> {
    copies::forget_interrupt();
    if let Some(rules) = checks.rules
        && let Some(check) = rules.check_before
    {
        check(object)?;
    }
    if checks.is_memoryview {
        let exporter = object.getattr(intern!(object.py(), "obj"))?;
        if let Some(rules) = type_info::of(&exporter)?.checks.rules
            && let Some(check) = rules.check_before
        {
            check(&exporter)?;
        }
    }
    Ok(())
}
