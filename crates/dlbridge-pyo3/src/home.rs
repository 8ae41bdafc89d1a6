//! Going home: a tensor as an object of the library that the caller works with.

use std::sync::Arc;

use dlbridge::{DataType, DataTypeCode, Device, Tensor, sys};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyMemoryView, PyTuple};

use crate::PyTensor;
use crate::borrow::Guard;
use crate::consumer::{Argument, CONSUMERS, Consumer, Need, is_common};
use crate::copies;
use crate::error::{is_absent, library, to_py_err, type_name};
use crate::lent;
use crate::once::once;
use crate::protocol::exchange_api::Table;
use crate::protocol::{buffer_abi, is_instance, normalized, table_of};
use crate::wanted::{Wanted, expect_bool, wrong_type};

/// The consumer of a name.
pub(crate) fn consumer(name: &str) -> PyResult<&'static Consumer> {
    Consumer::by_name(name).ok_or_else(|| {
        if name.parse::<Device>().is_ok() || name.split(':').next() == Some("cuda") {
            let device = if name == "cuda" { "cuda:0" } else { name };
            return PyValueError::new_err(format!(
                "'{name}' is a device, not a library; call dlbridge.asdlpack(t, device='{device}')"
            ));
        }
        let names: Vec<_> = CONSUMERS.iter().map(|consumer| consumer.name).collect();
        PyValueError::new_err(format!(
            "'{name}' is no library that is known here; those are {}; call the from_dlpack of \
             another one",
            names.join(", ")
        ))
    })
}

/// The name of the library in an argument `library`: a name, or a module.
pub(crate) fn library_name(library: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(module) = library.cast::<PyModule>() else {
        return library
            .extract()
            .map_err(|_| wrong_type("library", "a name like 'torch', or a module", library));
    };
    let name = module.name()?.to_cow()?.into_owned();
    let package = name.split('.').next().unwrap_or_default();
    Ok(Consumer::by_package(package).map_or(name, |consumer| consumer.name.to_owned()))
}

/// As [`to`], with arguments as Python passes them.
pub(crate) fn to_named<'py>(
    tensor: &Bound<'py, PyTensor>,
    library: &str,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    to(tensor, consumer(library)?, copy)
}

/// The tensor as an object of a library: without a copy, unless the library would get something wrong
/// otherwise, or `copy` asks for one.
pub(crate) fn to<'py>(
    tensor: &Bound<'py, PyTensor>,
    consumer: &'static Consumer,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, name) = (tensor.py(), consumer.name);
    let this = tensor.get();
    if let Some(reason) = refusal(py, consumer, this.tensor())? {
        return Err(PyBufferError::new_err(reason));
    }
    let needs_copy = consumer.needs_copy(this.tensor(), this.is_read_only());
    if let (Some(Need { reason, remedy }), Some(false)) = (&needs_copy, copy) {
        return Err(PyBufferError::new_err(format!(
            "a copy would be needed, since {reason}, and copy=False forbids it; {remedy}"
        )));
    }
    let is_copied_here = !consumer.copies_itself(this.tensor());
    let tensor = match is_copied_here && (needs_copy.is_some() || copy == Some(true)) {
        true => {
            &PyTensor::import(tensor.as_any(), &Wanted { copy: Some(true), ..Wanted::default() })?
        }
        false => tensor,
    };
    let mended;
    let tensor = match with_truth_values(tensor, consumer, copy)? {
        Some(copy) => {
            mended = copy;
            &mended
        }
        None => tensor,
    };
    let dtype = tensor.get().tensor().dtype();
    let entrance = Entrance::of(py, consumer)?;
    if let Some(table) = entrance.table
        && is_common(dtype)
        && tensor.get().tensor().device() == Device::CPU
    {
        return table.export(py, tensor.get());
    }
    if name == "numpy" && !numpy_knows(dtype) {
        return to_ml_dtypes(tensor, entrance.function.bind(py), copy);
    }
    match consumer.argument {
        Argument::Object | Argument::LegacyObject => entrance.function.bind(py).call1((tensor,)),
        Argument::LegacyCapsule => {
            let capsule = tensor.call_method0(intern!(py, "__dlpack__"))?;
            entrance.function.bind(py).call1((capsule,))
        }
        Argument::Arrow => entrance.function.bind(py).call1((tensor,)),
        Argument::Table => to_table(tensor, entrance.function.bind(py)),
        Argument::Image => to_image(tensor, entrance.function.bind(py), copy),
    }
}

