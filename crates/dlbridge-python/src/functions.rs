//! The functions of the package that no other file has, with arguments as Python passes them.

use std::num::NonZeroUsize;

use dlbridge::{Device, Tensor};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyException};
use pyo3::prelude::*;

use crate::class::dtype::DtypeName;
use dlbridge_pyo3::import;
use dlbridge_pyo3::import_options::{ImportOptions, expect_bool, wrong_type};
use dlbridge_pyo3::imported::Protocol;
use dlbridge_pyo3::python::error::{to_py_err, type_name};
use dlbridge_pyo3::python::objects::attribute;

use crate::bytes;
use crate::device::Streams;
use crate::frameworks::advice;
use crate::import::dlpack::expect_named_device;
use crate::import::options::{
    expect_alignment, expect_order, expect_protocol, integer, wrong_value,
};
use crate::tensor::TensorObject;

/// Import any object that supports an exchange protocol.
///
/// The memory is shared whenever a tensor can express the data.
///
/// protocol selects one protocol and tries no other: 'exchange-api', 'dlpack', 'dlpack-legacy',
/// 'cuda-array-interface', 'array-interface', 'array-struct', 'buffer', 'arrow'.
/// copy=True copies, in C order; copy=False makes every copy an error.
/// device is the target device: 'cpu', 'cuda:0', or a tuple of DLPack device type and id.
/// align is the required alignment in bytes: a power of two, at most 1 GiB.
/// contiguous is 'C' or True, or 'F': the order in which the elements must be contiguous.
/// writable=True copies read-only data; writable=False marks the tensor as read-only.
/// assume_writable=True: the caller knows that the memory of a legacy producer, which cannot mark it, may be written.
/// stream is the caller's stream: a number as in the array API standard.
///
/// Raises TypeError for an object without a protocol and for arguments of the wrong type, ValueError for arguments
/// with a wrong value and for consumed capsules, BufferError for data that breaks a specification, that a tensor
/// cannot express, or that needs a copy although copy=False forbids it.
#[pyfunction]
#[pyo3(signature = (obj, /, *, protocol=None, copy=None, device=None, align=None, contiguous=None, writable=None, assume_writable=None, stream=None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords")]
pub(crate) fn asdlpack<'py>(
    obj: &Bound<'py, PyAny>,
    protocol: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    align: Option<&Bound<'py, PyAny>>,
    contiguous: Option<&Bound<'py, PyAny>>,
    writable: Option<&Bound<'py, PyAny>>,
    assume_writable: Option<&Bound<'py, PyAny>>,
    stream: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, TensorObject>> {
    let given = [protocol, copy, device, align, contiguous, writable, assume_writable];
    let options = match given.iter().any(Option::is_some) {
        true => read_options(given)?,
        false => ImportOptions::default(),
    };
    TensorObject::import_on(obj, &options, Streams::named(stream))
}

/// The options that Python code passed to [`asdlpack`]. Most calls pass none.
#[cold]
fn read_options(given: [Option<&Bound<'_, PyAny>>; 7]) -> PyResult<ImportOptions> {
    let [protocol, copy, device, align, contiguous, writable, assume_writable] = given;
    let flag = |name, value: Option<&Bound<'_, PyAny>>| {
        value.map(|value| expect_bool(name, value)).transpose()
    };
    Ok(ImportOptions {
        protocol: protocol.map(expect_protocol).transpose()?,
        copy: flag("copy", copy)?,
        device: device.map(expect_named_device).transpose()?,
        align: align.map(expect_alignment).transpose()?,
        order: contiguous.map(expect_order).transpose()?.unwrap_or_default(),
        writable: flag("writable", writable)?,
        assume_writable: flag("assume_writable", assume_writable)? == Some(true),
    })
}

