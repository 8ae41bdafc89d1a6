//! The dtypes that a framework misreads, found when the first tensor of a dtype is exported to it.

use std::sync::atomic::{AtomicU8, Ordering};

use dlbridge::DataType;
use pyo3::prelude::*;

use super::probe::Probe;
use crate::PyTensor;
use crate::frameworks::Request;

/// The dtypes to probe, the most common first.
const DTYPES: [DataType; 15] = [
    DataType::FLOAT32,
    DataType::FLOAT64,
    DataType::INT64,
    DataType::UINT8,
    DataType::INT32,
    DataType::BOOL,
    DataType::FLOAT16,
    DataType::BFLOAT16,
    DataType::INT8,
    DataType::INT16,
    DataType::UINT16,
    DataType::UINT32,
    DataType::UINT64,
    DataType::COMPLEX64,
    DataType::COMPLEX128,
];

fn index(dtype: DataType) -> Option<usize> {
    DTYPES.iter().position(|&known| known == dtype)
}

/// A dtype that was not probed yet.
const UNKNOWN: u8 = 0;
/// A dtype that the framework reads correctly.
const RIGHT: u8 = 1;
/// A dtype that it reads as the first of [`DTYPES`]; the next number means the second.
const WRONG: u8 = 2;

/// How a framework reads each of [`DTYPES`].
pub(super) struct Readings([AtomicU8; DTYPES.len()]);

impl Readings {
    pub(super) const fn new() -> Self {
        Self([const { AtomicU8::new(UNKNOWN) }; DTYPES.len()])
    }

    /// The dtype that the framework reads elements of another one as; `None` if it reads them correctly.
    ///
    /// `probe` is called for the first tensor of a dtype. Two threads may find the same twice. If the probe does not
    /// show how the dtype is read, `stated` holds for this tensor, and the next tensor is probed again.
    pub(super) fn misread<'a, 'py: 'a>(
        &self,
        dtype: DataType,
        request: Request,
        stated: Option<DataType>,
        probe: impl FnOnce() -> PyResult<Probe<'a, 'py>>,
    ) -> PyResult<Option<DataType>> {
        let Some(reading) = index(dtype).map(|index| &self.0[index]) else { return Ok(None) };
        let known = match reading.load(Ordering::Relaxed) {
            UNKNOWN => {
                let Some(read) = read(&probe()?, dtype, request)? else { return Ok(stated) };
                let wrong = index(read).filter(|_| read != dtype);
                let found = wrong.map_or(RIGHT, |index| WRONG + index as u8);
                reading.store(found, Ordering::Relaxed);
                found
            }
            known => known,
        };
        Ok(known.checked_sub(WRONG).map(|index| DTYPES[usize::from(index)]))
    }

    /// The misread dtypes found so far, each with the dtype that it is read as.
    pub(super) fn known(&self) -> impl Iterator<Item = (DataType, DataType)> {
        DTYPES.into_iter().zip(&self.0).filter_map(|(dtype, reading)| {
            let other = reading.load(Ordering::Relaxed).checked_sub(WRONG)?;
            Some((dtype, DTYPES[usize::from(other)]))
        })
    }
}

/// The dtype that a framework reads elements as; `None` if its result does not show that. If the framework refuses
/// the probe, its exception is passed on: it refuses the tensor too.
#[cold]
fn read(probe: &Probe<'_, '_>, dtype: DataType, request: Request) -> PyResult<Option<DataType>> {
    let tensor = probe.tensor(0, (dtype, &[2]), false)?;
    let tensor = Bound::new(probe.function.py(), PyTensor::from(tensor))?;
    let result = probe.enter(&tensor, request)?;
    match probe.unless_refused(named(&result))?.flatten() {
        Some(named) => Ok(Some(named)),
        None => Ok(probe.look(Some(&result), tensor.get().tensor())?.map(|seen| seen.dtype)),
    }
}

/// The dtype that an object names, like `paddle.bfloat16`. It may export another one.
fn named(object: &Bound<'_, PyAny>) -> PyResult<Option<DataType>> {
    let Some(dtype) = object.getattr_opt(intern!(object.py(), "dtype"))? else { return Ok(None) };
    let text = dtype.str()?;
    let text = text.to_cow()?;
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let last = words.rfind(|word| !word.is_empty());
    Ok(last.and_then(|word| word.parse().ok()))
}