/// A `Series` of pandas, or a `DataFrame` of two dimensions.
fn to_table<'py>(
    tensor: &Bound<'py, PyTensor>,
    series: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let array = to(tensor, consumer("numpy")?, Some(false))?;
    let class = match tensor.get().tensor().ndim() {
        1 => series.clone(),
        _ => py.import(intern!(py, "pandas"))?.getattr(intern!(py, "DataFrame"))?,
    };
    let options = PyDict::new(py);
    options.set_item(intern!(py, "copy"), false)?;
    class.call((array,), Some(&options))
}

/// An image of Pillow. Its `fromarray` copies the modes F and I, which `fromarrow` shares; `I;16` is the other way round.
fn to_image<'py>(
    tensor: &Bound<'py, PyTensor>,
    from_array: &Bound<'py, PyAny>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, this) = (tensor.py(), tensor.get().tensor());
    let mode = match (this.shape(), this.dtype()) {
        ([_, _], DataType::FLOAT32) => Some("F"),
        ([_, _], DataType::INT32) => Some("I"),
        _ => None,
    };
    let module = py.import(intern!(py, "PIL.Image"))?;
    let from_arrow = module.getattr_opt(intern!(py, "fromarrow"))?;
    if let (Some(mode), &[height, width, ..], false) = (mode, this.shape(), this.is_empty()) {
        if let Some(from_arrow) = from_arrow {
            let pixels = tensor.call_method1(intern!(py, "reshape"), (-1,))?;
            return from_arrow.call1((pixels, mode, (width, height)));
        }
        if copy == Some(false) {
            return Err(PyBufferError::new_err(format!(
                "this release of pillow copies images of the mode {mode}, and copy=False forbids it; \
                 install one that has PIL.Image.fromarrow"
            )));
        }
    }
    from_array.call1((to(tensor, consumer("numpy")?, Some(false))?,))
}

/// A new tensor of our own as an object of a library. Where the library has a table it takes the tensor
/// itself, so that there is no object of ours on the way.
pub(crate) fn give<'py>(
    py: Python<'py>,
    tensor: PyTensor,
    consumer: &'static Consumer,
) -> PyResult<Bound<'py, PyAny>> {
    let new = tensor.tensor();
    let (dtype, device) = (new.dtype(), new.device());
    let as_it_is = is_common(dtype)
        && dtype != DataType::BOOL
        && device == Device::CPU
        && consumer.table_of.is_some()
        && consumer.needs_copy(new, tensor.is_read_only()).is_none()
        && refusal(py, consumer, new)?.is_none();
    if as_it_is && let Some(table) = Entrance::of(py, consumer)?.table {
        return match tensor.into_tensor() {
            Ok(tensor) => table.give(py, tensor),
            Err(tensor) => to(&Bound::new(py, tensor)?, consumer, None),
        };
    }
    to(&Bound::new(py, tensor)?, consumer, None)
}

/// A copy for a library that computes with the bytes of truth values, if some are neither 0 nor 1.
fn with_truth_values<'py>(
    tensor: &Bound<'py, PyTensor>,
    consumer: &Consumer,
    copy: Option<bool>,
) -> PyResult<Option<Bound<'py, PyTensor>>> {
    let this = tensor.get();
    if !consumer.counts_bytes || this.tensor().dtype() != DataType::BOOL {
        return Ok(None);
    }
    let same = lent::same(this.tensor(), "dlpack", true).map_err(to_py_err)?;
    match normalized(same, copy)? {
        (_, None) => Ok(None),
        (mended, Some(_)) => Bound::new(tensor.py(), PyTensor::from(mended)).map(Some),
    }
}

