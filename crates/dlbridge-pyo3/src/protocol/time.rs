//! Points and spans of time, which are counts of a unit. Only the dtypes of NumPy, pandas and Arrow name the unit.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use dlbridge::{
    DataType, Datetime64, Days, Element, Hours, Microseconds, Milliseconds, Minutes, Nanoseconds,
    RawParts, Seconds, Tensor, TimeUnit, Weeks,
};
use pyo3::prelude::*;

use crate::python::error::{to_py_err, type_name, with_article};

/// The accepted times.
pub struct Times {
    /// NumPy's names for the accepted dtypes.
    pub(crate) names: Cow<'static, [&'static str]>,
    /// True if nulls are converted to `NaT`, by a copy.
    pub fill: bool,
    /// `None` if units are not converted; `Some(true)` if conversion to longer units is allowed too.
    pub(crate) casts: Option<bool>,
    /// The dtype that the elements are converted to.
    chosen: RefCell<Option<Chosen>>,
    /// The elements that were found instead, and what to do.
    found: RefCell<Option<String>>,
}

impl Times {
    pub fn new(
        names: impl Into<Cow<'static, [&'static str]>>,
        fill: bool,
        casts: Option<bool>,
    ) -> Self {
        let names = names.into();
        Self { names, fill, casts, chosen: RefCell::new(None), found: RefCell::new(None) }
    }

    /// Chooses the dtype for elements; false if none of the accepted dtypes fits.
    pub fn choose(&self, found: Elements<'_>) -> bool {
        let Elements::Named(found) = found else { return false };
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
    pub fn chosen(&self) -> Option<Chosen> {
        self.chosen.take()
    }

    /// The first accepted dtype.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// Records an object that is neither an array nor a column.
    pub fn set_no_column(&self, object: &Bound<'_, PyAny>) {
        let name = with_article(&type_name(object));
        self.set_found(format!(
            "{name}, which is not an array or column with a unit of time; pass a NumPy array, or a column of pandas, polars \
             or pyarrow"
        ));
    }

    /// The name of elements that are not accepted, and how to convert them.
    pub fn with_remedy(&self, found: &Elements<'_>, order: &str) -> String {
        let kind = |name: &str| name.split('[').next().map(str::to_owned);
        let kind_found = match found {
            Elements::Named(found) => kind(found),
            Elements::Dates => Some("datetime64".to_owned()),
            Elements::Format(_) => None,
        };
        let name = self.closest(found, kind_found.as_deref());
        match found {
            Elements::Named("int64") => {
                format!(
                    "int64{order}; pass numpy.asarray(x).view('{name}') if its elements are such counts"
                )
            }
            // Points convert to points, and spans to spans. NumPy converts the columns of all libraries, and null to
            // NaT.
            _ if kind_found == kind(name) => {
                format!("{found}{order}; convert it with numpy.asarray(x).astype('{name}')")
            }
            Elements::Format(format) if format.starts_with("+s") => {
                format!("{found}; take one column of it first")
            }
            Elements::Format(format) if format.starts_with('+') => {
                format!("{found}, which is a list; take its values first")
            }
            Elements::Format(_) => format!("{found}; cast the column first"),
            _ => format!("{found}{order}"),
        }
    }

    /// The accepted dtype that has the values of the elements: their own, or one with a shorter unit. For years, months and
    /// dates, which are whole days and would overflow a short unit, the one with the longest unit of at most a day.
    fn closest(&self, found: &Elements<'_>, kind: Option<&str>) -> &'static str {
        let nanoseconds = |name: &str| unit(name).map(|(_, nanoseconds)| nanoseconds);
        let mut names = self.names.iter().copied();
        let closest = match found {
            Elements::Named(found) if self.names.contains(found) => {
                names.find(|name| name == found)
            }
            Elements::Named(found) if nanoseconds(found).is_some() => {
                names.find(|name| Scale::new(found, name).is_some_and(|scale| scale.divisor == 1))
            }
            _ => names
                .filter(|name| name.split('[').next() == kind)
                .filter(|name| nanoseconds(name) <= Some(Days::NANOSECONDS))
                .max_by_key(|name| nanoseconds(name)),
        };
        closest.unwrap_or(self.name())
    }

    /// The elements that were found instead, and what to do; `None` if an import failed for another reason.
    pub fn found(&self) -> Option<String> {
        self.found.take()
    }

    pub fn set_found(&self, found: String) {
        self.found.replace(Some(found));
    }
}

/// Elements as their producer describes them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Elements<'a> {
    /// Elements that have a dtype in NumPy, by its name.
    Named(&'a str),
    /// Arrow's dates, which count days in 32 bits.
    Dates,
    /// Other elements, by their format in Arrow.
    Format(&'a str),
}

impl fmt::Display for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Dates => f.write_str("dates of 32 bits"),
            Self::Format(format) => write!(f, "elements of the Arrow format '{format}'"),
        }
    }
}

