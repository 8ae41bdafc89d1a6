//! Points and spans of time, which are counts of a unit. Only the dtypes of NumPy, pandas and Arrow say which unit.

use std::cell::RefCell;
use std::fmt;

use dlbridge::{
    Days, Hours, Microseconds, Milliseconds, Minutes, Nanoseconds, Seconds, TimeUnit, Weeks,
};

/// The times that are wanted.
pub(crate) struct Times {
    /// NumPy's names for the dtypes that are accepted.
    names: &'static [&'static str],
    /// True if nulls become `NaT`, by a copy.
    pub(super) fill: bool,
    /// If units are converted: true if also to longer ones.
    casts: Option<bool>,
    /// The dtype that the elements become.
    chosen: RefCell<Option<Chosen>>,
    /// The elements that were found instead, and what to do.
    found: RefCell<Option<String>>,
}

impl Times {
    pub(crate) fn new(names: &'static [&'static str], fill: bool, casts: Option<bool>) -> Self {
        Self { names, fill, casts, chosen: RefCell::new(None), found: RefCell::new(None) }
    }

    /// Chooses the dtype that elements become; false if they become none of the dtypes.
    pub(crate) fn choose(&self, found: Elements<'_>) -> bool {
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
    pub(crate) fn chosen(&self) -> Option<Chosen> {
        self.chosen.take()
    }

    /// The first of the dtypes that are accepted.
    pub(crate) fn name(&self) -> &'static str {
        self.names[0]
    }

    /// The name of elements that are not accepted, and how they become such.
    pub(crate) fn with_remedy(&self, found: &Elements<'_>, order: &str) -> String {
        let name = self.name();
        let kind = |name: &str| name.split('[').next().map(str::to_owned);
        let kind_found = match found {
            Elements::Named(found) => kind(found),
            Elements::Dates => Some("datetime64".to_owned()),
            Elements::Format(_) => None,
        };
        match found {
            Elements::Named("int64") => {
                format!(
                    "int64{order}; pass numpy.asarray(x).view('{name}') if its elements are such counts"
                )
            }
            // Points to points, spans to spans. NumPy converts the columns of all libraries, and null to NaT.
            _ if kind_found == kind(name) => {
                format!("{found}{order}; convert it with numpy.asarray(x).astype('{name}')")
            }
            Elements::Format(_) => format!("{found}; cast the column first"),
            _ => format!("{found}{order}"),
        }
    }

    /// The elements that were found instead, and what to do; `None` if an import failed for another reason.
    pub(crate) fn found(&self) -> Option<String> {
        self.found.take()
    }

    pub(crate) fn set_found(&self, found: String) {
        self.found.replace(Some(found));
    }
}

/// Elements as their producer describes them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elements<'a> {
    /// Elements that have a dtype in NumPy, by its name.
    Named(&'a str),
    /// Dates of Arrow, which count days in 32 bits.
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
