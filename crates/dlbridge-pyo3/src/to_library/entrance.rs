//! The functions that import into a framework, and its behaviour, found once.

use dlbridge::{DataType, Device, Tensor};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::measure;
use super::probe::Probe;
use super::readings::Readings;
use crate::error::library;
use crate::frameworks::{Behaviour, FRAMEWORKS, Framework};
use crate::once::once;
use crate::protocol::exchange_api::Table;

/// The functions that import a tensor into a framework, and the results of its first use.
pub(super) struct Entrance {
    pub(super) function: Py<PyAny>,
    pub(super) table: Option<Table>,
    /// The framework's behaviour with data that the CPU can read.
    pub(super) behaviour: Behaviour,
    /// Its behaviour with other data: facts, beside the measured request, which does not depend on the device.
    on_device: Behaviour,
    /// The framework and its version, if the behaviour was measured.
    pub(super) measured: Option<String>,
    pub(super) readings: Readings,
}

/// One for each framework.
static ENTRANCES: [PyOnceLock<Entrance>; FRAMEWORKS.len()] =
    [const { PyOnceLock::new() }; FRAMEWORKS.len()];

impl Entrance {
    /// The entrance of a framework, which the first call imports and measures.
    pub(super) fn of(py: Python<'_>, framework: &'static Framework) -> PyResult<&'static Self> {
        let known = &ENTRANCES[framework.index()];
        if let Some(entrance) = known.get(py) {
            return Ok(entrance);
        }
        // Outside the cell: an import runs arbitrary code, which may call this again, or wait for a thread that does.
        let found = Self::find(py, framework)?;
        once(known, py, || Ok(found))
    }

    /// The entrance of a framework that was used before.
    pub(super) fn known(py: Python<'_>, framework: &'static Framework) -> Option<&'static Self> {
        ENTRANCES[framework.index()].get(py)
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
        let (behaviour, on_device, measured) = match framework.measured {
            false => (framework.stated, framework.stated, None),
            true => {
                let found = measure::behaviour(&Probe::new(framework, &function)?, table)?;
                let on_device = match found {
                    Some(Behaviour { request, .. }) => Behaviour { request, ..framework.on_device },
                    None => framework.on_device,
                };
                let measured = Some(release(py, framework, &module));
                (found.unwrap_or(Behaviour::CAREFUL), on_device, measured)
            }
        };
        let readings = Readings::new();
        Ok(Self { function: function.unbind(), table, behaviour, on_device, measured, readings })
    }

    /// The framework's behaviour with data on a device.
    pub(super) fn behaviour_on(&self, device: Device) -> &Behaviour {
        if device.device_type().is_host_accessible() { &self.behaviour } else { &self.on_device }
    }

    /// Why the framework cannot import a tensor: it reads the elements as another dtype.
    pub(super) fn misreads(
        &self,
        py: Python<'_>,
        framework: &'static Framework,
        tensor: &Tensor,
    ) -> PyResult<Option<String>> {
        let dtype = tensor.dtype();
        let read = if framework.measured && tensor.device().device_type().is_host_accessible() {
            self.reading(py, framework, dtype)?
        } else {
            framework.stated_misread(dtype)
        };
        Ok(read.map(|read| {
            let name = framework.name;
            format!("{name} reads {dtype} as {read}; convert the elements to another dtype first")
        }))
    }

    /// The dtype that the framework reads the elements as, in memory that the CPU can read; `None` if it reads them
    /// correctly.
    fn reading(
        &self,
        py: Python<'_>,
        framework: &'static Framework,
        dtype: DataType,
    ) -> PyResult<Option<DataType>> {
        let function = self.function.bind(py);
        let probe = || Probe::new(framework, function);
        let stated = framework.stated_misread(dtype);
        self.readings.misread(dtype, self.behaviour.request, stated, probe)
    }
}

/// The name of a framework and its version, like `jax 0.12.0`.
fn release(py: Python<'_>, framework: &Framework, module: &Bound<'_, PyModule>) -> String {
    let version = |module: &Bound<'_, PyModule>| -> Option<String> {
        module.getattr(intern!(py, "__version__")).ok()?.extract().ok()
    };
    let package = py.import(framework.package()).ok();
    let version = package.as_ref().and_then(version).or_else(|| version(module));
    match version {
        Some(version) => format!("{} {version}", framework.name),
        None => framework.name.to_owned(),
    }
}