/// The result for times.
pub struct Chosen {
    /// NumPy's name for the dtype.
    pub(crate) name: &'static str,
    /// NumPy's name for the times that were found.
    pub found: String,
    pub(crate) scale: Scale,
}

/// The factor and the divisor of a conversion.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) multiplier: i64,
    pub(crate) divisor: i64,
}

impl Scale {
    /// The conversion between the units of two dtypes; `None` between points and spans, and for units that the
    /// elements do not have.
    fn new(from: &str, to: &str) -> Option<Self> {
        let (kind, from) = unit(from)?;
        let (other, to) = unit(to)?;
        // Each unit is a multiple of all shorter ones.
        (kind == other)
            .then(|| Self { multiplier: (from / to).max(1), divisor: (to / from).max(1) })
    }

    pub(crate) fn is_one(self) -> bool {
        (self.multiplier, self.divisor) == (1, 1)
    }
}

/// NumPy's names for the points and spans of each unit, and its length in nanoseconds.
const UNITS: [(&str, &str, i64); 8] = {
    macro_rules! units {
        ($($unit:ty),+) => {
            [$((<$unit>::DATETIME64, <$unit>::TIMEDELTA64, <$unit>::NANOSECONDS)),+]
        };
    }
    units!(Nanoseconds, Microseconds, Milliseconds, Seconds, Minutes, Hours, Days, Weeks)
};

/// The dtype of times with a name.
pub fn named(name: &str) -> Option<&'static str> {
    let mut names = UNITS.iter().flat_map(|&(points, spans, _)| [points, spans]);
    names.find(|known| *known == name)
}

/// The kind of the times of a dtype, and their unit in nanoseconds.
pub fn unit(name: &str) -> Option<(&str, i64)> {
    let (kind, _) = name.split_once('[')?;
    let (.., nanoseconds) =
        UNITS.iter().find(|(points, spans, _)| *points == name || *spans == name)?;
    Some((kind, *nanoseconds))
}

/// The counts of a tensor of times, as integers.
pub(crate) fn counts_of_times(times: Tensor) -> PyResult<Tensor> {
    assert_eq!(times.dtype(), Datetime64::<Seconds>::DATA_TYPE, "the elements are not times");
    relabelled(times, DataType::INT64)
}

/// A tensor of times as one of 64-bit integers, or the reverse.
pub(crate) fn relabelled(tensor: Tensor, dtype: DataType) -> PyResult<Tensor> {
    let parts = RawParts {
        device: tensor.device(),
        access: tensor.access(),
        byte_offset: tensor.byte_offset(),
        ..RawParts::new(tensor.data(), dtype)
    };
    let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
    // SAFETY: the tensor's own metadata, and the new tensor owns it; both dtypes have 64 bits, and any bits are a
    // value.
    let relabelled = unsafe { Tensor::from_raw_parts(tensor, parts, &shape, Some(&strides[..])) };
    relabelled.map_err(to_py_err)
}
