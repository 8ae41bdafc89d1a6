//! A framework that tensors are exported to: how to call it, and which tensors it shares, copies or refuses.

use std::ops::RangeInclusive;

use dlbridge::{DataType, DataTypeCode as Code, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::to_py_err;

use crate::bytes;
use crate::tensor::TensorObject;

/// A framework that imports tensors.
pub(crate) struct Framework {
    /// The name under which Python code requests it.
    pub(crate) name: &'static str,
    /// Alternative names.
    pub(super) aliases: &'static [&'static str],
    /// The module to import.
    pub(crate) module: &'static str,
    /// The function within the module that imports a tensor.
    pub(super) function: &'static str,
    /// A function within the module to call before the first use.
    pub(super) prepare: Option<&'static str>,
    /// The argument that the function requests tensors from.
    pub(super) argument: Argument,
    /// Calls the function.
    pub(super) enter: for<'py> fn(
        function: &Bound<'py, PyAny>,
        input: &Input<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>>,
    /// The class within the module that carries the C exchange API.
    pub(super) table_of: Option<&'static str>,
    /// Its behaviour with data that the CPU can read, if that is stated here; `None` if it is measured at first use.
    pub(super) stated: Option<Behaviour>,
    /// Its behaviour with other data, which no probe can measure; `None` if it refuses such data. The request is
    /// replaced by a measured one.
    pub(super) on_device: Option<Behaviour>,
    /// The strides beyond which its own operations go wrong, even if it imports them.
    pub(super) layout_limit: Layout,
    /// The alignment below which its own operations go wrong, even if it imports the data, in bytes.
    pub(super) align_limit: usize,
    /// True if nothing writes to its objects, for a measured framework.
    pub(super) immutable: bool,
    /// The numbers of dimensions that it accepts.
    pub(super) ndim: RangeInclusive<usize>,
    /// Returns true for the dtypes that it supports.
    pub(super) takes: fn(DataType) -> bool,
    /// True if it computes with the bytes of booleans, which may be other than 0 and 1.
    pub(super) counts_bytes: bool,
    /// Returns why it cannot import a tensor, for reasons that only this framework has.
    pub(super) refuses: fn(Python<'_>, &Tensor) -> PyResult<Option<String>>,
    /// Returns why it copies a tensor itself.
    pub(super) copies: fn(&Tensor) -> Option<Need>,
}

/// The argument that a framework's function requests tensors from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument {
    /// An object, by its `__dlpack__`.
    Object,
    /// An object, by the C exchange API of its class.
    ExchangeApi,
    /// A capsule.
    Capsule,
}

/// How a framework imports tensors. This changes between releases.
#[derive(Clone, Copy)]
pub(super) struct Behaviour {
    pub(super) request: Request,
    /// True if it copies everything.
    pub(super) copies: bool,
    pub(super) read_only: ReadOnly,
    pub(super) layout: Layout,
    /// True if it rejects negative strides even for dimensions of extent 1.
    pub(super) idle_strides: bool,
    /// The alignment that avoids a copy, in bytes.
    pub(super) align: usize,
}

impl Behaviour {
    /// The assumption that is safe for every framework.
    pub(super) const CAREFUL: Self = Self {
        request: Request::Legacy,
        copies: false,
        read_only: ReadOnly::Lost,
        layout: Layout::C,
        idle_strides: true,
        align: 64,
    };

    /// The behaviour of a framework without restrictions.
    pub(super) const FREE: Self = Self {
        request: Request::Versioned(1, 0),
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
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// A capsule of at most this version.
    Versioned(i64, i64),
    /// A legacy capsule.
    Legacy,
    /// By the C exchange API.
    ExchangeApi,
    /// In this form, without DLPack.
    Other(&'static str),
}

/// How a framework treats read-only data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadOnly {
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
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Immutable => "never written",
            Self::Lost => "ignored",
            Self::Copied => "copied",
        }
    }
}

/// The strides that a framework accepts, from many to few.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layout {
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
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::Any => "any strides",
            Self::NonNegative => "no negative strides",
            Self::Compact => "no gaps between elements",
            Self::C => "C order only",
        }
    }
}

/// Why a tensor must be copied, and how the caller can avoid that.
pub(super) struct Need {
    pub(super) reason: String,
    pub(super) remedy: String,
}

impl Need {
    pub(super) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: remedy.into() }
    }
}

/// A framework whose behaviour is measured, and that accepts data on any device.
pub(super) const FRAMEWORK: Framework = Framework {
    name: "",
    aliases: &[],
    module: "",
    function: "from_dlpack",
    prepare: None,
    argument: Argument::Object,
    enter: |function, input| function.call1((input.tensor,)),
    table_of: None,
    stated: None,
    on_device: Some(Behaviour::DEVICE),
    layout_limit: Layout::Any,
    align_limit: 1,
    immutable: false,
    ndim: 0..=dlbridge::MAX_NDIM,
    takes: |dtype| dtype.lanes() == 1,
    counts_bytes: true,
    refuses: |_, _| Ok(None),
    copies: |_| None,
};