/// Why a library cannot have a tensor: what is always so, and what its settings say now.
fn refusal(py: Python<'_>, consumer: &Consumer, tensor: &Tensor) -> PyResult<Option<String>> {
    use DataTypeCode as Code;
    let dtype = tensor.dtype();
    let wide = matches!(
        (dtype.code(), dtype.bits()),
        (Code::INT | Code::UINT | Code::FLOAT, 64) | (Code::COMPLEX, 128)
    );
    if let Some(reason) = consumer.refuses(tensor) {
        return Ok(Some(reason));
    }
    if consumer.name != "jax" || !wide {
        return Ok(None);
    }
    let jax = match py.import(intern!(py, "jax")) {
        Err(error) if is_absent(&error, py, "jax")? => return Ok(None),
        jax => jax?,
    };
    let config = jax.getattr(intern!(py, "config"))?;
    if config.getattr(intern!(py, "jax_enable_x64"))?.is_truthy()? {
        return Ok(None);
    }
    Ok(Some(format!(
        "jax makes 32 bits of {dtype}, which changes the values, unless \
         jax.config.update('jax_enable_x64', True) allows 64; do that, or convert the elements first"
    )))
}

/// How a library is entered, found out once.
struct Entrance {
    function: Py<PyAny>,
    table: Option<Table>,
}

/// One for each consumer.
static ENTRANCES: [PyOnceLock<Entrance>; CONSUMERS.len()] =
    [const { PyOnceLock::new() }; CONSUMERS.len()];

impl Entrance {
    fn of(py: Python<'_>, consumer: &'static Consumer) -> PyResult<&'static Self> {
        let known = &ENTRANCES[consumer.index()];
        if let Some(entrance) = known.get(py) {
            return Ok(entrance);
        }
        // Not within the cell: an import runs any code, which may come here again, or wait for a thread that does.
        let found = Self::find_out(py, consumer)?;
        once(known, py, || Ok(found))
    }

    fn find_out(py: Python<'_>, consumer: &'static Consumer) -> PyResult<Self> {
        let module = library(py, consumer.module, consumer.package(), consumer.name)?;
        let within = |path: &str| {
            path.split('.').try_fold(module.clone().into_any(), |object, name| object.getattr(name))
        };
        let function = within(consumer.function)?;
        if let Some(prepare) = consumer.prepare {
            within(prepare)?.call0()?;
        }
        let table = match consumer.table_of {
            Some(class) => table_of(&within(class)?.cast_into()?)?,
            None => None,
        };
        Ok(Self { function: function.unbind(), table })
    }
}

/// Whether `numpy.from_dlpack` takes a dtype.
fn numpy_knows(dtype: DataType) -> bool {
    let (code, whole) = (dtype.code(), !dtype.is_subbyte());
    code != DataTypeCode::BFLOAT && (is_common(dtype) || (code == DataTypeCode::UINT && whole))
}

