//! How a framework is entered, found once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::error::library;
use crate::frameworks::{FRAMEWORKS, Framework};
use crate::once::once;
use crate::protocol::exchange_api::Table;

/// The functions that import a tensor into a framework.
pub(super) struct Entrance {
    pub(super) function: Py<PyAny>,
    pub(super) table: Option<Table>,
}

/// One for each framework.
static ENTRANCES: [PyOnceLock<Entrance>; FRAMEWORKS.len()] =
    [const { PyOnceLock::new() }; FRAMEWORKS.len()];

impl Entrance {
    /// The entrance of a framework, which the first call imports.
    pub(super) fn of(py: Python<'_>, framework: &'static Framework) -> PyResult<&'static Self> {
        let known = &ENTRANCES[framework.index()];
        if let Some(entrance) = known.get(py) {
            return Ok(entrance);
        }
        // Not within the cell: an import runs any code, which may come here again, or wait for a thread that does.
        let found = Self::find(py, framework)?;
        once(known, py, || Ok(found))
    }

    fn find(py: Python<'_>, framework: &'static Framework) -> PyResult<Self> {
        let module = library(py, framework.module, framework.package(), framework.name)?;
        let within = |path: &str| {
            path.split('.').try_fold(module.clone().into_any(), |object, name| object.getattr(name))
        };
        let function = within(framework.function)?;
        if let Some(prepare) = framework.prepare {
            within(prepare)?.call0()?;
        }
        let table = match framework.table_of {
            Some(class) => Table::of_type(&within(class)?.cast_into()?)?,
            None => None,
        };
        Ok(Self { function: function.unbind(), table })
    }
}
