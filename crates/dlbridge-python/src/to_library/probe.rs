//! The installed release of a framework, which is measured when the first tensor is exported to it.
//!
//! A probe goes through the function that the export is about to call, on the CPU, so it initialises no device that
//! the export would not. The result is imported again, and its address, extents, strides and read-only mark are
//! compared with those of the probe.
//!
//! - An exception of the framework refuses the probe. `KeyboardInterrupt`, `RecursionError` and `MemoryError` reach the
//!   caller, and the next call measures again.
//! - A probe without an answer leaves the careful assumption: the framework ignores the read-only mark, accepts only
//!   C order, and needs an alignment of 64 bytes.
//! - A limit beyond which a later operation of the framework fails cannot be measured; its profile states it
//!   (`Framework::layout_limit`, `Framework::align_limit`).

use std::sync::{Mutex, PoisonError};

use dlbridge::{ArcTensor, DataType, Device, Tensor};
use pyo3::exceptions::{PyException, PyMemoryError, PyRecursionError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use super::framework::{Argument, Behaviour, Framework, Input, Layout, ReadOnly, Request};
use super::profiles::FRAMEWORKS;
use dlbridge_pyo3::PyTensor;
use dlbridge_pyo3::exchange_table;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::protocol::exchange_api::Table;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::{library, to_py_err};
use dlbridge_pyo3::python::objects::once;

use crate::bytes;
use crate::tensor::TensorObject;

/// A framework that was imported: its functions, and its behaviour.
pub(super) struct Installed {
    pub(super) function: Py<PyAny>,
    pub(super) table: Option<Table>,
    /// The framework's behaviour with data that the CPU can read; `None` if it cannot be measured.
    pub(super) behaviour: Option<Behaviour>,
    /// The framework and its version, if the behaviour was measured.
    pub(super) measured: Option<String>,
}

/// One for each framework.
static INSTALLED: [PyOnceLock<Installed>; FRAMEWORKS.len()] =
    [const { PyOnceLock::new() }; FRAMEWORKS.len()];

impl Installed {
    /// A framework, which the first call imports and measures.
    pub(super) fn of(py: Python<'_>, framework: &'static Framework) -> PyResult<&'static Self> {
        let known = &INSTALLED[framework.index()];
        if let Some(installed) = known.get(py) {
            return Ok(installed);
        }
        // Outside the cell: an import runs arbitrary code, which may call this again, or wait for a thread that does.
        let found = Self::find(py, framework)?;
        once(known, py, || Ok(found))
    }

    /// A framework that was used before.
    pub(super) fn known(py: Python<'_>, framework: &'static Framework) -> Option<&'static Self> {
        INSTALLED[framework.index()].get(py)
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
        let (behaviour, measured) = match framework.stated {
            Some(stated) => (Some(stated), None),
            None => {
                let memory = Tensor::zeroed_aligned(DataType::UINT8, [512], 256);
                let memory = memory.map_err(to_py_err)?.into_shared();
                let probe = Probe { framework, function: &function, memory };
                (probe.behaviour(table)?, Some(release(py, framework, &module)))
            }
        };
        Ok(Self { function: function.unbind(), table, behaviour, measured })
    }
}