/// An array of one of the dtypes that the package `ml_dtypes` adds to NumPy, over the same memory:
/// by way of unsigned integers.
fn to_ml_dtypes<'py>(
    tensor: &Bound<'py, PyTensor>,
    from_dlpack: &Bound<'py, PyAny>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let (this, read_only) = (tensor.get().tensor(), tensor.get().is_read_only());
    let name = this.dtype().to_string();
    let refuse =
        |what: &str| PyBufferError::new_err(format!("NumPy has no dtype for {name}{what}"));
    let ml_dtypes = match py.import(intern!(py, "ml_dtypes")) {
        Err(error) if is_absent(&error, py, "ml_dtypes")? => {
            return Err(refuse("; install ml_dtypes, which may have one"));
        }
        module => module?,
    };
    let Some(scalar) = ml_dtypes.getattr_opt(name.as_str())? else {
        return Err(refuse(", and ml_dtypes has none either"));
    };
    let copied = this.dtype().is_subbyte() && !this.is_subbyte_padded();
    let unpacked;
    let this = match copied {
        true if copy == Some(false) => {
            return Err(refuse(" that is packed, and to unpack it needs a copy"));
        }
        true => {
            let _reading = Guard::reading(this, "tensor that is copied")?;
            unpacked = Arc::new(copies::unpacked(this)?);
            &unpacked
        }
        false => this,
    };
    // The largest of these has eight bytes.
    let bits = (this.dtype().itemsize() * 8) as u8;
    let integers = DataType::new(DataTypeCode::UINT, bits, 1);
    let integers = lent::with_dtype(this, "dlpack", read_only && !copied, integers);
    let integers = Bound::new(py, PyTensor::from(integers.map_err(to_py_err)?))?;
    from_dlpack.call1((integers,))?.call_method1(intern!(py, "view"), (scalar,))
}

/// Make an object of the library that `likeness` belongs to, from anything that `asdlpack` takes.
///
/// What bytes, bytearray, array.array and mmap get is a memoryview.
#[pyfunction]
#[pyo3(signature = (likeness, obj, /, *, copy=None))]
pub fn like<'py>(
    likeness: &Bound<'py, PyAny>,
    obj: &Bound<'py, PyAny>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    let wanted = Wanted { copy, ..Wanted::default() };
    let tensor = PyTensor::import(obj, &wanted)?;
    if likeness.is_instance_of::<PyTensor>() {
        return Ok(tensor.into_any());
    }
    // What was copied on the way in needs no copy on the way out.
    let made = like_tensor(likeness, &tensor, copy.filter(|&copy| !copy))?;
    made.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{} belongs to no library that is known here; use asdlpack(obj), and what that library \
             makes tensors with; or asdlpack(obj).numpy(), which most take",
            type_name(likeness)
        ))
    })
}

/// The library that an object belongs to.
fn consumer_of(object: &Bound<'_, PyAny>) -> PyResult<Option<&'static Consumer>> {
    let py = object.py();
    let bases = object.get_type().getattr(intern!(py, "__mro__"))?.cast_into::<PyTuple>()?;
    for class in bases.iter() {
        // A metaclass may say anything.
        let Ok(module) = class.getattr(intern!(py, "__module__"))?.extract::<String>() else {
            continue;
        };
        let package = module.split('.').next().unwrap_or_default();
        if let Some(consumer) = Consumer::by_package(package) {
            return Ok(Some(consumer));
        }
    }
    Ok(None)
}

/// An array of times as a column of the library that `likeness` belongs to, or as it is if that is not one with columns.
pub(crate) fn like_times<'py>(
    likeness: &Bound<'py, PyAny>,
    times: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = times.py();
    let constructor = match consumer_of(likeness)?.map(|consumer| consumer.name) {
        Some("pandas") if is_instance(likeness, intern!(py, "pandas"), intern!(py, "Index"))? => {
            ("pandas", "Index")
        }
        Some("pandas") => ("pandas", "Series"),
        Some("polars") => ("polars", "Series"),
        Some("pyarrow") => ("pyarrow", "array"),
        _ => return Ok(times),
    };
    py.import(constructor.0)?.getattr(constructor.1)?.call1((times,))
}

/// A tensor as an object of the library that `likeness` belongs to; `None` if that is not known.
pub(crate) fn like_tensor<'py>(
    likeness: &Bound<'py, PyAny>,
    tensor: &Bound<'py, PyTensor>,
    copy: Option<bool>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = likeness.py();
    if let Some(consumer) = consumer_of(likeness)? {
        return to(tensor, consumer, copy).map(Some);
    }
    if let Some(table) = table_of(&likeness.get_type())? {
        tensor.get().in_default_order(py)?;
        return table.export(py, tensor.get()).map(Some);
    }
    if buffer_abi::check(likeness) {
        if !buffer_abi::EXPORTS {
            return Err(PyBufferError::new_err(buffer_abi::NO_EXPORT));
        }
        return Ok(Some(PyMemoryView::from(tensor.as_any())?.into_any()));
    }
    Ok(None)
}

