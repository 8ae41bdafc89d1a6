//! pandas: columns and tables, which enter as arrays of NumPy.

use dlbridge::DataType;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::dtypes::{is_complex, is_plain};
use super::framework::{Argument, Behaviour, FRAMEWORK, Framework, Offer};

pub(super) static PANDAS: Framework = Framework {
    name: "pandas",
    aliases: &["pd"],
    module: "pandas",
    function: "Series",
    argument: Argument::Table,
    enter,
    measured: false,
    stated: Behaviour::FREE,
    cpu_only: true,
    min_ndim: 1,
    max_ndim: 2,
    takes: |dtype| is_plain(dtype) || is_complex(dtype) || dtype == DataType::BOOL,
    counts_bytes: false,
    ..FRAMEWORK
};

/// A `Series`, or a `DataFrame` of two dimensions.
fn enter<'py>(series: &Bound<'py, PyAny>, offer: &dyn Offer<'py>) -> PyResult<Bound<'py, PyAny>> {
    let (py, array) = (series.py(), offer.array()?);
    let class = match offer.tensor().ndim() {
        1 => series.clone(),
        _ => py.import(intern!(py, "pandas"))?.getattr(intern!(py, "DataFrame"))?,
    };
    let options = PyDict::new(py);
    options.set_item(intern!(py, "copy"), false)?;
    class.call((array,), Some(&options))
}
