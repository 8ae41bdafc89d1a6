//! Files with tensors, for `dlbridge.files`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use dlbridge::TensorRef;
use dlbridge_files::{Error, Fault, FileWriter, Planned, SaveOptions, TensorFile, Value};
use dlbridge_pyo3::{PyTensor, import, while_detached};

use crate::class::dtype::DtypeName;
use crate::tensor::TensorObject;
use pyo3::exceptions::{
    PyFileNotFoundError, PyIsADirectoryError, PyKeyError, PyOSError, PyPermissionError,
    PyTypeError, PyValueError,
};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyDict, PyList};

/// The name, dtype, shape, number of bytes, alignment, quantised type, and the block's elements and bytes.
type Described = (String, Vec<usize>, u64, u64, Option<(String, usize, usize, Vec<usize>)>);

/// An open file.
#[pyclass(name = "_TensorFile", module = "dlbridge._core", frozen)]
pub(crate) struct File {
    file: TensorFile,
    /// The object that the file reads: the only other reference is in the file.
    reader: Option<Arc<Py<PyAny>>>,
}

#[pymethods]
impl File {
    /// Opens the bytes of a tensor, the file of a path, which is mapped, or the one behind a reader; floats of four bits
    /// are pairs, or alone.
    #[new]
    fn new(source: &Bound<'_, PyAny>, has_pairs: bool) -> PyResult<Self> {
        let py = source.py();
        let mut reader = None;
        let file = if let Some(tensor) = TensorObject::of(source) {
            let tensor = tensor.get().alias()?;
            py.detach(|| TensorFile::from_bytes(tensor))
        } else if let Ok(path) = source.extract::<PathBuf>() {
            // SAFETY: as for all memory that Python shares, the program promises that nothing writes the file while
            // Rust has a view of it (docs/safety.md).
            py.detach(|| unsafe { TensorFile::map(path) })
        } else {
            let object = reader.insert(Arc::new(source.clone().unbind()));
            let reader = Reader(Arc::clone(object));
            py.detach(|| TensorFile::from_reader(reader))
        };
        let file = file.map_err(raised)?;
        Ok(Self { file: if has_pairs { file.with_pairs() } else { file }, reader })
    }

    /// Shows the collector a cycle through a reader. Each has a dict or another container, which the collector clears.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.reader.as_deref().map_or(Ok(()), |reader| visit.call(reader))
    }

    /// The path of the file that was found; empty without one.
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.file.tensors().keys())
    }

    fn __len__(&self) -> usize {
        self.file.tensors().len()
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract().is_ok_and(|name: Cow<'_, str>| self.file.tensors().contains_key(&*name))
    }

    /// True if the file is one tensor without a name.
    fn is_single(&self) -> bool {
        self.file.is_single()
    }

    fn refused(&self) -> BTreeMap<String, String> {
        self.file.refused().clone()
    }

    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metadata = PyDict::new(py);
        for (key, value) in self.file.metadata() {
            metadata.set_item(key, python(py, value)?)?;
        }
        Ok(metadata)
    }

    fn describe(&self, name: Cow<'_, str>) -> PyResult<Described> {
        let entry = self.file.entry(&name).map_err(raised)?;
        let blocks = entry.quantization.as_ref();
        let blocks =
            blocks.map(|q| (q.name.to_string(), q.block_len, q.block_bytes, q.shape.clone()));
        let nbytes = entry.nbytes().unwrap_or(u64::MAX);
        Ok((entry.dtype.to_string(), entry.shape.clone(), nbytes, entry.alignment(), blocks))
    }

    /// A tensor: mapped, or mapped for this process alone.
    fn tensor(&self, py: Python<'_>, name: Cow<'_, str>, private: bool) -> PyResult<TensorObject> {
        let tensor = py.detach(|| match private {
            true => self.file.private_tensor(&name),
            false => self.file.tensor(&name),
        });
        tensor.map(|tensor| TensorObject::from(PyTensor::from(tensor))).map_err(raised)
    }

    /// The numbers of a tensor of blocks.
    fn dequantize(
        &self,
        py: Python<'_>,
        name: Cow<'_, str>,
        dtype: DtypeName,
    ) -> PyResult<TensorObject> {
        let dtype = dtype.expect()?;
        let tensor = py.detach(|| self.file.dequantize(&name, dtype));
        tensor.map(|tensor| TensorObject::from(PyTensor::from(tensor))).map_err(raised)
    }
}

/// A Python object with the methods `read` and `seek`. A call never waits for the GIL while it holds it.
struct Reader(Arc<Py<PyAny>>);

