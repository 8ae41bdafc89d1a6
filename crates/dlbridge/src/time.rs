//! Points and spans of time as elements: counts of a unit, as NumPy's datetime64 and timedelta64.
//!
//! All of them have the same dtype in DLPack, so a tensor does not keep the unit: view it with the element type that it
//! was made of.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

/// A unit of time.
///
/// ```
/// use dlbridge::{Datetime64, Nanoseconds, TimeUnit};
///
/// assert_eq!(Nanoseconds::DATETIME64, "datetime64[ns]");
/// assert_eq!(Datetime64::<Nanoseconds>::new(1_500_000_000).count(), Some(1_500_000_000));
/// ```
///
/// The trait is sealed: other crates cannot implement it.
pub trait TimeUnit: sealed::Sealed + Copy + Send + Sync + 'static {
    /// NumPy's name for the dtype of points of time.
    ///
    /// ```
    /// use dlbridge::TimeUnit;
    ///
    /// assert_eq!(dlbridge::Days::DATETIME64, "datetime64[D]");
    /// ```
    const DATETIME64: &'static str;

    /// NumPy's name for the dtype of spans of time.
    ///
    /// ```
    /// use dlbridge::TimeUnit;
    ///
    /// assert_eq!(dlbridge::Milliseconds::TIMEDELTA64, "timedelta64[ms]");
    /// ```
    const TIMEDELTA64: &'static str;

    /// The length of the unit in nanoseconds.
    ///
    /// ```
    /// use dlbridge::TimeUnit;
    ///
    /// assert_eq!(dlbridge::Microseconds::NANOSECONDS, 1000);
    /// ```
    const NANOSECONDS: i64;
}

mod sealed {
    /// Implemented in this module only.
    pub trait Sealed {}
}

macro_rules! units {
    ($($name:ident = $letter:literal, $nanoseconds:expr;)*) => {$(
        #[doc = concat!("The unit `", $letter, "` of NumPy.")]
        ///
        /// ```
        #[doc = concat!("use dlbridge::{", stringify!($name), ", TimeUnit};")]
        ///
        #[doc = concat!("assert_eq!(", stringify!($name), "::DATETIME64, \"datetime64[", $letter, "]\");")]
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {}

        impl sealed::Sealed for $name {}

        impl TimeUnit for $name {
            const DATETIME64: &'static str = concat!("datetime64[", $letter, "]");
            const TIMEDELTA64: &'static str = concat!("timedelta64[", $letter, "]");
            const NANOSECONDS: i64 = $nanoseconds;
        }
    )*};
}

