//! Points and spans of time, which are counts of a unit. Only the dtypes of NumPy, pandas and Arrow say which unit.

use std::cell::RefCell;

use pyo3::prelude::*;

use super::kind::{self, is_instance};
use super::lacking::{Lacking, Method};
use super::{Imported, arrow, caveats, ladder, memory, pandas};
use crate::error::type_name;
use crate::wanted::Wanted;

/// The times that are wanted.
pub(crate) struct Times {
    /// NumPy's name for their dtype.
    pub(super) name: &'static str,
    /// True if nulls become `NaT`, by a copy.
    pub(super) fill: bool,
    /// The elements that were found instead, and what to do.
    found: RefCell<Option<String>>,
}

impl Times {
    pub(crate) fn new(name: &'static str, fill: bool) -> Self {
        Self { name, fill, found: RefCell::new(None) }
    }

    /// The elements that were found instead, and what to do; `None` if an import failed for another reason.
    pub(crate) fn found(&self) -> Option<String> {
        self.found.take()
    }

    pub(super) fn set_found(&self, found: String) {
        self.found.replace(Some(found));
    }
}

/// Imports times, with the object that has their memory; `None` for an object whose elements are others.
pub(crate) fn import<'py>(
    object: &Bound<'py, PyAny>,
    times: &Times,
) -> PyResult<Option<(Imported, Bound<'py, PyAny>)>> {
    let py = object.py();
    let kind = kind::of(object)?;
    caveats::check_before(object, &kind.caveats)?;
    let is_index = is_instance(object, intern!(py, "pandas"), intern!(py, "Index"))?;
    let is_column = kind.caveats.series || is_index;
    let array = match () {
        () if kind.numpy_array => Some(object.clone()),
        () if is_column && pandas::has_numpy_dtype(object)? => {
            Some(object.call_method0(intern!(py, "to_numpy"))?)
        }
        () => None,
    };
    if let Some(array) = array {
        if !is_wanted(&array, times)? {
            return Ok(None);
        }
        let counts = array.call_method1(intern!(py, "view"), (intern!(py, "int64"),))?;
        let imported = ladder::by_ladder(&counts, &Wanted::default())?;
        return Ok(Some((as_times(imported)?, counts)));
    }
    if is_index {
        let zone = object.getattr_opt(intern!(py, "tz"))?.filter(|zone| !zone.is_none());
        if let Some(zone) = zone {
            times.set_found(format!(
                "times with the zone {zone}; take the zone away first with x.tz_convert(None)"
            ));
            return Ok(None);
        }
    }
    // A tensor exports its counts as integers.
    let is_tensor = super::is_ours(object);
    let lacking = if is_tensor { Lacking::ALL } else { kind.lacking.now(py)? };
    let has = |method: Method| Ok::<_, PyErr>(method.of(object, lacking)?.is_some());
    if has(Method::ArrowArray)? || has(Method::ArrowDeviceArray)? || has(Method::ArrowStream)? {
        let imported = arrow::import_times(object, &kind, lacking, times);
        let imported =
            imported.map_err(|error| caveats::explained(object, &kind.caveats, error))?;
        return imported.map(|imported| Ok((as_times(imported)?, object.clone()))).transpose();
    }
    let name = type_name(object);
    times.set_found(format!(
        "a {name}, which is no array or column with a unit of time; pass an array of NumPy, or a column of pandas, polars \
         or pyarrow"
    ));
    Ok(None)
}

fn as_times(imported: Imported) -> PyResult<Imported> {
    Ok(Imported { tensor: memory::as_times(imported.tensor)?, ..imported })
}

/// Returns true if the dtype of an array is the one that is wanted; otherwise records what it is.
fn is_wanted(array: &Bound<'_, PyAny>, times: &Times) -> PyResult<bool> {
    let py = array.py();
    let dtype = array.getattr(intern!(py, "dtype"))?;
    let found: String = dtype.getattr(intern!(py, "name"))?.extract()?;
    let native = dtype.getattr(intern!(py, "isnative"))?.is_truthy()?;
    if found == times.name && native {
        return Ok(true);
    }
    let name = times.name;
    times.set_found(match found.as_str() {
        "int64" => format!("int64; pass x.view('{name}') if its elements are such counts"),
        _ if found == name => {
            format!("{found} in the other byte order; convert it with x.astype('{name}')")
        }
        // Points to points, spans to spans.
        _ if found.split('[').next() == name.split('[').next() => {
            format!("{found}; convert it with x.astype('{name}')")
        }
        _ => found,
    });
    Ok(false)
}
