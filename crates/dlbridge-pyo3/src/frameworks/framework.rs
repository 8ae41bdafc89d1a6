//! The description of a framework.

use dlbridge::{DataType, Device, Tensor};
use pyo3::prelude::*;

/// A framework that imports tensors.
pub(crate) struct Framework {
    /// The name under which Python code requests it.
    pub(crate) name: &'static str,
    /// Alternative names.
    pub(super) aliases: &'static [&'static str],
    /// The module to import.
    pub(crate) module: &'static str,
    /// The package of its classes, if that is not the package of the module.
    pub(super) classes: Option<&'static str>,
    /// The function within the module that imports a tensor.
    pub(crate) function: &'static str,
    /// A function within the module to call before the first use.
    pub(crate) prepare: Option<&'static str>,
    /// The form of the function's argument.
    pub(crate) argument: Argument,
    /// Calls the function.
    pub(crate) enter: for<'py> fn(
        function: &Bound<'py, PyAny>,
        offer: &dyn Offer<'py>,
    ) -> PyResult<Bound<'py, PyAny>>,
    /// The class within the module that carries the C exchange API.
    pub(crate) table_of: Option<&'static str>,
    /// True if its behaviour is measured at first use; false for a framework that `stated` describes.
    pub(crate) measured: bool,
    /// Its behaviour if it was not measured: facts, or the careful assumption.
    pub(crate) stated: Behaviour,
    /// Its behaviour with data that the CPU cannot read, which no probe can measure: facts, and the request to assume if
    /// it could not be measured on the CPU.
    pub(crate) on_device: Behaviour,
    /// The strides beyond which its own operations go wrong, even if it imports them.
    pub(crate) layout_limit: Layout,
    /// The alignment below which its own operations go wrong, even if it imports the data, in bytes.
    pub(crate) align_limit: usize,
    /// True if nothing writes to its objects.
    pub(crate) immutable: bool,
    /// True if its function calls the C exchange API of other libraries.
    pub(crate) calls_tables: bool,
    /// A dtype that it reads as another one; used if no probe can show it.
    pub(super) misread: Option<(DataType, DataType)>,
    /// True if it accepts only memory that the CPU can read.
    pub(super) cpu_only: bool,
    /// The most dimensions that it accepts.
    pub(crate) max_ndim: usize,
    /// The fewest dimensions that it accepts.
    pub(super) min_ndim: usize,
    /// Returns true for the single-lane dtypes that it supports.
    pub(super) takes: fn(DataType) -> bool,
    /// Returns true for the multi-lane dtypes that it supports.
    pub(super) takes_lanes: fn(DataType) -> bool,
    /// True if it computes with the bytes of booleans, which may be other than 0 and 1.
    pub(crate) counts_bytes: bool,
    /// Returns why it cannot import a tensor, for reasons that only this framework has.
    pub(super) refuses: fn(&Tensor) -> Option<String>,
    /// Returns why a tensor must be copied for it, for reasons that only this framework has.
    pub(super) needs_copy: fn(&Tensor) -> Option<Need>,
    /// Returns true if the framework makes that copy itself.
    pub(crate) copies_itself: fn(&Tensor) -> bool,
    /// Returns why its present settings rule out elements of a dtype.
    pub(crate) settings: fn(Python<'_>, DataType) -> PyResult<Option<String>>,
    /// The function within the module that makes a column of an array of times, for a column like an object of the framework;
    /// `None` if the framework lacks columns.
    pub(crate) column: Option<Column>,
    /// The dtypes of times that its columns have, by NumPy's names. Empty if it converts times of other units.
    pub(crate) times: &'static [&'static str],
}

/// Returns the name of a function that makes a column, for a column like an object.
pub(crate) type Column = fn(like: &Bound<'_, PyAny>) -> PyResult<&'static str>;

/// A tensor that is given to a framework.
pub(crate) trait Offer<'py> {
    /// The tensor as a Python object that supports every protocol.
    fn object(&self) -> &Bound<'py, PyAny>;
    /// The tensor itself.
    fn tensor(&self) -> &Tensor;
    /// False if the caller forbids copies.
    fn may_copy(&self) -> bool;
    /// A capsule: versioned, if the framework requests that.
    fn capsule(&self) -> PyResult<Bound<'py, PyAny>>;
    /// The NumPy array that shares the memory.
    fn array(&self) -> PyResult<Bound<'py, PyAny>>;
    /// An object with the tensor's memory as unsigned integers, one for each element. Packed elements are unpacked by
    /// a copy.
    fn integers(&self) -> PyResult<Bound<'py, PyAny>>;
}

/// The form of the argument that a framework's function gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// An object that has `__dlpack__`.
    Object,
    /// A capsule.
    Capsule,
    /// An object that supports Arrow.
    Arrow,
    /// A NumPy array, for a column or a table.
    Table,
    /// A NumPy array, or an object that supports Arrow: whichever the library shares.
    Image,
}

