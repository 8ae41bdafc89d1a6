//! Arguments and results that are points or spans of time.

use dlbridge_pyo3::dlbridge::{
    Datetime64, Days, Element, Hours, Microseconds, Milliseconds, Minutes, Nanoseconds, Seconds,
    Tensor, TimeUnit, Timedelta64, Weeks,
};
use dlbridge_pyo3::{
    AllowCast, AllowCopy, COrder, DYNAMIC, FortranOrder, IntoNumpy, Like, Numpy, OneOf,
    PyReadonlyTensor, PyReadwriteTensor, PyTensor, dispatch,
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

#[pyfunction]
pub(crate) fn milliseconds(
    x: PyReadonlyTensor<'_, Timedelta64<Milliseconds>, 1>,
) -> Vec<Option<i64>> {
    x.iter().map(|time| time.count()).collect()
}

/// Adds one day to dates in place; NaT stays.
#[pyfunction]
pub(crate) fn next_day(mut dates: PyReadwriteTensor<'_, Datetime64<Days>, 1>) {
    for date in dates.iter_mut() {
        *date = date.count().map_or(Datetime64::NAT, |day| Datetime64::new(day + 1));
    }
}

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

#[pyfunction]
pub(crate) fn same_times(
    x: PyReadonlyTensor<'_, Datetime64<Nanoseconds>, 1>,
) -> Numpy<Datetime64<Nanoseconds>, 1> {
    Numpy::from(x.iter().copied().collect::<Vec<_>>())
}

/// The beginning of 1970 as a tensor. DLPack has no dtype for it.
#[pyfunction]
pub(crate) fn epoch() -> PyTensor {
    PyTensor::from(vec![Datetime64::<Seconds>::new(0)])
}

type AnyUnit = OneOf<(
    Datetime64<Nanoseconds>,
    Datetime64<Microseconds>,
    Datetime64<Milliseconds>,
    Datetime64<Seconds>,
    Datetime64<Minutes>,
    Datetime64<Hours>,
    Datetime64<Days>,
    Datetime64<Weeks>,
)>;

type DaysOrMilliseconds = OneOf<(Datetime64<Days>, Datetime64<Milliseconds>)>;

type AnySpan = OneOf<(Timedelta64<Nanoseconds>, Timedelta64<Microseconds>, Timedelta64<Days>)>;

/// Results for times of any unit: the name of their dtype, their counts, and the same times as a result of the caller's library.
fn described<'py, T: Element>(
    name: &'static str,
    x: &Bound<'py, PyAny>,
    elements: Vec<T>,
    count: impl Fn(&T) -> Option<i64>,
) -> (&'static str, Vec<Option<i64>>, Like<'py>) {
    let counts = elements.iter().map(count).collect();
    (name, counts, Like::times(x, Numpy::<_, 1>::from(elements)))
}

/// The unit of points of time, their counts, and the same points as a result of the caller's library.
#[pyfunction]
pub(crate) fn points_of_any_unit<'py>(
    x: PyReadonlyTensor<'py, AnyUnit, 1, AllowCopy>,
) -> (&'static str, Vec<Option<i64>>, Like<'py>) {
    dispatch!(T in (
        Datetime64<Nanoseconds>, Datetime64<Microseconds>, Datetime64<Milliseconds>, Datetime64<Seconds>,
        Datetime64<Minutes>, Datetime64<Hours>, Datetime64<Days>, Datetime64<Weeks>
    ), x => described(T::NAME, x.object(), x.view().to_vec(), |time| time.count()))
}

#[pyfunction]
pub(crate) fn spans_of_any_unit<'py>(
    x: PyReadonlyTensor<'py, AnySpan, 1, AllowCopy>,
) -> (&'static str, Vec<Option<i64>>, Like<'py>) {
    dispatch!(T in (Timedelta64<Nanoseconds>, Timedelta64<Microseconds>, Timedelta64<Days>), x => {
        described(T::NAME, x.object(), x.view().to_vec(), |span| span.count())
    })
}

#[pyfunction]
pub(crate) fn hour_like<'py>(x: &Bound<'py, PyAny>) -> Like<'py> {
    Like::times(x, Numpy::<_, 1>::from(vec![Datetime64::<Hours>::new(1)]))
}

#[pyfunction]
pub(crate) fn day_like<'py>(x: &Bound<'py, PyAny>) -> Like<'py> {
    Like::times(x, Numpy::<_, 1>::from(vec![Timedelta64::<Days>::new(1)]))
}

#[pyfunction]
pub(crate) fn cast_to_seconds(
    x: PyReadonlyTensor<'_, Datetime64<Seconds>, DYNAMIC, AllowCast>,
) -> (Vec<Option<i64>>, bool) {
    (x.iter().map(|time| time.count()).collect(), !x.is_borrowed())
}

/// The counts in nanoseconds of spans of time in any unit, column by column.
#[pyfunction]
pub(crate) fn cast_to_nanoseconds(
    x: PyReadonlyTensor<'_, Timedelta64<Nanoseconds>, 2, (FortranOrder, AllowCast)>,
) -> Vec<Option<i64>> {
    x.view().transpose().iter().map(|span| span.count()).collect()
}

/// Which of two dtypes points of time are converted to.
#[pyfunction]
pub(crate) fn cast_to_days_or_milliseconds(
    x: PyReadonlyTensor<'_, DaysOrMilliseconds, 1, AllowCast>,
) -> &'static str {
    dispatch!(T in (Datetime64<Days>, Datetime64<Milliseconds>), x => {
        let _: &T = &x.view()[0];
        T::NAME
    })
}

fn counted<U: TimeUnit>() -> Vec<Datetime64<U>> {
    vec![Datetime64::new(7), Datetime64::NAT]
}

/// Times as results of every type that a vector of them can have.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "what is tested")]
pub(crate) fn times_in_results() -> PyResult<(
    Numpy<Datetime64<Days>, 1>,
    Option<Numpy<Timedelta64<Hours>, 1>>,
    Vec<Numpy<Datetime64<Minutes>, 1>>,
    Numpy<Datetime64<Weeks>, 2>,
    Numpy<Datetime64<Seconds>, 2>,
)> {
    let days = Numpy::try_from(Tensor::from(counted::<Days>()))?;
    let hours = Numpy::from(vec![Timedelta64::new(7), Timedelta64::NAT]);
    let rows = Numpy::from(vec![[Datetime64::new(7), Datetime64::NAT]]);
    let matrix = ndarray::arr2(&[[Datetime64::new(7)], [Datetime64::NAT]]);
    Ok((days, Some(hours), vec![counted().into()], rows, matrix.reversed_axes().into()))
}

/// Times whose type does not have their unit.
#[pyfunction]
pub(crate) fn times_into_numpy(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    counted::<Days>().into_numpy(py)
}
