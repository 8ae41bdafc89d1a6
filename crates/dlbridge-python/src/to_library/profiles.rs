//! The consumer profiles: all frameworks that tensors are exported to, and what each silently gets wrong.

use std::ptr;

use dlbridge::{DataType, DataTypeCode as Code, Device, Tensor};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::framework::{
    Argument, Behaviour, FRAMEWORK, Framework, Input, Layout, Need, ReadOnly, Request,
    is_backwards, is_common, is_complex, is_packed, is_plain, is_rare,
};
use dlbridge_pyo3::import_options::wrong_type;
use dlbridge_pyo3::python::error::{is_absent, library};

/// All frameworks, ordered as messages list them.
pub(super) static FRAMEWORKS: [&Framework; 16] = [
    &NUMPY,
    &TORCH,
    &JAX,
    &TENSORFLOW,
    &PADDLE,
    &CUPY,
    &PYARROW,
    &MLX,
    &TVM_FFI,
    &ONNXRUNTIME,
    &WARP,
    &DPNP,
    &ARRAY_API_STRICT,
    &POLARS,
    &PANDAS,
    &PILLOW,
];

impl Framework {
    /// The framework with a name or an alias.
    pub(crate) fn of_name(name: &str) -> PyResult<&'static Self> {
        let mut all = FRAMEWORKS.into_iter();
        let found = all.find(|known| known.name == name || known.aliases.contains(&name));
        found.ok_or_else(|| {
            if name.parse::<Device>().is_ok() || name.split(':').next() == Some("cuda") {
                let device = if name == "cuda" { "cuda:0" } else { name };
                return PyValueError::new_err(format!(
                    "'{name}' is a device, not a library; call dlbridge.asdlpack(t, device='{device}')"
                ));
            }
            let names: Vec<_> = FRAMEWORKS.iter().map(|framework| framework.name).collect();
            PyValueError::new_err(format!(
                "unknown library '{name}'; known: {}; for another library, call its own \
                 from_dlpack(t)",
                names.join(", ")
            ))
        })
    }

    /// The framework in an argument: its name, or its module.
    pub(crate) fn of_argument(
        argument: &str,
        library: &Bound<'_, PyAny>,
    ) -> PyResult<&'static Self> {
        let Ok(module) = library.cast::<PyModule>() else {
            let wrong = |_| wrong_type(argument, "the name of a library, or its module", library);
            return Self::of_name(&library.extract::<String>().map_err(wrong)?);
        };
        let name = module.name()?;
        let name = name.to_cow()?;
        Self::of_module(&name).map_or_else(|| Self::of_name(&name), Ok)
    }

    /// The framework that an object belongs to.
    pub(super) fn of_object(object: &Bound<'_, PyAny>) -> PyResult<Option<&'static Self>> {
        let py = object.py();
        let bases = object.get_type().getattr(intern!(py, "__mro__"))?.cast_into::<PyTuple>()?;
        for class in bases.iter() {
            // A metaclass may return anything.
            if let Ok(module) = class.getattr(intern!(py, "__module__"))?.extract::<String>()
                && let Some(framework) = Self::of_module(&module)
            {
                return Ok(Some(framework));
            }
        }
        Ok(None)
    }

    /// The framework that a module is of.
    fn of_module(module: &str) -> Option<&'static Self> {
        let package = match module.split('.').next()? {
            // The classes of JAX.
            "jaxlib" => "jax",
            package => package,
        };
        FRAMEWORKS.into_iter().find(|framework| framework.package() == package)
    }

    /// Its index in [`FRAMEWORKS`].
    pub(super) fn index(&'static self) -> usize {
        // A loop that stops at this framework, which is always in the list.
        FRAMEWORKS.iter().take_while(|&&framework| !ptr::eq(framework, self)).count()
    }
}

pub(crate) static NUMPY: Framework = Framework {
    name: "numpy",
    // The arrays of ml_dtypes are NumPy arrays.
    aliases: &["np", "ml_dtypes"],
    module: "numpy",
    enter: array,
    on_device: None,
    ndim: 0..=64,
    takes: |dtype| {
        let known = match dtype.code() {
            Code::INT | Code::UINT => matches!(dtype.bits(), 1 | 2 | 4 | 8 | 16 | 32 | 64),
            Code::FLOAT => is_plain(dtype),
            Code::COMPLEX => matches!(dtype.bits(), 32 | 64 | 128),
            Code::OPAQUE_HANDLE => false,
            _ => true,
        };
        known && dtype.lanes() == 1
    },
    counts_bytes: false,
    copies: |tensor| {
        is_packed(tensor).then(|| {
            Need::new(
                "numpy does not support packed elements and unpacks them to a byte each",
                "store one element in a byte from the beginning",
            )
        })
    },
    ..FRAMEWORK
};