impl Framework {
    /// The package that its module is in.
    pub(crate) fn package(&self) -> &'static str {
        self.module.split_once('.').map_or(self.module, |(package, _)| package)
    }

    /// The form of the tensors that it imports, in a word or two.
    pub(super) fn describe(&self, behaviour: &Behaviour) -> &'static str {
        match (self.argument, behaviour.request) {
            (_, Request::Other(form)) => form,
            (_, Request::ExchangeApi) => "exchange api",
            (Argument::Capsule, Request::Legacy) => "legacy capsule",
            (Argument::Capsule, _) => "versioned capsule",
            (_, Request::Legacy) => "legacy",
            _ => "versioned",
        }
    }

    /// Why it cannot import a tensor at all.
    pub(super) fn refusal(&self, py: Python<'_>, tensor: &Tensor) -> PyResult<Option<String>> {
        let (name, dtype, ndim) = (self.name, tensor.dtype(), tensor.ndim());
        let (device, most) = (tensor.device(), *self.ndim.end());
        if self.on_device.is_none() && !device.device_type().is_host_accessible() {
            return Ok(Some(format!(
                "{name} supports data on the CPU only, and this is on {device}; import it with \
                 asdlpack(obj, device='cpu'), if its producer can move it"
            )));
        }
        if ndim > most {
            let (s, table) = match most {
                1 => ("", ", or pass columns= for a table"),
                _ => ("s", ""),
            };
            return Ok(Some(format!(
                "{name} takes at most {most} dimension{s}, not {ndim}; reshape the tensor first{table}"
            )));
        }
        if !self.ndim.contains(&ndim) {
            return Ok(Some(format!(
                "{name} takes tensors of at least {} dimensions, not {ndim}; reshape the tensor first",
                self.ndim.start()
            )));
        }
        if let Some(reason) = (self.refuses)(py, tensor)? {
            return Ok(Some(reason));
        }
        Ok(match (dtype.lanes(), (self.takes)(dtype)) {
            (_, true) => None,
            (1, _) if dtype.code() == Code::OPAQUE_HANDLE => Some(format!(
                "{name} does not support {dtype}, the dtype of handles and times; view them with the dtype that their \
                 producer has, for example numpy.frombuffer(bytes(t), 'M8[ns]').reshape(t.shape)"
            )),
            (1, _) => Some(format!(
                "{name} does not support {dtype}; convert the elements to another dtype first"
            )),
            // Some frameworks silently read all lanes as one element.
            _ => Some(format!("{name} does not support elements with several lanes, like {dtype}")),
        })
    }

    /// Why a tensor must be copied for it.
    pub(super) fn needs_copy(
        &self,
        behaviour: &Behaviour,
        tensor: &Tensor,
        read_only: bool,
    ) -> Option<Need> {
        let (name, backwards) = (self.name, is_backwards(tensor));
        if behaviour.copies {
            let reason = format!("{name} copies everything that it imports");
            return Some(Need::new(reason, "use another library"));
        }
        if let Some(need) = (self.copies)(tensor) {
            return Some(need);
        }
        if read_only && behaviour.read_only == ReadOnly::Lost {
            return Some(Need::new(
                format!(
                    "the tensor is read-only and {name} ignores that: its writes would change \
                     the source"
                ),
                format!("call {}.{}(t) if no code writes the result", self.module, self.function),
            ));
        }
        if tensor.is_read_only() && behaviour.request == Request::Legacy {
            return Some(Need::new(
                format!(
                    "the tensor is read-only and {name} imports legacy capsules, which cannot mark that"
                ),
                "start from writable memory",
            ));
        }
        if read_only && behaviour.read_only == ReadOnly::Copied {
            let reason = format!("the tensor is read-only and {name} copies such data");
            return Some(Need::new(reason, "start from writable memory"));
        }
        if behaviour.idle_strides && !backwards && tensor.strides().iter().any(|&step| step < 0) {
            // Such a tensor may be contiguous, and then only copy=True copies it.
            return Some(Need::new(
                format!("{name} rejects negative strides even for dimensions of extent 1"),
                "copy it once, with asdlpack(obj, copy=True)",
            ));
        }
        let fits = match behaviour.layout {
            Layout::Any => true,
            Layout::NonNegative => !backwards,
            Layout::Compact => is_compact(tensor.shape(), tensor.strides()),
            Layout::C => tensor.is_c_contiguous(),
        };
        if !fits {
            return Some(Need::new(
                format!("{name} accepts {}", behaviour.layout.describe()),
                "make a contiguous copy once, with asdlpack(obj, contiguous='C')",
            ));
        }
        let align = behaviour.align;
        let fits = tensor.is_empty() || tensor.data().addr().is_multiple_of(align);
        (!fits).then(|| {
            Need::new(
                format!("{name} copies data that is not aligned to {align} bytes"),
                format!("allocate it with dlbridge.empty, or asdlpack(obj, align={align}), once"),
            )
        })
    }
}