units! {
    Nanoseconds = "ns", 1;
    Microseconds = "us", 1_000;
    Milliseconds = "ms", 1_000_000;
    Seconds = "s", 1_000_000_000;
    Minutes = "m", 60_000_000_000;
    Hours = "h", 3_600_000_000_000;
    Days = "D", 86_400_000_000_000;
    Weeks = "W", 604_800_000_000_000;
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident, $letter:literal, $const:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// It is an `i64` that counts units. One value, [`NAT`](Self::NAT), means "not a time". The order is that of
        /// the counts, and `NAT` comes first; unlike in NumPy, `NAT` equals itself.
        ///
        /// DLPack lacks a dtype for times, so a tensor of them has the dtype `handle64`. Other libraries refuse it, so
        /// none mistakes the counts for integers.
        ///
        /// ```
        #[doc = concat!("use dlbridge::{", stringify!($name), ", Seconds, Tensor};")]
        ///
        #[doc = concat!("let times: Vec<", stringify!($name), "<Seconds>> = vec![60.into(), ", stringify!($name), "::NAT];")]
        /// let tensor = Tensor::from(times);
        #[doc = concat!("let view = tensor.view::<", stringify!($name), "<Seconds>>()?;")]
        /// assert_eq!((view[0].count(), view[1].count()), (Some(60), None));
        /// assert_eq!(tensor.dtype().to_string(), "handle64");
        /// # Ok::<(), dlbridge::Error>(())
        /// ```
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name<U>(i64, PhantomData<fn() -> U>);

        impl<U: TimeUnit> $name<U> {
            /// Not a time: `NaT` of NumPy, and null of Arrow.
            ///
            /// ```
            #[doc = concat!("use dlbridge::{Days, ", stringify!($name), "};")]
            ///
            #[doc = concat!("assert!(", stringify!($name), "::<Days>::NAT.is_nat());")]
            /// ```
            pub const NAT: Self = Self::new(i64::MIN);

            /// NumPy's name for the dtype.
            ///
            /// ```
            #[doc = concat!("use dlbridge::{Days, ", stringify!($name), "};")]
            ///
            #[doc = concat!("assert_eq!(", stringify!($name), "::<Days>::NAME, \"", $letter, "[D]\");")]
            /// ```
            pub const NAME: &'static str = U::$const;

            /// Makes a value of `count` units; `i64::MIN` is [`NAT`](Self::NAT).
            ///
            /// ```
            #[doc = concat!("use dlbridge::{Days, ", stringify!($name), "};")]
            ///
            #[doc = concat!("assert_eq!(", stringify!($name), "::<Days>::new(3), 3.into());")]
            /// ```
            pub const fn new(count: i64) -> Self {
                Self(count, PhantomData)
            }

            /// The number of units; `None` for [`NAT`](Self::NAT).
            ///
            /// ```
            #[doc = concat!("use dlbridge::{Days, ", stringify!($name), "};")]
            ///
            #[doc = concat!("assert_eq!(", stringify!($name), "::<Days>::new(-1).count(), Some(-1));")]
            /// ```
            pub const fn count(self) -> Option<i64> {
                if self.is_nat() { None } else { Some(self.0) }
            }

            /// Returns true for [`NAT`](Self::NAT).
            ///
            /// ```
            #[doc = concat!("use dlbridge::{Days, ", stringify!($name), "};")]
            ///
            #[doc = concat!("assert!(!", stringify!($name), "::<Days>::new(0).is_nat());")]
            /// ```
            pub const fn is_nat(self) -> bool {
                self.0 == i64::MIN
            }
        }

        impl<U: TimeUnit> From<i64> for $name<U> {
            fn from(count: i64) -> Self {
                Self::new(count)
            }
        }

        impl<U: TimeUnit> fmt::Debug for $name<U> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.count() {
                    Some(count) => write!(f, "{count} as {}", Self::NAME),
                    None => f.write_str("NaT"),
                }
            }
        }
    )*};
}

counts! {
    /// A point of time: units since the beginning of 1970, without a time zone.
    Datetime64, "datetime64", DATETIME64;
    /// A span of time.
    Timedelta64, "timedelta64", TIMEDELTA64;
}

impl<U: TimeUnit> Timedelta64<U> {
    /// The span; `None` for [`NAT`](Self::NAT) and for negative spans, which a `Duration` cannot express.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use dlbridge::{Hours, Timedelta64};
    ///
    /// assert_eq!(Timedelta64::<Hours>::new(2).to_duration(), Some(Duration::from_secs(7200)));
    /// assert_eq!(Timedelta64::<Hours>::new(-2).to_duration(), None);
    /// ```
    pub fn to_duration(self) -> Option<Duration> {
        duration::<U>(self.count().filter(|count| *count >= 0)?.unsigned_abs())
    }
}

impl<U: TimeUnit> Datetime64<U> {
    /// The span since the beginning of 1970, in UTC if the elements are; `None` for [`NAT`](Self::NAT) and earlier
    /// times.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use dlbridge::{Datetime64, Days};
    ///
    /// let since = Datetime64::<Days>::new(1).since_1970();
    /// assert_eq!(since, Some(Duration::from_secs(86_400)));
    /// let time = SystemTime::UNIX_EPOCH + since.unwrap();
    /// ```
    pub fn since_1970(self) -> Option<Duration> {
        duration::<U>(self.count().filter(|count| *count >= 0)?.unsigned_abs())
    }
}

fn duration<U: TimeUnit>(count: u64) -> Option<Duration> {
    const SECOND: u128 = 1_000_000_000;
    let nanoseconds = u128::from(count) * U::NANOSECONDS.unsigned_abs() as u128;
    let seconds = u64::try_from(nanoseconds / SECOND).ok()?;
    Some(Duration::new(seconds, (nanoseconds % SECOND) as u32))
}
