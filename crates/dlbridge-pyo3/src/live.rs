//! What of our tensors is lent at the moment, for those who look for leaks. Nothing is recorded
//! unless somebody asked for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use dlbridge::Tensor;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

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
        let number = is_recording().then(|| record(tensor, door));
        Self { _tensor: Arc::clone(tensor), number }
    }

    /// What keeps the tensor alive for another one of ours, which is no export.
    pub(crate) fn unrecorded(tensor: &Arc<Tensor>) -> Self {
        Self { _tensor: Arc::clone(tensor), number: None }
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

/// Whether exports are recorded now.
pub(crate) fn is_recording() -> bool {
    RECORDING.load(Ordering::Relaxed)
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