/// An array of NumPy over the same memory. `numpy.from_dlpack` refuses the dtypes of `ml_dtypes`, so these are passed as
/// unsigned integers.
fn array<'py>(
    from_dlpack: &Bound<'py, PyAny>,
    input: &Input<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, tensor) = (from_dlpack.py(), input.tensor.get().tensor());
    let (dtype, code) = (tensor.dtype(), tensor.dtype().code());
    let is_integer = code == Code::UINT && !dtype.is_subbyte();
    if code != Code::BFLOAT && (is_common(dtype) || is_integer) {
        return from_dlpack.call1((input.tensor,));
    }
    let name = dtype.to_string();
    let refuse =
        |what: &str| PyBufferError::new_err(format!("NumPy lacks a dtype for {name}{what}"));
    let ml_dtypes = match py.import(intern!(py, "ml_dtypes")) {
        Err(error) if is_absent(&error, py, "ml_dtypes")? => {
            return Err(refuse("; install ml_dtypes, which may have one"));
        }
        module => module?,
    };
    let Some(scalar) = ml_dtypes.getattr_opt(name.as_str())? else {
        return Err(refuse(", and so does ml_dtypes"));
    };
    if is_packed(tensor) && !input.may_copy {
        return Err(refuse(" that is packed, and unpacking needs a copy"));
    }
    from_dlpack.call1((input.integers()?,))?.call_method1(intern!(py, "view"), (scalar,))
}

/// An array of NumPy over the same memory, for another framework.
fn array_of<'py>(input: &Input<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    let module = library(input.tensor.py(), NUMPY.module, NUMPY.package(), NUMPY.name)?;
    array(&module.getattr(NUMPY.function)?, input)
}

pub(crate) static TORCH: Framework = Framework {
    name: "torch",
    aliases: &["pytorch"],
    module: "torch",
    table_of: Some("Tensor"),
    on_device: Some(Behaviour { layout: Layout::NonNegative, ..Behaviour::DEVICE }),
    // PyTorch tensors cannot have negative strides.
    layout_limit: Layout::NonNegative,
    takes: |dtype| {
        let unknown = [DataType::FLOAT8_E3M4, DataType::FLOAT8_E4M3, DataType::FLOAT8_E4M3B11FNUZ];
        let rare = is_rare(dtype) && dtype != DataType::COMPLEX32;
        let known = !dtype.is_subbyte() && !rare && !unknown.contains(&dtype);
        // Two four-bit elements in a byte, which PyTorch names `float4_e2m1fn_x2`.
        (known && dtype.lanes() == 1) || dtype == DataType::FLOAT4_E2M1FN.with_lanes(2)
    },
    counts_bytes: false,
    ..FRAMEWORK
};

pub(crate) static JAX: Framework = Framework {
    name: "jax",
    module: "jax.dlpack",
    on_device: Some(Behaviour {
        request: Request::Legacy,
        read_only: ReadOnly::Immutable,
        layout: Layout::Compact,
        align: 64,
        ..Behaviour::FREE
    }),
    immutable: true,
    takes: |dtype| dtype.lanes() == 1 && !dtype.is_subbyte() && !is_rare(dtype),
    refuses: jax_would_narrow,
    ..FRAMEWORK
};

/// Refuses elements that JAX would cut to 32 bits without an error, as it does by default.
fn jax_would_narrow(py: Python<'_>, tensor: &Tensor) -> PyResult<Option<String>> {
    let dtype = tensor.dtype();
    let wide = [DataType::INT64, DataType::UINT64, DataType::FLOAT64, DataType::COMPLEX128];
    if !wide.contains(&dtype) {
        return Ok(None);
    }
    let jax = match py.import(intern!(py, "jax")) {
        Err(error) if is_absent(&error, py, "jax")? => return Ok(None),
        jax => jax?,
    };
    let config = jax.getattr(intern!(py, "config"))?;
    let has_wide = config.getattr(intern!(py, "jax_enable_x64"))?.is_truthy()?;
    Ok((!has_wide).then(|| {
        format!(
            "jax would narrow {dtype}, which changes the values; call \
             jax.config.update('jax_enable_x64', True), or convert the elements first"
        )
    }))
}

