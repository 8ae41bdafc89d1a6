//! What is known of the libraries that tensors go to: how each is asked, and what it would get wrong
//! without a word. Measured, with the versions that the interop tests pin.

use std::ptr;

use dlbridge::{DataType, DataTypeCode, Tensor};

/// A library that takes tensors.
pub(crate) struct Consumer {
    /// The name under which Python code asks for it.
    pub(crate) name: &'static str,
    /// The module to import.
    pub(crate) module: &'static str,
    /// The function within the module that takes a tensor.
    pub(crate) function: &'static str,
    /// A function within the module to call before the first use.
    pub(crate) prepare: Option<&'static str>,
    /// The form of the function's argument.
    pub(crate) argument: Argument,
    /// The class within the module that carries the C exchange API.
    pub(crate) table_of: Option<&'static str>,
    pub(crate) read_only: ReadOnly,
    pub(crate) layout: Layout,
    /// True if it rejects negative strides even for dimensions of extent 1.
    pub(crate) idle_strides: bool,
    /// True if it accepts only memory that the CPU can read.
    pub(crate) cpu_only: bool,
    /// The most dimensions that it takes.
    pub(crate) max_ndim: usize,
    /// The alignment without which it copies, in bytes.
    pub(crate) align: usize,
    /// The fewest dimensions that it takes.
    pub(crate) min_ndim: usize,
    /// Which dtypes it takes, of those with one lane.
    pub(crate) takes: fn(DataType) -> bool,
    /// True if it computes with the bytes of booleans, which may be neither 0 nor 1.
    pub(crate) counts_bytes: bool,
    /// A dtype that it takes for another one.
    pub(crate) misread: Option<(DataType, &'static str)>,
}

/// The form of the argument that a consumer's function gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// An object that has `__dlpack__`.
    Object,
    /// An object whose `__dlpack__` it asks for a legacy capsule.
    LegacyObject,
    /// A legacy capsule.
    LegacyCapsule,
    /// An object that speaks Arrow.
    Arrow,
    /// An array of NumPy, for a column or a table.
    Table,
    /// An array of NumPy or an object that speaks Arrow, whichever the library shares.
    Image,
}

impl Argument {
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::Object => "versioned",
            Self::LegacyObject => "legacy",
            Self::LegacyCapsule => "legacy capsule",
            Self::Arrow => "arrow",
            Self::Table => "array",
            Self::Image => "array or arrow",
        }
    }
}

/// What a consumer does with data that must not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOnly {
    /// Its result cannot be written either.
    Kept,
    /// Its result can never be written, or writing makes a new one.
    Immutable,
    /// Its result can be written, and the source changes.
    Lost,
    /// It copies everything.
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

/// Which strides a consumer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Any.
    Any,
    /// Not negative.
    NonNegative,
    /// Elements without gaps, axes in any order.
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

const CONSUMER: Consumer = Consumer {
    name: "",
    module: "",
    function: "from_dlpack",
    prepare: None,
    argument: Argument::Object,
    table_of: None,
    read_only: ReadOnly::Kept,
    layout: Layout::Any,
    idle_strides: false,
    cpu_only: false,
    max_ndim: dlbridge::MAX_NDIM,
    align: 1,
    min_ndim: 0,
    takes: |_| true,
    counts_bytes: true,
    misread: None,
};

/// Integers and floats that every CPU knows.
fn is_plain(dtype: DataType) -> bool {
    use DataTypeCode as Code;
    let (code, bits) = (dtype.code(), dtype.bits());
    matches!((code, bits), (Code::INT | Code::UINT, 8 | 16 | 32 | 64) | (Code::FLOAT, 16 | 32 | 64))
}

fn is_complex(dtype: DataType) -> bool {
    dtype.code() == DataTypeCode::COMPLEX && matches!(dtype.bits(), 64 | 128)
}

fn is_bfloat16(dtype: DataType) -> bool {
    dtype == DataType::BFLOAT16
}

/// Numbers of 128 bits, and complex ones of 16 each, which few libraries have.
fn is_rare(dtype: DataType) -> bool {
    use DataTypeCode as Code;
    let wide = matches!(dtype.code(), Code::INT | Code::UINT | Code::FLOAT) && dtype.bits() > 64;
    wide || dtype == DataType::COMPLEX32
}

/// What NumPy and the package `ml_dtypes` have between them.
fn is_of_numpy(dtype: DataType) -> bool {
    use DataTypeCode as Code;
    match dtype.code() {
        Code::INT | Code::UINT => matches!(dtype.bits(), 1 | 2 | 4 | 8 | 16 | 32 | 64),
        Code::FLOAT => is_plain(dtype),
        Code::COMPLEX => matches!(dtype.bits(), 32 | 64 | 128),
        Code::OPAQUE_HANDLE => false,
        _ => true,
    }
}

