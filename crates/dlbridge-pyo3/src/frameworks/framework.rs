//! What describes a framework.

use dlbridge::{DataType, Device, Tensor};
use pyo3::prelude::*;

/// A framework that imports tensors.
pub(crate) struct Framework {
    /// The name under which Python code requests it.
    pub(crate) name: &'static str,
    /// Other names of it.
    pub(super) aliases: &'static [&'static str],
    /// The module to import.
    pub(crate) module: &'static str,
    /// A package other than that of the module that its classes belong to.
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
    /// How it behaves, unless that was measured: facts, or the careful assumption.
    pub(crate) stated: Behaviour,
    /// How it behaves with data that the CPU cannot read, which no probe shows: facts.
    pub(crate) on_device: Behaviour,
    /// The strides beyond which its own operations go wrong, even if it imports them.
    pub(crate) layout_limit: Layout,
    /// The alignment below which its own operations go wrong, even if it imports the data, in bytes.
    pub(crate) align_limit: usize,
    /// True if nothing writes to its objects.
    pub(crate) immutable: bool,
    /// True if its function calls the C exchange API of other libraries.
    pub(crate) calls_tables: bool,
    /// A dtype that it reads as another one: what holds where no probe shows it.
    pub(super) misread: Option<(DataType, DataType)>,
    /// True if it accepts only memory that the CPU can read.
    pub(super) cpu_only: bool,
    /// The most dimensions that it accepts.
    pub(crate) max_ndim: usize,
    /// The fewest dimensions that it accepts.
    pub(super) min_ndim: usize,
    /// Returns true for the dtypes with one lane that it has.
    pub(super) takes: fn(DataType) -> bool,
    /// Returns true for the dtypes with several lanes that it has.
    pub(super) takes_lanes: fn(DataType) -> bool,
    /// True if it computes with the bytes of booleans, which may be neither 0 nor 1.
    pub(crate) counts_bytes: bool,
    /// Returns why it cannot have a tensor, for reasons that only this framework has.
    pub(super) refuses: fn(&Tensor) -> Option<String>,
    /// Returns why a tensor must be copied for it, for reasons that only this framework has.
    pub(super) needs_copy: fn(&Tensor) -> Option<Need>,
    /// Returns true if the framework makes that copy itself.
    pub(crate) copies_itself: fn(&Tensor) -> bool,
    /// Returns why its present settings make it unable to have elements of a dtype.
    pub(crate) settings: fn(Python<'_>, DataType) -> PyResult<Option<String>>,
}

/// A tensor on its way into a framework.
pub(crate) trait Offer<'py> {
    /// The tensor as a Python object that supports every protocol.
    fn object(&self) -> &Bound<'py, PyAny>;
    /// The tensor itself.
    fn tensor(&self) -> &Tensor;
    /// False if the caller forbids copies.
    fn may_copy(&self) -> bool;
    /// A capsule: versioned, if the framework requests that.
    fn capsule(&self) -> PyResult<Bound<'py, PyAny>>;
    /// The array of NumPy that shares the memory.
    fn array(&self) -> PyResult<Bound<'py, PyAny>>;
    /// An object with the memory of the tensor as unsigned integers, one for each element. Packed elements are
    /// unpacked by a copy.
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
    /// An array of NumPy, for a column or a table.
    Table,
    /// An array of NumPy or an object that supports Arrow, whichever the library shares.
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
    /// The alignment without which it copies, in bytes.
    pub(crate) align: usize,
}

impl Behaviour {
    /// The assumption with which no framework goes wrong.
    pub(crate) const CAREFUL: Self = Self {
        request: Request::Legacy,
        copies: false,
        read_only: ReadOnly::Lost,
        layout: Layout::C,
        idle_strides: true,
        align: 64,
    };

    /// That of a framework without a restriction.
    pub(super) const FREE: Self = Self {
        request: Request::NotDlpack,
        copies: false,
        read_only: ReadOnly::Kept,
        layout: Layout::Any,
        idle_strides: false,
        align: 1,
    };

    /// That of most frameworks with data on a device: only the read-only mark is lost.
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
    /// By another protocol than DLPack.
    NotDlpack,
}

/// How a framework treats data that must not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOnly {
    /// Its result cannot be written either.
    Kept,
    /// Its result can never be written, or writing makes a new one.
    Immutable,
    /// Its result can be written, and the source changes.
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

/// Which strides a framework accepts, fewer and fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layout {
    /// Any.
    Any,
    /// Not negative.
    NonNegative,
    /// Elements without gaps, dimensions in any order.
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
};

impl Framework {
    /// How it behaves with data on a device, if nothing was measured.
    pub(crate) fn stated_on(&self, device: Device) -> &Behaviour {
        if device.device_type().is_host_accessible() { &self.stated } else { &self.on_device }
    }

    /// The dtype as which it reads another one, as far as that is stated.
    pub(crate) fn stated_misread(&self, dtype: DataType) -> Option<DataType> {
        self.misread.filter(|&(misread, _)| misread == dtype).map(|(_, read)| read)
    }

    /// The package that its module is in.
    pub(crate) fn package(&self) -> &'static str {
        self.module.split_once('.').map_or(self.module, |(package, _)| package)
    }

    /// The form in which it takes tensors, in a word or two.
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
