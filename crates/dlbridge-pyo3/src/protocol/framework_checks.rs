//! The checks of an import that no protocol makes: states in which a tensor's bytes are not its values, or that make
//! autograd miss writes. `frameworks/` states the facts. This file finds those of a type, once, and applies them.

use dlbridge::DataType;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyType};

use super::cached_attr::CachedAttr;
use super::torch_checks::TorchChecks;
use crate::frameworks::{Attribute, ImportRules, ORDER, State, import_rules};
use crate::imported::Protocol;
use crate::python::classes::{defining_class, is_subclass, package_of};

/// The checks for objects of one type.
pub struct TypeChecks {
    /// The states whose attributes the type has.
    states: Box<[(CachedAttr, &'static State)]>,
    /// The checks of PyTorch's tensors.
    torch: Option<TorchChecks>,
    /// The method that returns the owner of the memory, for types that may replace their memory.
    pub(super) storage: Option<CachedAttr>,
    /// The rules of the framework that the type belongs to.
    pub rules: Option<&'static ImportRules>,
    /// True if the framework raises other exceptions than the standard's for data that it cannot export.
    pub raises_its_own: bool,
    /// The protocols in the order in which they are tried.
    pub order: &'static [Protocol],
    /// True for Python's memoryview, whose object may need a check.
    pub(super) is_memoryview: bool,
}

impl TypeChecks {
    /// Finds the checks for a type of a package.
    pub(super) fn of_type(object_type: &Bound<'_, PyType>, package: &str) -> PyResult<Self> {
        let py = object_type.py();
        // The classes of the frameworks do not change. A class that a program derives may get another attribute
        // later.
        let is_fixed = import_rules().any(|rules| !rules.states.is_empty() && rules.is_of(package));
        let mut states = Vec::new();
        for group in import_rules().flat_map(|rules| rules.states) {
            let mut found = Vec::new();
            for state in *group {
                if let Some(attr) = CachedAttr::of(object_type, state.attribute, is_fixed)? {
                    found.push((attr, state));
                }
            }
            if found.len() == group.len() {
                states.append(&mut found);
            }
        }
        let of_package = import_rules().find(|rules| rules.is_of(package));
        let exporter = defining_class(object_type, "__dlpack__")?;
        let exporter = exporter.map(|(_, class)| package_of(&class)).transpose()?;
        let mut storage = None;
        for rules in import_rules() {
            // A class of a program that exports by a method of its own may export other memory.
            if let Some(name) = rules.storage
                && exporter.as_ref().is_some_and(|package| rules.is_of(package))
            {
                let method = CachedAttr::of(object_type, Attribute::Method(name), is_fixed)?;
                storage = storage.or(method);
            }
        }
        Ok(Self {
            states: states.into(),
            torch: TorchChecks::of_type(object_type, is_fixed)?,
            storage,
            rules: rules_of(object_type, package)?,
            raises_its_own: of_package.is_some(),
            order: of_package.map_or(&ORDER, |rules| rules.protocols),
            is_memoryview: object_type.is(py.get_type::<PyMemoryView>()),
        })
    }

    /// Refuses an object in a state that its bytes do not show. `dtype` is the dtype of its tensor, because most states
    /// belong to some dtypes only.
    #[inline]
    pub fn check(&self, object: &Bound<'_, PyAny>, dtype: DataType) -> PyResult<()> {
        for (attr, state) in &self.states {
            if state.dtypes.contain(dtype) && attr.is_true(object)? == state.refused {
                return Err(PyBufferError::new_err(state.reason));
            }
        }
        self.torch.as_ref().map_or(Ok(()), |torch| torch.check(object, dtype))
    }

    /// Returns true for a class of a library of columns.
    pub fn is_column(&self) -> bool {
        self.order[0] == Protocol::Arrow
    }
}

/// The rules of the framework that a type belongs to: by its class, or else by its package.
fn rules_of(
    object_type: &Bound<'_, PyType>,
    package: &str,
) -> PyResult<Option<&'static ImportRules>> {
    for rules in import_rules() {
        if let Some((module, class)) = rules.class
            && is_subclass(object_type, module, class)?
        {
            return Ok(Some(rules));
        }
    }
    let of_package = |rules: &&ImportRules| rules.class.is_none() && rules.is_of(package);
    Ok(import_rules().find(of_package))
}