/// All that are known, by name.
pub(crate) static CONSUMERS: [Consumer; 16] = [
    Consumer {
        name: "numpy",
        module: "numpy",
        cpu_only: true,
        max_ndim: 64,
        takes: is_of_numpy,
        counts_bytes: false,
        ..CONSUMER
    },
    Consumer {
        name: "torch",
        module: "torch",
        table_of: Some("Tensor"),
        read_only: ReadOnly::Lost,
        layout: Layout::NonNegative,
        takes: |dtype| {
            let unknown =
                [DataType::FLOAT8_E3M4, DataType::FLOAT8_E4M3, DataType::FLOAT8_E4M3B11FNUZ];
            let rare = is_rare(dtype) && dtype != DataType::COMPLEX32;
            !dtype.is_subbyte() && !rare && !unknown.contains(&dtype)
        },
        counts_bytes: false,
        ..CONSUMER
    },
    Consumer {
        name: "jax",
        module: "jax.dlpack",
        argument: Argument::LegacyObject,
        read_only: ReadOnly::Immutable,
        layout: Layout::Compact,
        align: 64,
        takes: |dtype| !dtype.is_subbyte() && !is_rare(dtype),
        ..CONSUMER
    },
    Consumer {
        name: "tensorflow",
        module: "tensorflow",
        function: "experimental.dlpack.from_dlpack",
        argument: Argument::LegacyCapsule,
        read_only: ReadOnly::Immutable,
        layout: Layout::C,
        // It takes others, and aborts the process in the middle of a computation.
        align: 64,
        takes: |dtype| {
            is_plain(dtype) || is_complex(dtype) || is_bfloat16(dtype) || dtype == DataType::BOOL
        },
        ..CONSUMER
    },
    Consumer {
        name: "paddle",
        module: "paddle",
        table_of: Some("Tensor"),
        read_only: ReadOnly::Lost,
        // Negative strides come in, and few of its operations know them.
        layout: Layout::NonNegative,
        max_ndim: 9,
        takes: |dtype| {
            let known = [DataType::FLOAT8_E4M3FN, DataType::FLOAT8_E5M2, DataType::BFLOAT16];
            let common = is_plain(dtype) || is_complex(dtype) || dtype == DataType::BOOL;
            common || known.contains(&dtype)
        },
        misread: Some((DataType::UINT16, "bfloat16")),
        ..CONSUMER
    },
    Consumer { name: "cupy", module: "cupy", read_only: ReadOnly::Lost, ..CONSUMER },
    Consumer {
        name: "pyarrow",
        module: "pyarrow",
        cpu_only: true,
        function: "Tensor.from_dlpack",
        takes: is_plain,
        layout: Layout::NonNegative,
        idle_strides: true,
        ..CONSUMER
    },
    Consumer {
        name: "mlx",
        module: "mlx.core",
        cpu_only: true,
        read_only: ReadOnly::Copied,
        layout: Layout::NonNegative,
        // It cuts these to numbers of 32 bits without a word.
        takes: |dtype| dtype != DataType::FLOAT64 && dtype != DataType::COMPLEX128,
        ..CONSUMER
    },
    Consumer { name: "tvm_ffi", module: "tvm_ffi", read_only: ReadOnly::Lost, ..CONSUMER },
    Consumer {
        name: "onnxruntime",
        module: "onnxruntime",
        function: "OrtValue.from_dlpack",
        argument: Argument::LegacyObject,
        read_only: ReadOnly::Lost,
        layout: Layout::C,
        takes: |dtype| is_plain(dtype) || is_bfloat16(dtype),
        ..CONSUMER
    },
    Consumer {
        name: "warp",
        module: "warp",
        prepare: Some("init"),
        argument: Argument::LegacyObject,
        read_only: ReadOnly::Lost,
        idle_strides: true,
        min_ndim: 1,
        max_ndim: 4,
        takes: |dtype| is_plain(dtype) || is_bfloat16(dtype) || dtype == DataType::BOOL,
        ..CONSUMER
    },
    Consumer { name: "dpnp", module: "dpnp", ..CONSUMER },
    Consumer {
        name: "array_api_strict",
        module: "array_api_strict",
        cpu_only: true,
        takes: |dtype| {
            let known = is_plain(dtype) || is_complex(dtype) || dtype == DataType::BOOL;
            known && dtype != DataType::FLOAT16
        },
        ..CONSUMER
    },
    Consumer {
        name: "polars",
        module: "polars",
        function: "Series",
        argument: Argument::Arrow,
        read_only: ReadOnly::Immutable,
        layout: Layout::C,
        cpu_only: true,
        min_ndim: 1,
        max_ndim: 1,
        takes: is_plain,
        ..CONSUMER
    },
    Consumer {
        name: "pandas",
        module: "pandas",
        function: "Series",
        argument: Argument::Table,
        cpu_only: true,
        min_ndim: 1,
        max_ndim: 2,
        takes: |dtype| is_plain(dtype) || is_complex(dtype) || dtype == DataType::BOOL,
        counts_bytes: false,
        ..CONSUMER
    },
    Consumer {
        name: "pillow",
        module: "PIL.Image",
        function: "fromarray",
        argument: Argument::Image,
        read_only: ReadOnly::Immutable,
        layout: Layout::C,
        cpu_only: true,
        min_ndim: 2,
        max_ndim: 3,
        takes: |dtype| {
            let modes = [DataType::UINT8, DataType::UINT16, DataType::INT32, DataType::FLOAT32];
            modes.contains(&dtype) || dtype == DataType::BOOL
        },
        counts_bytes: false,
        ..CONSUMER
    },
];