impl Framework {
    /// Its behaviour with data on a device: measured or stated, otherwise the careful assumption.
    pub(super) fn behaviour(&self, installed: Option<&Installed>, device: Device) -> Behaviour {
        let measured = installed.map_or(self.stated, |installed| installed.behaviour);
        match self.on_device.filter(|_| !device.device_type().is_host_accessible()) {
            // The request does not depend on the device.
            Some(on_device) => Behaviour {
                request: measured.map_or(on_device.request, |measured| measured.request),
                ..on_device
            },
            None => measured.unwrap_or(Behaviour::CAREFUL),
        }
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

/// Measures a framework with at most ten tiny tensors of float32.
struct Probe<'a, 'py> {
    framework: &'static Framework,
    function: &'a Bound<'py, PyAny>,
    memory: ArcTensor,
}

/// The result of a framework's import of a probe.
#[derive(Clone, Copy)]
struct Seen {
    /// True if it describes the same elements in the same memory.
    shared: bool,
    /// True if it is marked as read-only, which a legacy capsule cannot express.
    read_only: bool,
}

/// The shape of most probes.
const SHAPE: [usize; 2] = [2, 3];

impl<'py> Probe<'_, 'py> {
    /// The behaviour with data that the CPU can read. A step that fails leaves the careful assumption; `None` for a
    /// framework that cannot be measured.
    fn behaviour(&self, table: Option<Table>) -> PyResult<Option<Behaviour>> {
        let Some((request, marked)) = self.request()? else { return Ok(None) };
        let shares = match marked {
            Some(Seen { shared: true, .. }) => true,
            _ => match self.try_out(self.tensor(0, &SHAPE, false)?, request)? {
                Some(seen) => seen.shared,
                None => return Ok(None),
            },
        };
        Ok(Some(match shares {
            false => Behaviour {
                request,
                copies: true,
                read_only: ReadOnly::Copied,
                ..Behaviour::CAREFUL
            },
            true => Behaviour {
                request,
                copies: false,
                read_only: self.read_only(table, request, marked)?,
                layout: self.layout(request)?,
                idle_strides: !self.shares(self.backwards(&[1, 3])?, request)?,
                align: self.align(request)?,
            },
        }))
    }

    /// How the framework requests read-only data, and its result; `None` if it does not request it.
    fn request(&self) -> PyResult<Option<(Request, Option<Seen>)>> {
        let py = self.function.py();
        let marked = || self.tensor(0, &SHAPE, true);
        match self.framework.argument {
            Argument::ExchangeApi => {
                let request = Request::ExchangeApi;
                Ok(Some((request, self.try_out(marked()?, request)?)))
            }
            Argument::Capsule => {
                let newest = Request::Versioned(1, 3);
                let seen = self.try_out(marked()?, newest)?;
                let request = if seen.is_some() { newest } else { Request::Legacy };
                Ok(Some((request, seen)))
            }
            Argument::Object => {
                // A second description of the same memory: the framework consumes the first one.
                let (tensor, sent) = (marked()?, marked()?);
                let tensor = TensorObject::new(py, tensor)?.unbind();
                let recorder = Bound::new(py, Recorder { tensor, request: Mutex::new(None) })?;
                let seen = self.look(self.function.call1((&recorder,)), &sent)?;
                let request =
                    *recorder.get().request.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(request.map(|request| (request, seen)))
            }
        }
    }

    /// How the framework treats read-only data, by its function and by its table.
    fn read_only(
        &self,
        table: Option<Table>,
        request: Request,
        marked: Option<Seen>,
    ) -> PyResult<ReadOnly> {
        let immutable = self.framework.immutable;
        if request == Request::Legacy {
            // The capsule cannot mark the data.
            return Ok(if immutable { ReadOnly::Immutable } else { ReadOnly::Lost });
        }
        let treated = |seen: Option<Seen>| match seen {
            None => ReadOnly::Lost,
            Some(Seen { shared: false, .. }) => ReadOnly::Copied,
            Some(_) if immutable => ReadOnly::Immutable,
            Some(Seen { read_only: true, .. }) => ReadOnly::Kept,
            Some(_) => ReadOnly::Lost,
        };
        let by_function = treated(marked);
        let Some(table) = table.filter(|_| by_function != ReadOnly::Lost) else {
            return Ok(by_function);
        };
        let tensor = PyTensor::from(self.tensor(0, &SHAPE, true)?);
        let result = exchange_table::export(self.function.py(), table, &tensor);
        Ok(match treated(self.look(result, tensor.tensor())?) {
            ReadOnly::Lost => ReadOnly::Lost,
            _ => by_function,
        })
    }

    /// The most general strides that the framework shares, within its limit.
    fn layout(&self, request: Request) -> PyResult<Layout> {
        let limit = self.framework.layout_limit;
        let gaps = |tensor: Tensor| tensor.step_by(1, 2).map_err(to_py_err);
        for (layout, tensor) in [
            (Layout::Any, gaps(self.backwards(&[2, 6])?)?),
            (Layout::NonNegative, gaps(self.tensor(0, &[2, 6], false)?)?),
            (Layout::Compact, self.tensor(0, &SHAPE, false)?.transpose()),
        ] {
            if limit <= layout && self.shares(tensor, request)? {
                return Ok(layout);
            }
        }
        Ok(Layout::C)
    }

    /// The smallest alignment that makes the framework share data, within its limit; 1 if it needs none.
    fn align(&self, request: Request) -> PyResult<usize> {
        let limit = self.framework.align_limit;
        let is_enough = |align: usize| match align >= limit {
            true => self.shares(self.tensor(align, &SHAPE, false)?, request),
            false => Ok(false),
        };
        if is_enough(16)? {
            return Ok(if is_enough(1)? { 1 } else { 16 });
        }
        Ok(if is_enough(64)? { 64 } else { 256 })
    }

    /// Elements that begin `offset` bytes behind a multiple of 256.
    fn tensor(&self, offset: usize, shape: &[usize], read_only: bool) -> PyResult<Tensor> {
        let bytes = offset..offset + 4 * shape.iter().product::<usize>();
        let bytes = self.memory.share().slice(0, bytes).map_err(to_py_err)?.into_shared();
        bytes::with_shape(&bytes, read_only, (DataType::FLOAT32, false), shape).map_err(to_py_err)
    }

    /// Elements with a negative stride in the first dimension.
    fn backwards(&self, shape: &[usize]) -> PyResult<Tensor> {
        self.tensor(0, shape, false)?.flip(0).map_err(to_py_err)
    }

    fn shares(&self, tensor: Tensor, request: Request) -> PyResult<bool> {
        Ok(self.try_out(tensor, request)?.is_some_and(|seen| seen.shared))
    }

    /// Describes the result of the framework's function; `None` if it fails.
    fn try_out(&self, tensor: Tensor, request: Request) -> PyResult<Option<Seen>> {
        let tensor = &TensorObject::new(self.function.py(), tensor)?;
        let input = Input { tensor, may_copy: true, request };
        self.look((self.framework.enter)(self.function, &input), tensor.get().tensor())
    }

    /// Describes a result of the framework; `None` if it failed, or if the result cannot be imported.
    fn look(&self, result: PyResult<Bound<'py, PyAny>>, sent: &Tensor) -> PyResult<Option<Seen>> {
        let back =
            result.and_then(|result| TensorObject::import(&result, &ImportOptions::default()));
        let back = match back {
            Ok(back) => back,
            Err(error) if is_refusal(self.function.py(), &error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let this = back.get().tensor();
        let steps = |tensor: &Tensor| -> Vec<_> {
            let dims = tensor.shape().iter().zip(tensor.strides());
            dims.filter(|&(&extent, _)| extent > 1).map(|(_, &stride)| stride).collect()
        };
        let shared = this.data().addr() == sent.data().addr()
            && this.shape() == sent.shape()
            && steps(this) == steps(sent);
        Ok(Some(Seen { shared, read_only: this.is_read_only() }))
    }
}

/// Returns true for an exception that is a statement about the framework. Others may not occur again: signals, and
/// the end of the stack or of the memory, also as the cause of an exception.
fn is_refusal(py: Python<'_>, error: &PyErr) -> bool {
    let is_lasting = |error: &PyErr| {
        error.is_instance_of::<PyException>(py)
            && !error.is_instance_of::<PyRecursionError>(py)
            && !error.is_instance_of::<PyMemoryError>(py)
            && !copies::is_interrupt(py, error)
    };
    is_lasting(error) && error.cause(py).is_none_or(|cause| is_lasting(&cause))
}

/// An object with `__dlpack__` that records how a framework calls it.
#[pyclass(frozen)]
struct Recorder {
    tensor: Py<TensorObject>,
    request: Mutex<Option<Request>>,
}

#[pymethods]
impl Recorder {
    #[pyo3(signature = (**keywords))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let version = keywords.map(|all| all.get_item(intern!(py, "max_version"))).transpose()?;
        let version = version.flatten().map(|version| version.extract()).transpose()?.flatten();
        let request = match version {
            Some((major @ 1.., minor)) => Request::Versioned(major, minor),
            _ => Request::Legacy,
        };
        *self.request.lock().unwrap_or_else(PoisonError::into_inner) = Some(request);
        self.tensor.bind(py).call_method(intern!(py, "__dlpack__"), (), keywords)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        self.tensor.get().device_pair()
    }
}