/// The largest number of bytes that are requested at once: Python makes an object of them, which is then copied.
const MAX_READ: usize = 16 << 20;

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let len = bytes.len().min(MAX_READ);
        let bytes = &mut bytes[..len];
        Python::attach(|py| {
            let read = self.0.bind(py).call_method1("read", (bytes.len(),))?;
            let read: PyBackedBytes = read.extract().map_err(|_| {
                let kind = read.get_type().to_string();
                PyTypeError::new_err(format!(
                    "read() returned {kind}, not bytes; open the file in mode 'rb'"
                ))
            })?;
            let target = bytes.get_mut(..read.len());
            target
                .ok_or_else(|| PyValueError::new_err("read() returned too many bytes"))?
                .copy_from_slice(&read);
            Ok(read.len())
        })
        .map_err(|error: PyErr| io::Error::other(error))
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (offset, whence) = match to {
            SeekFrom::Start(offset) => (offset as i64, 0),
            SeekFrom::Current(offset) => (offset, 1),
            SeekFrom::End(offset) => (offset, 2),
        };
        Python::attach(|py| self.0.bind(py).call_method1("seek", (offset, whence))?.extract())
            .map_err(|error: PyErr| io::Error::other(error))
    }
}

/// A file that is written.
#[pyclass(name = "_FileWriter", module = "dlbridge._core", frozen)]
pub(crate) struct Writer(Mutex<Option<FileWriter>>);

#[pymethods]
impl Writer {
    /// Begins a file with tensors of these names, dtypes and shapes.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        planned: Vec<(String, String, Vec<usize>)>,
        metadata: Vec<(String, String)>,
        max_shard_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let mut options = SaveOptions::default().metadata(metadata);
        if let Some(bytes) = max_shard_bytes {
            options = options.max_shard_bytes(bytes);
        }
        let planned: Vec<Planned> = planned
            .into_iter()
            .map(|(name, dtype, shape)| Ok(Planned::new(name, dtype.parse()?, shape)))
            .collect::<Result<_, dlbridge::Error>>()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let writer = py.detach(|| FileWriter::create(path, planned, &options)).map_err(raised)?;
        Ok(Self(Mutex::new(Some(writer))))
    }

    /// The number of the tensor that is written next.
    fn next(&self) -> PyResult<Option<usize>> {
        let mut writer = self.lock()?;
        Ok(open(&mut writer)?.next_index())
    }

    fn write(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        // Holds the borrow of the memory until it is written.
        let tensor = import(object)?;
        let tensor = TensorRef::from(&tensor);
        let mut writer = self.lock()?;
        let writer = open(&mut writer)?;
        if writer.next_index().is_none() {
            return Err(PyValueError::new_err("all tensors were written"));
        }
        let bytes = tensor.nbytes().try_into().unwrap_or(usize::MAX);
        let mut written = Ok(None);
        while_detached(bytes, &mut |go_on| written = writer.write_while(&tensor, go_on))?;
        written.map(|_| ()).map_err(raised)
    }

    /// Gives the file its name.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let writer = self.lock()?.take();
        let writer = writer.ok_or_else(closed)?;
        py.detach(|| writer.finish()).map_err(raised)
    }
}

impl Writer {
    /// Never waits: a thread that writes may itself wait for the GIL.
    fn lock(&self) -> PyResult<MutexGuard<'_, Option<FileWriter>>> {
        self.0
            .try_lock()
            .map_err(|_| PyValueError::new_err("the file is being written by another thread"))
    }
}

fn open(writer: &mut Option<FileWriter>) -> PyResult<&mut FileWriter> {
    writer.as_mut().ok_or_else(closed)
}

fn closed() -> PyErr {
    PyValueError::new_err("the file is finished")
}

/// The exception of an error; one of the system keeps its number, so that it has the class of that number.
fn raised(error: Error) -> PyErr {
    // Of a reader.
    if let Fault::Io(io) = error.fault()
        && let Some(raised) = io.get_ref().and_then(|inner| inner.downcast_ref::<PyErr>())
    {
        return Python::attach(|py| raised.clone_ref(py));
    }
    match error.fault() {
        Fault::Io(io) => match (io.raw_os_error(), io.kind()) {
            (Some(number), _) => {
                let path = error.path().as_os_str().to_owned();
                PyOSError::new_err((number, without_number(io), path))
            }
            (None, ErrorKind::PermissionDenied) => PyPermissionError::new_err(error.to_string()),
            (None, ErrorKind::NotFound) => PyFileNotFoundError::new_err(error.to_string()),
            // Of a path with a NUL.
            (None, ErrorKind::InvalidInput) => PyValueError::new_err(error.to_string()),
            (None, ErrorKind::IsADirectory) => PyIsADirectoryError::new_err(error.to_string()),
            (None, _) => PyOSError::new_err(error.to_string()),
        },
        Fault::Missing { name } => PyKeyError::new_err(name.clone()),
        _ => error.into(),
    }
}

/// The text of an error of the system, whose number the exception shows.
pub(crate) fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// A value of the metadata as a Python object.
fn python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Value::Int(value) => value.into_pyobject(py)?.into_any(),
        Value::Uint(value) => value.into_pyobject(py)?.into_any(),
        Value::Float(value) => value.into_pyobject(py)?.into_any(),
        Value::Text(value) => value.into_pyobject(py)?.into_any(),
        Value::Array(values) => {
            let values = values.iter().map(|value| python(py, value));
            PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
    })
}