/// How a framework imports tensors. This changes between releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behaviour {
    pub(crate) request: Request,
    /// True if it copies everything.
    pub(crate) copies: bool,
    pub(crate) read_only: ReadOnly,
    pub(crate) layout: Layout,
    /// True if it rejects negative strides even for dimensions of extent 1.
    pub(crate) idle_strides: bool,
    /// The alignment that avoids a copy, in bytes.
    pub(crate) align: usize,
}

impl Behaviour {
    /// The assumption that is safe for every framework.
    pub(crate) const CAREFUL: Self = Self {
        request: Request::Legacy,
        copies: false,
        read_only: ReadOnly::Lost,
        layout: Layout::C,
        idle_strides: true,
        align: 64,
    };

    /// The behaviour of a framework without restrictions.
    pub(super) const FREE: Self = Self {
        request: Request::NotDlpack,
        copies: false,
        read_only: ReadOnly::Kept,
        layout: Layout::Any,
        idle_strides: false,
        align: 1,
    };

    /// The behaviour of most frameworks with data on a device: only the read-only mark is lost.
    pub(super) const DEVICE: Self = Self { read_only: ReadOnly::Lost, ..Self::FREE };
}

/// How a framework requests a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A capsule of at most this version.
    Versioned(i64, i64),
    /// A legacy capsule.
    Legacy,
    /// By the C exchange API.
    ExchangeApi,
    /// By a protocol other than DLPack.
    NotDlpack,
}

/// How a framework treats read-only data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOnly {
    /// Its result is read-only too.
    Kept,
    /// Its result is never writable, or a write makes a new one.
    Immutable,
    /// Its result is writable, and a write changes the source.
    Lost,
    /// It copies such data.
    Copied,
}

impl ReadOnly {
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Immutable => "never written",
            Self::Lost => "ignored",
            Self::Copied => "copied",
        }
    }
}

/// The strides that a framework accepts, from many to few.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layout {
    /// Any strides.
    Any,
    /// Not negative.
    NonNegative,
    /// Contiguous elements, with the dimensions in any order.
    Compact,
    /// C order.
    C,
}

impl Layout {
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::Any => "any strides",
            Self::NonNegative => "no negative strides",
            Self::Compact => "no gaps between elements",
            Self::C => "C order only",
        }
    }
}

pub(super) const FRAMEWORK: Framework = Framework {
    name: "",
    aliases: &[],
    module: "",
    classes: None,
    function: "from_dlpack",
    prepare: None,
    argument: Argument::Object,
    enter: |function, offer| function.call1((offer.object(),)),
    table_of: None,
    measured: true,
    stated: Behaviour::CAREFUL,
    on_device: Behaviour::DEVICE,
    layout_limit: Layout::Any,
    align_limit: 1,
    immutable: false,
    calls_tables: false,
    misread: None,
    cpu_only: false,
    max_ndim: dlbridge::MAX_NDIM,
    min_ndim: 0,
    takes: |_| true,
    takes_lanes: |_| false,
    counts_bytes: true,
    refuses: |_| None,
    needs_copy: |_| None,
    copies_itself: |_| false,
    settings: |_, _| Ok(None),
    column: None,
    times: &[],
};

impl Framework {
    /// Its behaviour with data on a device, if it was not measured.
    pub(crate) fn stated_on(&self, device: Device) -> &Behaviour {
        if device.device_type().is_host_accessible() { &self.stated } else { &self.on_device }
    }

    /// The dtype that it reads another one as, if that is stated.
    pub(crate) fn stated_misread(&self, dtype: DataType) -> Option<DataType> {
        self.misread.filter(|&(misread, _)| misread == dtype).map(|(_, read)| read)
    }

    /// The package that its module is in.
    pub(crate) fn package(&self) -> &'static str {
        self.module.split_once('.').map_or(self.module, |(package, _)| package)
    }

    /// The form of the tensors that it imports, in a word or two.
    pub(crate) fn describe(&self, behaviour: &Behaviour) -> &'static str {
        match (self.argument, behaviour.request) {
            (Argument::Arrow, _) => "arrow",
            (Argument::Table, _) => "array",
            (Argument::Image, _) => "array or arrow",
            (_, Request::ExchangeApi) => "exchange api",
            (Argument::Capsule, Request::Legacy) => "legacy capsule",
            (Argument::Capsule, _) => "versioned capsule",
            (Argument::Object, Request::Legacy) => "legacy",
            (Argument::Object, _) => "versioned",
        }
    }
}

/// Why a tensor must be copied, and how the caller can avoid that.
pub(crate) struct Need {
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

impl Need {
    pub(super) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: remedy.into() }
    }
}