/// A tensor that a framework's function gets, in the forms that such functions accept.
pub(super) struct Input<'a, 'py> {
    pub(super) tensor: &'a Bound<'py, TensorObject>,
    /// False if the caller forbids copies.
    pub(super) may_copy: bool,
    /// How the framework requests tensors.
    pub(super) request: Request,
}

impl<'py> Input<'_, 'py> {
    /// A capsule: versioned, if the framework requests that.
    pub(super) fn capsule(&self) -> PyResult<Bound<'py, PyAny>> {
        let (py, method) = (self.tensor.py(), intern!(self.tensor.py(), "__dlpack__"));
        let Request::Versioned(major, minor) = self.request else {
            return self.tensor.call_method0(method);
        };
        let keywords = PyDict::new(py);
        keywords.set_item(intern!(py, "max_version"), (major, minor))?;
        self.tensor.call_method(method, (), Some(&keywords))
    }

    /// A tensor over the memory as unsigned integers, one for each element. Packed elements are unpacked by a copy.
    pub(super) fn integers(&self) -> PyResult<Bound<'py, TensorObject>> {
        let (this, read_only) = (self.tensor.get().tensor(), self.tensor.get().is_read_only());
        let copied = is_packed(this);
        let unpacked;
        let this = match copied {
            true => {
                let _reading = Guard::reading(this, "tensor that is copied")?;
                unpacked = copies::unpacked(this)?.into_shared();
                &unpacked
            }
            false => this,
        };
        // The largest element on this path has eight bytes.
        let bits = (this.dtype().itemsize() * 8) as u8;
        let integers = DataType::new(Code::UINT, bits, 1);
        let integers = bytes::with_dtype(this, read_only && !copied, integers);
        TensorObject::new(self.tensor.py(), integers.map_err(to_py_err)?)
    }
}

/// Returns true for elements of which a byte has several.
pub(super) fn is_packed(tensor: &Tensor) -> bool {
    tensor.dtype().is_subbyte() && !tensor.is_subbyte_padded()
}

/// Returns true if a stride is negative, in a dimension with more than one index.
pub(super) fn is_backwards(tensor: &Tensor) -> bool {
    let mut dims = tensor.shape().iter().zip(tensor.strides());
    !tensor.is_empty() && dims.any(|(&extent, &stride)| extent > 1 && stride < 0)
}

/// Returns true if the elements are contiguous, in some order of the dimensions.
fn is_compact(shape: &[i64], strides: &[i64]) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut dims: Vec<_> = (0..shape.len()).filter(|&dim| shape[dim] != 1).collect();
    dims.sort_by_key(|&dim| strides[dim]);
    let mut expected = 1;
    dims.into_iter().all(|dim| {
        let fits = strides[dim] == expected;
        expected *= shape[dim];
        fits
    })
}

/// Integers and floats that every CPU supports.
pub(super) fn is_plain(dtype: DataType) -> bool {
    let (code, bits) = (dtype.code(), dtype.bits());
    let plain = matches!(
        (code, bits),
        (Code::INT | Code::UINT, 8 | 16 | 32 | 64) | (Code::FLOAT, 16 | 32 | 64)
    );
    plain && dtype.lanes() == 1
}

pub(super) fn is_complex(dtype: DataType) -> bool {
    [DataType::COMPLEX64, DataType::COMPLEX128].contains(&dtype)
}

/// Numbers of 128 bits, complex numbers of two 16-bit floats, and handles, which few libraries support.
pub(super) fn is_rare(dtype: DataType) -> bool {
    let wide = matches!(dtype.code(), Code::INT | Code::UINT | Code::FLOAT) && dtype.bits() > 64;
    wide || dtype == DataType::COMPLEX32 || dtype.code() == Code::OPAQUE_HANDLE
}

/// Returns true if the C functions of a framework certainly accept the dtype: if they fail, PyTorch and Paddle leak.
pub(super) fn is_common(dtype: DataType) -> bool {
    dtype.lanes() == 1
        && matches!(
            (dtype.code(), dtype.bits()),
            (Code::INT, 8 | 16 | 32 | 64)
                | (Code::UINT | Code::BOOL, 8)
                | (Code::FLOAT, 16 | 32 | 64)
                | (Code::BFLOAT, 16)
                | (Code::COMPLEX, 64 | 128)
        )
}
