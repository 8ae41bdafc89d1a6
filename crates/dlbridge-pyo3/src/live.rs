//! Records the exports that consumers still hold, to find leaks. Off by default.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use dlbridge::Tensor;
use dlbridge::fork::ForkMutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// True while exports are recorded.
static RECORDING: AtomicBool = AtomicBool::new(false);

static EXPORTS: ForkMutex<Exports> = ForkMutex::new(Exports { next: 0, records: BTreeMap::new() });

/// The recorded exports that consumers still hold, by number.
struct Exports {
    next: u64,
    records: BTreeMap<u64, Record>,
}

#[derive(Clone)]
struct Record {
    dtype: String,
    shape: Vec<i64>,
    device: String,
    protocol: &'static str,
    since: Instant,
}

/// The record of an export, until it is dropped; empty while recording is off.
pub(crate) struct Recorded(Option<u64>);

impl Recorded {
    /// No record.
    pub(crate) const NONE: Self = Self(None);

    pub(crate) fn new(tensor: &Tensor, protocol: &'static str) -> Self {
        Self(is_recording().then(|| record(tensor, protocol)))
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            let mut live = EXPORTS.lock();
            live.records.remove(&number);
        }
    }
}

fn record(tensor: &Tensor, protocol: &'static str) -> u64 {
    let record = Record {
        dtype: tensor.dtype().to_string(),
        shape: tensor.shape().into(),
        device: tensor.device().to_string(),
        protocol,
        since: Instant::now(),
    };
    let mut live = EXPORTS.lock();
    let number = live.next;
    live.next += 1;
    live.records.insert(number, record);
    number
}

/// Returns true while exports are recorded.
pub(crate) fn is_recording() -> bool {
    cfg!(feature = "tensor-class") && RECORDING.load(Ordering::Relaxed)
}

/// Starts or stops recording exports. Returns true if they were recorded before.
#[cfg(feature = "tensor-class")]
#[pyfunction]
pub(crate) fn record_exports(on: bool) -> bool {
    RECORDING.swap(on, Ordering::Relaxed)
}

/// The exports that were recorded and that consumers still hold: a list of dictionaries with the number of the
/// export, dtype, shape, device, protocol and age in seconds.
#[cfg(feature = "tensor-class")]
#[pyfunction]
pub(crate) fn live_exports(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    // Making Python objects may run the garbage collector, and through it a deleter, which takes this lock.
    let records = EXPORTS.lock().records.clone();
    let dictionary = |(number, record): (u64, Record)| {
        let fields = PyDict::new(py);
        fields.set_item("number", number)?;
        fields.set_item("dtype", record.dtype)?;
        fields.set_item("shape", PyTuple::new(py, record.shape)?)?;
        fields.set_item("device", record.device)?;
        fields.set_item("protocol", record.protocol)?;
        fields.set_item("age", record.since.elapsed().as_secs_f64())?;
        Ok(fields)
    };
    records.into_iter().map(dictionary).collect()
}