/// Import an object that has __dlpack__, as the array API standard describes.
///
/// device is a tuple of DLPack device type and device id, or a name like 'cpu' or 'cuda:0'; stream as for asdlpack.
///
/// Raises AttributeError for an object without __dlpack__, and otherwise as asdlpack.
#[pyfunction]
#[pyo3(signature = (x, /, *, device=None, copy=None, stream=None))]
pub(crate) fn from_dlpack<'py>(
    x: &Bound<'py, PyAny>,
    device: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
    stream: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, TensorObject>> {
    let device = device.map(expect_named_device).transpose()?;
    let copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    if attribute(x, intern!(x.py(), "__dlpack__"))?.is_none() {
        return Err(PyAttributeError::new_err(format!(
            "'{}' object has no attribute '__dlpack__'; asdlpack looks for other protocols too",
            type_name(x)
        )));
    }
    let protocol = Some(Protocol::Dlpack);
    let options = ImportOptions { protocol, copy, device, ..ImportOptions::default() };
    TensorObject::import_on(x, &options, Streams::named(stream))
}

/// Make a new tensor in C order on the CPU, with unspecified contents.
///
/// align is a power of two, at most 1 GiB. Every new tensor is aligned to 256 bytes or more.
#[pyfunction]
#[pyo3(signature = (shape, /, dtype=DtypeName::from("float32"), *, device=None, align=None), text_signature = "(shape, /, dtype='float32', *, device=None, align=None)")]
pub(crate) fn empty<'py>(
    shape: &Bound<'py, PyAny>,
    dtype: DtypeName,
    device: Option<&Bound<'py, PyAny>>,
    align: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, TensorObject>> {
    let extents = bytes::expect_extents(shape)?;
    let dtype = dtype.expect()?;
    let align = align.map(expect_alignment).transpose()?.unwrap_or(1);
    if let Some(device) = device.map(expect_named_device).transpose()?
        && device != Device::CPU
    {
        return Err(PyBufferError::new_err(format!(
            "cannot allocate memory on {device}; make the tensor with a library for that device, and \
             import it"
        )));
    }
    let tensor = Tensor::zeroed_aligned(dtype, extents, align).map_err(to_py_err)?;
    TensorObject::new(shape.py(), tensor)
}

/// Set the largest number of threads for a copy, including the thread that calls.
///
/// num_threads is an integer from 1 to 1024; 1 means that no other thread copies. The copies of this package use it;
/// each extension built on dlbridge has a number of its own.
///
/// Raises TypeError for anything but an integer, ValueError for another integer.
#[pyfunction]
#[pyo3(signature = (num_threads, /))]
pub(crate) fn set_num_threads(num_threads: &Bound<'_, PyAny>) -> PyResult<()> {
    const EXPECTED: &str = "an integer from 1 to 1024";
    let number = integer(num_threads)?;
    let number = number.ok_or_else(|| wrong_type("num_threads", EXPECTED, num_threads))?;
    let threads = number.extract().ok().and_then(NonZeroUsize::new);
    let threads = threads.filter(|threads| threads.get() <= dlbridge::MAX_NUM_THREADS);
    let threads = threads.ok_or_else(|| wrong_value("num_threads", EXPECTED, &number))?;
    dlbridge::set_num_threads(threads);
    Ok(())
}

/// The largest number of threads for a copy, including the thread that calls.
///
/// The default is the number of processors that the process may use, at most 8.
#[pyfunction]
pub(crate) fn get_num_threads() -> usize {
    dlbridge::num_threads()
}

/// Returns true if an object has a protocol, or if the lookup of its attribute raises an exception.
#[pyfunction]
#[pyo3(name = "_has_protocol")]
pub(crate) fn has_protocol(obj: &Bound<'_, PyAny>, protocol: &Bound<'_, PyAny>) -> PyResult<bool> {
    match import::has(obj, expect_protocol(protocol)?) {
        Err(error) if error.is_instance_of::<PyException>(obj.py()) => Ok(true),
        has => has,
    }
}

/// The advice for an object without a protocol, for the messages of extensions.
#[pyfunction]
#[pyo3(name = "_remedy")]
pub(crate) fn remedy(obj: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    advice(obj.py(), "remedy", (obj, type_name(obj)))
}
