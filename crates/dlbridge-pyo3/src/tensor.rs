//! A tensor for Python: its fields, and its use in the rest of the crate. `returned/` makes objects of it.
//!
//! PyO3 moves the fields of a new object through memory, unless they fit into two registers. So a `PyTensor`, the only field
//! of the package's class, has two words: its tensor, and the record of its import.
//!
//! - **Word.** The pointer of a [`Word`] is odd and holds the record itself; or it is even, and leads to a leaked box that
//!   belongs to this `Word` alone.

use std::ptr;
use std::sync::OnceLock;

use dlbridge::sys::{DLManagedTensor, DLManagedTensorVersioned};
use dlbridge::{ArcTensor, DataType, Tensor};
use pyo3::prelude::*;

use crate::borrow::{Borrowed, Guard};
use crate::imported::{Imported, Protocol, Record};
use crate::python::error::to_py_err;
use crate::stream::DataStream;

/// A tensor over memory that Rust owns or a producer shares, as a result: in Python it is a `dlbridge.Tensor`.
///
/// Return it from a `#[pyfunction]`. Where the package `dlbridge` is installed, the object is a `dlbridge.Tensor`; without
/// it, the object is a NumPy array.
///
/// To keep one, make it a field of a class, which returns [`to_object`](Self::to_object) or [`numpy`](Self::numpy) from a
/// getter, reads and writes it by [`extract`](Self::extract), or exports it by [`producer`](macro@crate::producer), any number of
/// times. Each of these objects keeps the memory alive. It is not `Clone`: several structs share an `Arc<PyTensor>`.
///
/// The data of a tensor on CUDA or ROCm must be synchronised with the default stream.
///
/// ```no_run
/// use dlbridge_pyo3::PyTensor;
/// use dlbridge_pyo3::dlbridge::Tensor;
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn identity(n: usize) -> PyResult<PyTensor> {
///     let mut matrix = Tensor::zeros::<f64>([n, n])?;
///     let mut view = matrix.view_mut::<f64>()?;
///     (0..n).for_each(|i| view[(i, i)] = 1.0);
///     Ok(PyTensor::from(matrix))
/// }
/// ```
pub struct PyTensor {
    tensor: ArcTensor,
    word: Word,
}

/// The record, in one word.
struct Word(*mut Rare);

// SAFETY: Word: a number, or a box of these fields.
unsafe impl Send for Word where Rare: Send {}
// SAFETY: Word: a number, or a box of these fields, which `&Word` only reads.
unsafe impl Sync for Word where Rare: Sync {}

/// A record that does not fit a word.
struct Rare {
    record: Record,
    /// The stream that runs its work after the pending writes to the data.
    stream: DataStream,
    /// A borrow of read-only data that Rust made, once it was exported to consumers that keep the object alone.
    reading: OnceLock<Guard>,
}

impl Word {
    #[inline]
    fn new(tensor: &Tensor, record: Record, stream: DataStream) -> Self {
        let may_be_borrowed = record.protocol.is_none() && tensor.is_read_only();
        match (record.packed(), &stream) {
            (Some(packed), DataStream::Default) if !may_be_borrowed => {
                Self(ptr::without_provenance_mut(packed))
            }
            _ => Self::boxed(record, stream),
        }
    }

    #[cold]
    fn boxed(record: Record, stream: DataStream) -> Self {
        Self(Box::into_raw(Box::new(Rare { record, stream, reading: OnceLock::new() })))
    }

    /// Returns true for data on the default stream, without a borrow, whose own flag says whether it is read-only.
    #[inline]
    fn is_plain(&self) -> bool {
        const LEGACY: usize = (Protocol::LegacyDlpack as usize + 1) << 1;
        let word = self.0.addr();
        word & 1 == 1 && word & 0xfe != LEGACY
    }

    #[inline]
    fn rare(&self) -> Option<&Rare> {
        // SAFETY: Word: an even pointer is a box, which lives as long as the word.
        (self.0.addr() & 1 == 0).then(|| unsafe { &*self.0 })
    }
}

impl Drop for Word {
    #[inline]
    fn drop(&mut self) {
        if self.rare().is_some() {
            // SAFETY: Word: an even pointer is a box of this word alone, which is not used again.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

/// A tensor, or anything that converts to a [`Tensor`]: vectors, boxes, nested arrays, ndarray arrays, images, ...
///
/// ```
/// # fn make() -> dlbridge_pyo3::PyTensor {
/// dlbridge_pyo3::PyTensor::from([[1.0_f32, 2.0], [3.0, 4.0]])
/// # }
/// ```
impl<T> From<T> for PyTensor
where
    Tensor: From<T>,
{
    #[inline]
    fn from(owner: T) -> Self {
        Self::with_record(Tensor::from(owner), Record::default(), DataStream::Default)
    }
}

impl From<Imported> for PyTensor {
    #[inline]
    fn from(imported: Imported) -> Self {
        Self::imported_on(imported, DataStream::Default)
    }
}

impl PyTensor {
    /// The dtype of the elements.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    /// use dlbridge_pyo3::dlbridge::DataType;
    ///
    /// assert_eq!(PyTensor::from(vec![1.0_f32]).dtype(), DataType::FLOAT32);
    /// ```
    pub fn dtype(&self) -> DataType {
        self.tensor.dtype()
    }

    /// The extents, in elements.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyTensor;
    ///
    /// assert_eq!(PyTensor::from([[1.0_f32, 2.0], [3.0, 4.0]]).shape(), [2, 2]);
    /// ```
    pub fn shape(&self) -> &[i64] {
        self.tensor.shape()
    }
}

/// For the Python package and this crate.
#[doc(hidden)]
impl PyTensor {
    /// A tensor with its record, synchronised with a stream.
    #[inline]
    pub fn with_record(tensor: Tensor, record: Record, stream: DataStream) -> Self {
        let word = Word::new(&tensor, record, stream);
        Self { tensor: tensor.into_shared(), word }
    }

    /// An import that is synchronised with a stream.
    #[inline]
    pub fn imported_on(imported: Imported, stream: DataStream) -> Self {
        let Imported { tensor, protocol, reason, version } = imported;
        Self::with_record(tensor, Record { protocol: Some(protocol), reason, version }, stream)
    }

    /// The import record.
    #[inline]
    pub fn record(&self) -> Record {
        match self.word.rare() {
            None => Record::of_number(self.word.0.addr()),
            Some(rare) => rare.record,
        }
    }

    /// The protocol of the import; `None` for a tensor that Rust made.
    #[inline]
    pub fn imported_by(&self) -> Option<Protocol> {
        self.record().protocol
    }

    /// The stream that the data is synchronised with.
    pub fn stream(&self) -> &DataStream {
        self.word.rare().map_or(&DataStream::Default, |rare| &rare.stream)
    }

    /// The device as a tuple of DLPack device type and device id.
    pub fn device_pair(&self) -> (i32, i32) {
        let device = self.tensor.device();
        (device.device_type().code(), device.id())
    }

    /// The tensor. Code that returns a view of it must borrow its memory.
    pub fn tensor(&self) -> &ArcTensor {
        &self.tensor
    }

    /// Returns true if the data is read-only, or if its producer could not mark it.
    pub fn is_read_only(&self) -> bool {
        let Record { protocol, reason, .. } = self.record();
        let told = reason.is_some() || protocol.is_none_or(Protocol::tells_read_only);
        !told || self.tensor.is_read_only()
    }

    /// Returns true if Rust made the tensor instead of importing it.
    pub fn is_rusts_own(&self) -> bool {
        self.imported_by().is_none()
    }

    /// Takes the tensor out, if it may be written and no export has it; otherwise it returns `self`.
    #[inline]
    pub(crate) fn into_tensor(self) -> Result<Tensor, Self> {
        if !self.word.is_plain() || self.tensor.is_read_only() {
            return Err(self);
        }
        let Self { tensor, word } = self;
        tensor.try_into_tensor().map_err(|tensor| Self { tensor, word })
    }

    /// Another tensor with the same import record.
    pub fn with_same_record(&self, tensor: Tensor) -> Self {
        Self::with_record(tensor, self.record(), *self.stream())
    }

    /// A second handle on the same memory, which claims no exclusivity.
    pub fn alias(&self) -> PyResult<Tensor> {
        match self.is_read_only() {
            true => Ok(self.tensor.share()),
            false => self.second(),
        }
    }

    /// As [`alias`](Self::alias), with the flags of the tensor itself, for a tensor with the same import record.
    pub fn second(&self) -> PyResult<Tensor> {
        // SAFETY: `to_raw` just made the managed tensor, and this is its only use. If Python code writes while a view
        // is alive, the program has a race (see the crate documentation).
        unsafe { Tensor::from_raw(self.tensor.to_raw()) }.map_err(to_py_err)
    }

    /// Borrows read-only memory that Rust made, for reading, as long as this object lives: some consumers ignore the
    /// read-only flag. A borrow for writing is then refused.
    pub fn keep_reading(&self) -> PyResult<()> {
        if let Some(Rare { reading, .. }) = self.word.rare()
            && self.is_rusts_own()
            && self.is_read_only()
            && reading.get().is_none()
        {
            // If another thread was faster, this borrow is released.
            let _ = reading.set(Guard::reading(&self.tensor, "read-only dlbridge.Tensor")?);
        }
        Ok(())
    }

    /// The tensor for a consumer that does not keep this object. Read-only memory that Rust made is borrowed for reading
    /// as long as the consumer has it.
    pub fn for_consumer(&self) -> PyResult<ArcTensor> {
        match self.is_rusts_own() && self.is_read_only() {
            true => Ok(Borrowed::read_only(&self.tensor)?.into_shared()),
            false => Ok(self.tensor.clone()),
        }
    }

    /// A managed tensor over the same memory for a consumer.
    #[inline]
    pub fn to_raw(&self) -> PyResult<*mut DLManagedTensorVersioned> {
        match self.word.is_plain() && !self.tensor.is_read_only() {
            true => Ok(self.tensor.to_raw()),
            false => self.to_raw_of_import(),
        }
    }

    fn to_raw_of_import(&self) -> PyResult<*mut DLManagedTensorVersioned> {
        Ok(match (self.is_read_only(), self.imported_by()) {
            (false, _) => self.tensor.to_raw(),
            (true, None) => Borrowed::read_only(&self.tensor)?.into_raw(),
            (true, Some(_)) => self.tensor.share().into_raw(),
        })
    }

    /// A legacy managed tensor over the same memory, for data that it can express.
    pub fn to_raw_legacy(&self) -> PyResult<*mut DLManagedTensor> {
        self.tensor.to_raw_legacy().map_err(to_py_err)
    }
}
