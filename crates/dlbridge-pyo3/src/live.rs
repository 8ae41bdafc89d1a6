//! What of our tensors is lent at the moment, for those who look for leaks. Nothing is recorded
//! unless somebody asked for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use dlbridge::{RawParts, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error::to_py_err;

static RECORDING: AtomicBool = AtomicBool::new(false);

/// The exports that are recorded and not given back, by number.
static LIVE: Mutex<Exports> = Mutex::new(Exports { next: 0, records: BTreeMap::new() });

struct Exports {
    next: u64,
    records: BTreeMap<u64, Record>,
}

#[derive(Clone)]
struct Record {
    dtype: String,
    shape: Vec<i64>,
    device: String,
    door: &'static str,
    since: Instant,
}

/// A tensor that is lent, recorded until it is dropped if exports are recorded now.
pub(crate) struct Export {
    _tensor: Arc<Tensor>,
    number: Option<u64>,
}

impl Export {
    pub(crate) fn new(tensor: &Arc<Tensor>, door: &'static str) -> Self {
        let number = RECORDING.load(Ordering::Relaxed).then(|| record(tensor, door));
        Self { _tensor: Arc::clone(tensor), number }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
            live.records.remove(&number);
        }
    }
}

fn record(tensor: &Tensor, door: &'static str) -> u64 {
    let record = Record {
        dtype: tensor.dtype().to_string(),
        shape: tensor.shape().into(),
        device: tensor.device().to_string(),
        door,
        since: Instant::now(),
    };
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let number = live.next;
    live.next += 1;
    live.records.insert(number, record);
    number
}

/// The tensor to lend instead of `tensor`: over the same memory, and recorded until it is given
/// back. `None` if exports are not recorded.
pub(crate) fn recorded(tensor: &Arc<Tensor>, door: &'static str) -> PyResult<Option<Tensor>> {
    if !RECORDING.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let parts = RawParts {
        device: tensor.device(),
        byte_offset: tensor.byte_offset(),
        access: match tensor.is_read_only() {
            true => dlbridge::Access::ReadOnly,
            false => dlbridge::Access::Shared,
        },
        subbyte_padded: tensor.is_subbyte_padded(),
        ..RawParts::new(tensor.data(), tensor.dtype())
    };
    let export = Export::new(tensor, door);
    // SAFETY: the memory of a tensor that the owner keeps alive, as its producer described it.
    let recorded =
        unsafe { Tensor::from_raw_parts(export, parts, tensor.shape(), Some(tensor.strides())) };
    recorded.map(Some).map_err(to_py_err)
}

/// Begins or ends to record what is lent; whether it was recorded before.
#[pyfunction]
pub fn record_exports(on: bool) -> bool {
    RECORDING.swap(on, Ordering::Relaxed)
}

/// What was lent while exports were recorded, and is not given back: a list of dictionaries with the
/// number of the export, dtype, shape, device, door and age in seconds.
#[pyfunction]
pub fn live_exports(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    // Making Python objects may run the collector, and that a deleter, which takes the lock.
    let records = LIVE.lock().unwrap_or_else(PoisonError::into_inner).records.clone();
    let dictionary = |(number, record): (u64, Record)| {
        let fields = PyDict::new(py);
        fields.set_item("number", number)?;
        fields.set_item("dtype", record.dtype)?;
        fields.set_item("shape", PyTuple::new(py, record.shape)?)?;
        fields.set_item("device", record.device)?;
        fields.set_item("door", record.door)?;
        fields.set_item("age", record.since.elapsed().as_secs_f64())?;
        Ok(fields)
    };
    records.into_iter().map(dictionary).collect()
}