static TENSORFLOW: Framework = Framework {
    name: "tensorflow",
    aliases: &["tf"],
    module: "tensorflow",
    function: "experimental.dlpack.from_dlpack",
    argument: Argument::Capsule,
    enter: |function, input| function.call1((input.capsule()?,)),
    on_device: Some(Behaviour {
        request: Request::Legacy,
        read_only: ReadOnly::Immutable,
        layout: Layout::C,
        align: 64,
        ..Behaviour::FREE
    }),
    immutable: true,
    // TensorFlow accepts less, and then aborts the process in the middle of a computation.
    align_limit: 64,
    takes: |dtype| {
        let others = [DataType::BFLOAT16, DataType::BOOL];
        is_plain(dtype) || is_complex(dtype) || others.contains(&dtype)
    },
    ..FRAMEWORK
};

static PADDLE: Framework = Framework {
    name: "paddle",
    aliases: &["paddlepaddle"],
    module: "paddle",
    table_of: Some("Tensor"),
    on_device: Some(Behaviour { layout: Layout::NonNegative, ..Behaviour::DEVICE }),
    // Paddle imports negative strides, but few of its operations support them.
    layout_limit: Layout::NonNegative,
    ndim: 0..=9,
    takes: |dtype| {
        let others =
            [DataType::BOOL, DataType::BFLOAT16, DataType::FLOAT8_E4M3FN, DataType::FLOAT8_E5M2];
        is_plain(dtype) || is_complex(dtype) || others.contains(&dtype)
    },
    refuses: |_, tensor| {
        Ok((tensor.dtype() == DataType::UINT16).then(|| {
            "paddle reads uint16 as bfloat16; convert the elements to another dtype first"
                .to_owned()
        }))
    },
    ..FRAMEWORK
};

/// CuPy accepts only data on a GPU, so its behaviour is not measured.
static CUPY: Framework =
    Framework { name: "cupy", module: "cupy", stated: Some(Behaviour::DEVICE), ..FRAMEWORK };

static PYARROW: Framework = Framework {
    name: "pyarrow",
    aliases: &["pa"],
    module: "pyarrow",
    function: "Tensor.from_dlpack",
    on_device: None,
    takes: is_plain,
    ..FRAMEWORK
};

static MLX: Framework = Framework {
    name: "mlx",
    module: "mlx.core",
    on_device: None,
    takes: |dtype| {
        let others = [DataType::BOOL, DataType::BFLOAT16, DataType::COMPLEX64];
        // MLX silently converts 64-bit floats to 32 bits.
        (is_plain(dtype) && dtype != DataType::FLOAT64) || others.contains(&dtype)
    },
    ..FRAMEWORK
};

/// The FFI of TVM imports objects through their C exchange API.
static TVM_FFI: Framework = Framework {
    name: "tvm_ffi",
    aliases: &["tvm-ffi"],
    module: "tvm_ffi",
    argument: Argument::ExchangeApi,
    takes: |_| true,
    refuses: |_, tensor| {
        Ok(tensor.is_subbyte_padded().then(|| {
            let dtype = tensor.dtype();
            format!(
                "tvm_ffi does not support {dtype} elements in a byte each; convert them to another dtype \
                 first"
            )
        }))
    },
    ..FRAMEWORK
};

static ONNXRUNTIME: Framework = Framework {
    name: "onnxruntime",
    aliases: &["ort"],
    module: "onnxruntime",
    function: "OrtValue.from_dlpack",
    on_device: Some(Behaviour { request: Request::Legacy, layout: Layout::C, ..Behaviour::DEVICE }),
    takes: |dtype| is_plain(dtype) || dtype == DataType::BFLOAT16,
    ..FRAMEWORK
};

static WARP: Framework = Framework {
    name: "warp",
    module: "warp",
    prepare: Some("init"),
    on_device: Some(Behaviour {
        request: Request::Legacy,
        idle_strides: true,
        ..Behaviour::DEVICE
    }),
    ndim: 1..=4,
    takes: |dtype| is_plain(dtype) || [DataType::BFLOAT16, DataType::BOOL].contains(&dtype),
    ..FRAMEWORK
};

static DPNP: Framework = Framework {
    name: "dpnp",
    module: "dpnp",
    on_device: Some(Behaviour::FREE),
    takes: |dtype| is_plain(dtype) || is_complex(dtype) || dtype == DataType::BOOL,
    refuses: |_, tensor| {
        let on_device = !tensor.device().device_type().is_host_accessible();
        Ok((on_device && is_backwards(tensor)).then(|| {
            "dpnp expects the memory to begin at the address of the first element, and it begins before \
             that, since the strides are negative; copy the tensor first"
                .to_owned()
        }))
    },
    ..FRAMEWORK
};

static ARRAY_API_STRICT: Framework = Framework {
    name: "array_api_strict",
    aliases: &["array-api-strict"],
    module: "array_api_strict",
    on_device: None,
    takes: |dtype| {
        let known = is_plain(dtype) || is_complex(dtype) || dtype == DataType::BOOL;
        known && dtype != DataType::FLOAT16
    },
    ..FRAMEWORK
};