/// The tensor as `__array__` is to answer: `dtype` and `copy` as NumPy passes them.
pub(crate) fn to_array<'py>(
    tensor: &Bound<'py, PyTensor>,
    dtype: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    let numpy = consumer("numpy")?;
    // NumPy's own exception, which programs catch to allow the copy.
    if let (Some(false), Some(Need { reason, remedy })) =
        (copy, numpy.needs_copy(tensor.get().tensor(), tensor.get().is_read_only()))
    {
        return Err(PyValueError::new_err(format!(
            "unable to avoid a copy, since {reason}, and copy=False forbids it; {remedy}"
        )));
    }
    let array = to(tensor, numpy, copy)?;
    let Some(dtype) = dtype else { return Ok(array) };
    let found = array.getattr(intern!(py, "dtype"))?;
    if found.eq(dtype)? {
        return Ok(array);
    }
    if copy == Some(false) {
        return Err(PyValueError::new_err(format!(
            "elements of {found} become {dtype} by a copy, and copy=False forbids it"
        )));
    }
    array.call_method1(intern!(py, "astype"), (dtype,))
}

/// Where a tensor came from: the version of DLPack of its managed tensor, and the names of its flags.
#[pyfunction]
#[pyo3(name = "_origin")]
pub fn origin(tensor: &Bound<'_, PyTensor>) -> (Option<String>, Vec<&'static str>) {
    let this = tensor.get();
    let version = this.version().map(|version| format!("{}.{}", version.major, version.minor));
    let flags = this.tensor().flags();
    let names = [
        (sys::DLPACK_FLAG_BITMASK_READ_ONLY, "read-only"),
        (sys::DLPACK_FLAG_BITMASK_IS_COPIED, "copied"),
        (sys::DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, "sub-byte padded"),
    ];
    let set = names.into_iter().filter(|(bit, _)| flags & bit != 0);
    (version, set.map(|(_, name)| name).collect())
}

/// The name of a library, of those that it is known by.
#[pyfunction]
#[pyo3(name = "_canonical")]
pub fn canonical(library: &str) -> PyResult<&'static str> {
    Ok(consumer(library)?.name)
}

/// What is known of the libraries that tensors go to, as a list of dictionaries.
#[pyfunction]
pub fn consumers(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let fields = |consumer: &Consumer| {
        let fields = PyDict::new(py);
        fields.set_item("name", consumer.name)?;
        fields.set_item("module", consumer.module)?;
        fields.set_item("function", consumer.function)?;
        fields.set_item("takes", consumer.argument.describe())?;
        fields.set_item("exchange_api", consumer.table_of.is_some())?;
        fields.set_item("read_only", consumer.read_only.describe())?;
        fields.set_item("layout", consumer.layout.describe())?;
        fields.set_item("max_ndim", consumer.max_ndim)?;
        fields.set_item("align", consumer.align)?;
        let misreads = consumer.misread.map(|(dtype, other)| (dtype.to_string(), other));
        fields.set_item("misreads", misreads)?;
        Ok(fields)
    };
    CONSUMERS.iter().map(fields).collect()
}

/// How a library takes a tensor: why not at all, why with a copy, and what to do about that.
#[pyfunction]
pub fn fit(
    tensor: &Bound<'_, PyTensor>,
    library: &str,
) -> PyResult<(Option<String>, Option<String>, Option<String>)> {
    let (consumer, this) = (consumer(library)?, tensor.get());
    let refused = refusal(tensor.py(), consumer, this.tensor())?;
    let need = consumer.needs_copy(this.tensor(), this.is_read_only());
    let (reason, remedy) = need.map(|need| (need.reason, need.remedy)).unzip();
    Ok((refused, reason, remedy))
}
