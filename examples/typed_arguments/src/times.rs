//! Arguments and results that are points or spans of time.

use dlbridge_pyo3::dlbridge::{Datetime64, Days, Milliseconds, Nanoseconds, Seconds, Timedelta64};
use dlbridge_pyo3::{
    AllowCopy, COrder, DYNAMIC, Numpy, PyReadonlyTensor, PyReadwriteTensor, PyTensor,
};
use pyo3::prelude::*;

/// The counts of points of time in nanoseconds, `None` for NaT.
#[pyfunction]
pub(crate) fn nanoseconds(
    x: PyReadonlyTensor<'_, Datetime64<Nanoseconds>, DYNAMIC>,
) -> Vec<Option<i64>> {
    x.iter().map(|time| time.count()).collect()
}

/// The same, and whether they were copied.
#[pyfunction]
pub(crate) fn nanoseconds_of_anything(
    x: PyReadonlyTensor<'_, Datetime64<Nanoseconds>, 1, (COrder, AllowCopy)>,
) -> (Vec<Option<i64>>, bool) {
    (x.slice().iter().map(|time| time.count()).collect(), !x.is_borrowed())
}

/// The counts of spans of time in milliseconds.
#[pyfunction]
pub(crate) fn milliseconds(
    x: PyReadonlyTensor<'_, Timedelta64<Milliseconds>, 1>,
) -> Vec<Option<i64>> {
    x.iter().map(|time| time.count()).collect()
}

/// Makes dates one day later, where they are; NaT stays.
#[pyfunction]
pub(crate) fn next_day(mut dates: PyReadwriteTensor<'_, Datetime64<Days>, 1>) {
    for date in dates.iter_mut() {
        *date = date.count().map_or(Datetime64::NAT, |day| Datetime64::new(day + 1));
    }
}

/// The spans between neighbours.
#[pyfunction]
pub(crate) fn gaps(
    x: PyReadonlyTensor<'_, Datetime64<Seconds>, 1, COrder>,
) -> Numpy<Timedelta64<Seconds>, 1> {
    let gap = |pair: &[Datetime64<Seconds>]| {
        let gap = pair[0]
            .count()
            .zip(pair[1].count())
            .and_then(|(first, second)| second.checked_sub(first));
        gap.map_or(Timedelta64::NAT, Timedelta64::new)
    };
    Numpy::from(x.slice().windows(2).map(gap).collect::<Vec<_>>())
}

/// The same points of time.
#[pyfunction]
pub(crate) fn same_times(
    x: PyReadonlyTensor<'_, Datetime64<Nanoseconds>, 1>,
) -> Numpy<Datetime64<Nanoseconds>, 1> {
    Numpy::from(x.iter().copied().collect::<Vec<_>>())
}

/// The beginning of 1970, as a tensor of any library: none has a dtype for it.
#[pyfunction]
pub(crate) fn epoch() -> PyTensor {
    PyTensor::from(vec![Datetime64::<Seconds>::new(0)])
}