/// The columns of polars, through Arrow.
static POLARS: Framework = Framework {
    name: "polars",
    aliases: &["pl"],
    module: "polars",
    function: "Series",
    stated: Some(Behaviour {
        request: Request::Other("arrow"),
        read_only: ReadOnly::Immutable,
        layout: Layout::C,
        ..Behaviour::FREE
    }),
    on_device: None,
    ndim: 1..=1,
    takes: is_plain,
    copies: |tensor| {
        let size = tensor.dtype().itemsize();
        let is_unaligned = !tensor.is_empty() && !tensor.data().addr().is_multiple_of(size);
        is_unaligned.then(|| {
            Need::new(
                "polars copies elements whose address is not a multiple of their size",
                "copy them once, with asdlpack(obj, copy=True)",
            )
        })
    },
    ..FRAMEWORK
};

/// The columns and tables of pandas, through arrays of NumPy.
static PANDAS: Framework = Framework {
    name: "pandas",
    aliases: &["pd"],
    module: "pandas",
    function: "Series",
    enter: |series, input| {
        let (py, array) = (series.py(), array_of(input)?);
        let class = match input.tensor.get().tensor().ndim() {
            1 => series.clone(),
            _ => py.import(intern!(py, "pandas"))?.getattr(intern!(py, "DataFrame"))?,
        };
        let options = PyDict::new(py);
        options.set_item(intern!(py, "copy"), false)?;
        class.call((array,), Some(&options))
    },
    stated: Some(Behaviour { request: Request::Other("array"), ..Behaviour::FREE }),
    on_device: None,
    ndim: 1..=2,
    takes: |dtype| is_plain(dtype) || is_complex(dtype) || dtype == DataType::BOOL,
    counts_bytes: false,
    ..FRAMEWORK
};

static PILLOW: Framework = Framework {
    name: "pillow",
    aliases: &["PIL"],
    module: "PIL.Image",
    function: "fromarray",
    enter: image,
    stated: Some(Behaviour {
        request: Request::Other("array or arrow"),
        read_only: ReadOnly::Immutable,
        layout: Layout::C,
        ..Behaviour::FREE
    }),
    on_device: None,
    ndim: 2..=3,
    takes: |dtype| {
        let modes = [DataType::UINT8, DataType::UINT16, DataType::INT32, DataType::FLOAT32];
        modes.contains(&dtype) || dtype == DataType::BOOL
    },
    counts_bytes: false,
    refuses: |_, tensor| {
        let (dtype, shape) = (tensor.dtype(), tensor.shape());
        let Some(bands) = shape.get(2) else { return Ok(None) };
        let fits = dtype == DataType::UINT8 && (2..=4).contains(bands);
        Ok((!fits).then(|| {
            format!(
                "pillow takes images of the shape (height, width), or (height, width, bands) of uint8 with 2 \
                 to 4 bands, not {shape:?} of {dtype}; reshape or slice the tensor first"
            )
        }))
    },
    copies: |tensor| {
        let bands = tensor.shape().get(2).is_some_and(|&bands| bands != 4);
        (bands || tensor.dtype() == DataType::BOOL).then(|| {
            Need::new(
                "pillow keeps such an image in another layout",
                "make an image of the mode L, F, I, I;16 or RGBA",
            )
        })
    },
    ..FRAMEWORK
};

/// An image. `fromarray` copies the modes F and I, which `fromarrow` shares; for `I;16` it is the reverse.
fn image<'py>(
    from_array: &Bound<'py, PyAny>,
    input: &Input<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, tensor) = (from_array.py(), input.tensor.get().tensor());
    let mode = match (tensor.shape(), tensor.dtype()) {
        ([_, _], DataType::FLOAT32) => Some("F"),
        ([_, _], DataType::INT32) => Some("I"),
        _ => None,
    };
    let module = py.import(intern!(py, "PIL.Image"))?;
    let from_arrow = module.getattr_opt(intern!(py, "fromarrow"))?;
    if let (Some(mode), &[height, width, ..], false) = (mode, tensor.shape(), tensor.is_empty()) {
        if let Some(from_arrow) = from_arrow {
            let pixels = input.tensor.call_method1(intern!(py, "reshape"), (-1,))?;
            return from_arrow.call1((pixels, mode, (width, height)));
        }
        if !input.may_copy {
            return Err(PyBufferError::new_err(format!(
                "this release of pillow copies images of the mode {mode}, and copy=False forbids it; \
                 install one that has PIL.Image.fromarrow"
            )));
        }
    }
    from_array.call1((array_of(input)?,))
}