/// Other names under which a library is known.
const ALIASES: &[(&str, &str)] = &[
    ("np", "numpy"),
    // Its arrays are those of NumPy.
    ("ml_dtypes", "numpy"),
    ("pytorch", "torch"),
    ("tf", "tensorflow"),
    ("paddlepaddle", "paddle"),
    ("pa", "pyarrow"),
    ("ort", "onnxruntime"),
    ("tvm-ffi", "tvm_ffi"),
    ("array-api-strict", "array_api_strict"),
    ("pl", "polars"),
    ("pd", "pandas"),
    ("PIL", "pillow"),
];

/// Why a tensor must be copied, and what the caller can do about it.
pub(crate) struct Need {
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

impl Consumer {
    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, name)| name);
        CONSUMERS.iter().find(|consumer| consumer.name == name)
    }

    /// The consumer to which the classes of a package belong.
    pub(crate) fn by_package(package: &str) -> Option<&'static Self> {
        // JAX keeps its arrays in a package of its own.
        let package = if package == "jaxlib" { "jax" } else { package };
        CONSUMERS.iter().find(|consumer| consumer.package() == package)
    }

    /// Its place among all consumers.
    pub(crate) fn index(&'static self) -> usize {
        // A loop that stops at itself: there are no others.
        CONSUMERS.iter().take_while(|&consumer| !ptr::eq(consumer, self)).count()
    }

    /// The package that its module is in.
    pub(crate) fn package(&self) -> &'static str {
        self.module.split_once('.').map_or(self.module, |(package, _)| package)
    }

    /// Returns true if Pillow copies the tensor itself, because none of its modes has this memory layout.
    pub(crate) fn copies_itself(&self, tensor: &Tensor) -> bool {
        let bands = tensor.shape().get(2).is_some_and(|&bands| bands != 4);
        self.argument == Argument::Image && (bands || tensor.dtype() == DataType::BOOL)
    }

    /// Why a tensor must be copied for this consumer.
    pub(crate) fn needs_copy(&self, tensor: &Tensor, read_only: bool) -> Option<Need> {
        let name = self.name;
        let (shape, strides) = (tensor.shape(), tensor.strides());
        let backwards = is_backwards(tensor);
        let idle = self.idle_strides && !backwards && strides.iter().any(|&stride| stride < 0);
        let need = |reason: String, remedy: String| Some(Need { reason, remedy });
        if self.read_only == ReadOnly::Copied {
            return need(
                format!("{name} copies whatever it takes"),
                "work in another library".to_owned(),
            );
        }
        if self.copies_itself(tensor) {
            return need(
                format!("{name} keeps such an image in another layout"),
                "make an image of the mode L, F, I, I;16 or RGBA".to_owned(),
            );
        }
        if self.name == "numpy" && tensor.dtype().is_subbyte() && !tensor.is_subbyte_padded() {
            return need(
                "numpy has no packed elements, which are unpacked to a byte each".to_owned(),
                "keep them in a byte each from the beginning".to_owned(),
            );
        }
        if read_only && self.read_only == ReadOnly::Lost {
            return need(
                format!(
                    "the tensor is read-only and {name} ignores that: what it writes would change \
                     the source"
                ),
                format!("call {}.{} yourself if nobody writes", self.module, self.function),
            );
        }
        let legacy = matches!(self.argument, Argument::LegacyObject | Argument::LegacyCapsule);
        if tensor.is_read_only() && legacy {
            return need(
                format!(
                    "the tensor is read-only and {name} takes legacy capsules, which cannot say so"
                ),
                "start from memory that may be written".to_owned(),
            );
        }
        let fits = match self.layout {
            _ if idle => false,
            Layout::Any => true,
            Layout::NonNegative => !backwards,
            Layout::Compact => is_compact(shape, strides),
            Layout::C => tensor.is_c_contiguous(),
        };
        if !fits {
            return need(
                match idle {
                    true => format!("{name} takes no negative strides, though no step is taken"),
                    false => format!("{name} takes {}", self.layout.describe()),
                },
                "make the data so with asdlpack(obj, contiguous='C'), once".to_owned(),
            );
        }
        if !tensor.is_empty() && !tensor.data().addr().is_multiple_of(self.align) {
            let align = self.align;
            return need(
                format!("{name} copies data that is not aligned to {align} bytes"),
                format!("allocate it with dlbridge.empty, or asdlpack(obj, align={align}), once"),
            );
        }
        None
    }

    /// Why this consumer cannot have a tensor at all.
    pub(crate) fn refuses(&self, tensor: &Tensor) -> Option<String> {
        let (name, dtype) = (self.name, tensor.dtype());
        if let Some((_, other)) = self.misread.filter(|(misread, _)| *misread == dtype) {
            return Some(format!(
                "{name} takes {dtype} for {other}; convert the elements to another dtype first"
            ));
        }
        let device = tensor.device();
        if self.cpu_only && !device.device_type().is_host_accessible() {
            return Some(format!(
                "{name} takes data on the CPU only, and this is on {device}; import it with \
                 asdlpack(obj, device='cpu'), if its producer can move it"
            ));
        }
        if name == "dpnp" && !device.device_type().is_host_accessible() && is_backwards(tensor) {
            return Some(format!(
                "{name} looks for the memory at the address of the first element, and it begins before \
                 that, since the strides are negative; copy the tensor first"
            ));
        }
        if tensor.ndim() > self.max_ndim {
            return Some(format!(
                "{name} takes at most {} dimensions, not {}; reshape the tensor first",
                self.max_ndim,
                tensor.ndim()
            ));
        }
        if tensor.ndim() < self.min_ndim {
            return Some(match tensor.ndim() {
                0 => format!("{name} takes no tensor without a dimension; reshape it first"),
                ndim => format!(
                    "{name} takes tensors of at least {} dimensions, not {ndim}; reshape the tensor first",
                    self.min_ndim
                ),
            });
        }
        if self.argument == Argument::Image
            && let Some(&bands) = tensor.shape().get(2)
            && !(dtype == DataType::UINT8 && (2..=4).contains(&bands))
        {
            return Some(format!(
                "{name} takes images of the shape (height, width), or (height, width, bands) of uint8 with 2 \
                 to 4 bands, not {:?} of {dtype}; reshape or slice the tensor first",
                tensor.shape()
            ));
        }
        if dtype.lanes() == 1 && !(self.takes)(dtype) {
            return Some(format!(
                "{name} takes no {dtype}; convert the elements to another dtype first"
            ));
        }
        if tensor.is_subbyte_padded() && self.name == "tvm_ffi" {
            return Some(format!(
                "{name} takes no {dtype} in bytes of their own; convert the elements to another dtype \
                 first"
            ));
        }
        let takes_lanes = self.name == "tvm_ffi" || (self.name == "torch" && is_packed_pair(dtype));
        // Some take the lanes for one element without a word.
        (dtype.lanes() != 1 && !takes_lanes)
            .then(|| format!("{name} takes no elements of several lanes, like {dtype}"))
    }
}

/// Whether a step along some axis leads backwards.
fn is_backwards(tensor: &Tensor) -> bool {
    let mut axes = tensor.shape().iter().zip(tensor.strides());
    !tensor.is_empty() && axes.any(|(&extent, &stride)| extent > 1 && stride < 0)
}

/// Two elements of four bits in a byte, which PyTorch knows under a name of its own.
fn is_packed_pair(dtype: DataType) -> bool {
    dtype == DataType::FLOAT4_E2M1FN.with_lanes(2)
}

/// Whether the elements are adjacent in the order of some permutation of the axes.
fn is_compact(shape: &[i64], strides: &[i64]) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut axes: Vec<_> = (0..shape.len()).filter(|&axis| shape[axis] != 1).collect();
    axes.sort_by_key(|&axis| strides[axis]);
    let mut expected = 1;
    axes.into_iter().all(|axis| {
        let fits = strides[axis] == expected;
        expected *= shape[axis];
        fits
    })
}

/// Whether a table's function surely takes the dtype: where it fails, PyTorch and Paddle leak.
pub(crate) fn is_common(dtype: DataType) -> bool {
    use DataTypeCode as Code;
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
