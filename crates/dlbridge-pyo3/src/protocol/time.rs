//! Points and spans of time, which are counts of a unit. Only the dtypes of NumPy, pandas and Arrow say which unit.

use std::cell::RefCell;

use dlbridge::{
    Days, Hours, Microseconds, Milliseconds, Minutes, Nanoseconds, Seconds, TimeUnit, Weeks,
};

use pyo3::prelude::*;

use super::kind::{self, is_instance};
use super::lacking::{Lacking, Method};
use super::{Imported, Protocol, arrow, caveats, ladder, memory, numpy_api, pandas};
use crate::error::{type_name, with_article};
use crate::wanted::Wanted;

/// The times that are wanted.
pub(crate) struct Times {
    /// NumPy's names for the dtypes that are accepted.
    names: &'static [&'static str],
    /// True if nulls become `NaT`, by a copy.
    pub(super) fill: bool,
    /// If units are converted: true if also to longer ones.
    casts: Option<bool>,
    /// What the elements become.
    chosen: RefCell<Option<Chosen>>,
    /// The elements that were found instead, and what to do.
    found: RefCell<Option<String>>,
}

impl Times {
    pub(crate) fn new(names: &'static [&'static str], fill: bool, casts: Option<bool>) -> Self {
        Self { names, fill, casts, chosen: RefCell::new(None), found: RefCell::new(None) }
    }

    /// Chooses what elements become whose dtype has this name in NumPy; false if they become none of the dtypes.
    pub(super) fn choose(&self, found: &str) -> bool {
        let one = Scale { multiplier: 1, divisor: 1 };
        let same = self.names.iter().find(|&&name| name == found).map(|name| (*name, one));
        let chosen = same.or_else(|| {
            let long = self.casts?;
            let scaled = |name: &&'static str| Some((*name, Scale::new(found, name)?));
            let mut all = self.names.iter().filter_map(scaled);
            let first = all.clone().find(|(_, scale)| scale.divisor == 1);
            first.or_else(|| all.next().filter(|_| long))
        });
        let Some((name, scale)) = chosen else { return false };
        self.chosen.replace(Some(Chosen { name, found: found.to_owned(), scale }));
        true
    }

    /// The elements of an import that succeeded.
    pub(crate) fn chosen(&self) -> Option<Chosen> {
        self.chosen.take()
    }

    /// The first of the dtypes that are accepted.
    pub(super) fn name(&self) -> &'static str {
        self.names[0]
    }

    /// The name of elements that are not accepted, and how they become such.
    pub(super) fn with_remedy(&self, found: &str, order: &str) -> String {
        let name = self.name();
        let kind = |name: &str| name.split('[').next().map(str::to_owned);
        let kind_found = match found {
            DATES => Some("datetime64".to_owned()),
            _ => kind(found),
        };
        match found {
            "int64" => {
                format!(
                    "int64{order}; pass numpy.asarray(x).view('{name}') if its elements are such counts"
                )
            }
            // Points to points, spans to spans. NumPy converts the columns of all libraries, and null to NaT.
            _ if kind_found == kind(name) => {
                format!("{found}{order}; convert it with numpy.asarray(x).astype('{name}')")
            }
            _ if found.starts_with("elements") => format!("{found}; cast the column first"),
            _ => format!("{found}{order}"),
        }
    }

    /// The elements that were found instead, and what to do; `None` if an import failed for another reason.
    pub(crate) fn found(&self) -> Option<String> {
        self.found.take()
    }

    pub(super) fn set_found(&self, found: String) {
        self.found.replace(Some(found));
    }
}

/// Dates of Arrow, which count days in 32 bits.
pub(super) const DATES: &str = "dates of 32 bits";

/// The result for times.
pub(crate) struct Chosen {
    /// NumPy's name for the dtype.
    pub(crate) name: &'static str,
    /// The same, of the times that were found.
    pub(crate) found: String,
    pub(crate) scale: Scale,
}

/// By what a count is multiplied and then divided.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) multiplier: i64,
    pub(crate) divisor: i64,
}

impl Scale {
    /// Between the units of two dtypes; `None` for points and spans, and for units that the elements do not have.
    fn new(from: &str, to: &str) -> Option<Self> {
        let (kind, from) = unit(from)?;
        let (other, to) = unit(to)?;
        // Each unit is a multiple of the shorter ones.
        (kind == other)
            .then(|| Self { multiplier: (from / to).max(1), divisor: (to / from).max(1) })
    }

    pub(crate) fn is_one(self) -> bool {
        (self.multiplier, self.divisor) == (1, 1)
    }
}

/// The kind of the times of a dtype, and their unit in nanoseconds.
fn unit(name: &str) -> Option<(&str, i64)> {
    macro_rules! units {
        ($($unit:ty),+) => {
            [$((<$unit>::DATETIME64, <$unit>::NANOSECONDS)),+]
        };
    }
    let units =
        units!(Nanoseconds, Microseconds, Milliseconds, Seconds, Minutes, Hours, Days, Weeks);
    let (kind, letters) = name.split_once('[')?;
    let same = |other: &str| other.split_once('[').is_some_and(|(_, other)| other == letters);
    Some((kind, units.into_iter().find(|(name, _)| same(name))?.1))
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
        let array = plain(array)?;
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
        let imported = match cfg!(feature = "arrow") {
            true => arrow::import_times(object, &kind, lacking, times),
            false => Err(Protocol::Arrow.left_out(object)),
        };
        let imported =
            imported.map_err(|error| caveats::explained(object, &kind.caveats, error))?;
        return imported.map(|imported| Ok((as_times(imported)?, object.clone()))).transpose();
    }
    let name = with_article(&type_name(object));
    times.set_found(format!(
        "{name}, which is no array or column with a unit of time; pass an array of NumPy, or a column of pandas, polars \
         or pyarrow"
    ));
    Ok(None)
}

/// An array as one of NumPy's own class: a subclass may have another `dtype`, and another method `view`.
fn plain(array: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = array.py();
    if kind::of(&array)?.head.is_some() {
        return Ok(array);
    }
    match numpy_api::class(py)? {
        Some(class) => class.call_method1(intern!(py, "view"), (&array, &class)),
        None => Ok(array),
    }
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
    if native && times.choose(&found) {
        return Ok(true);
    }
    let order = if native { "" } else { " in the other byte order" };
    times.set_found(times.with_remedy(&found, order));
    Ok(false)
}
