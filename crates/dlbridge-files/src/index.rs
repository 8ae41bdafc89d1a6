//! The index of a file: the name, dtype, shape and place of each tensor, without the data.

use std::collections::BTreeMap;
use std::ops::Range;

use dlbridge::{DataType, Tensor};
use indexmap::IndexMap;

use crate::Fault;
use crate::formats::invalid;

/// The tensors of a file by name, in the file's order, and its metadata.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The tensors.
    pub(crate) tensors: IndexMap<String, Entry>,
    /// The metadata.
    pub(crate) metadata: BTreeMap<String, Value>,
    /// The names of those that cannot be read, such as text in an npz file or an unknown type of GGUF, and the reasons.
    pub(crate) refused: BTreeMap<String, String>,
    /// True if the file is one tensor without a name, as npy: its name is the empty string.
    pub(crate) is_single: bool,
}

/// The description of a tensor in a file.
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_files::{Place, TensorFile, to_bytes};
///
/// let bytes = to_bytes([("x", &Tensor::from([[1_u8, 2]]))], &Default::default())?;
/// let file = TensorFile::from_bytes(bytes)?;
/// let entry = file.entry("x")?;
/// assert_eq!((&entry.shape[..], entry.nbytes()), (&[1, 2][..], Some(2)));
/// assert!(matches!(entry.place, Place::Stored { offset } if offset % entry.alignment() == 0));
/// # Ok::<(), dlbridge_files::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The dtype; bytes for quantised blocks.
    pub dtype: DataType,
    /// The extents.
    pub shape: Vec<usize>,
    /// The strides in elements, which are not negative; `None` for those of C order.
    pub strides: Option<Vec<isize>>,
    /// True if the numbers are in the byte order that this machine does not have.
    pub is_swapped: bool,
    /// Where the elements are.
    pub place: Place,
    /// The quantised type whose blocks the bytes are.
    pub quantization: Option<Quantization>,
    /// The bytes of the storage that other tensors view too.
    pub(crate) storage: Option<Range<u64>>,
    /// The file among those of a sharded model.
    pub(crate) file: usize,
}

/// Where the elements of a tensor are in a file, as in [`Entry::place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// As they are in memory, from this byte on.
    Stored {
        /// The first byte.
        offset: u64,
    },
    /// In a stream of deflated bytes.
    Deflated {
        /// The first byte of the stream.
        offset: u64,
        /// The number of bytes of the stream.
        len: u64,
        /// The number of inflated bytes before the first element.
        skip: u64,
    },
}

/// Blocks of quantised numbers. DLPack lacks a dtype for them.
///
/// ```
/// use dlbridge_files::Quantization;
///
/// let q8 = Quantization { name: "Q8_0", block_len: 32, block_bytes: 34, shape: vec![2, 64] };
/// assert_eq!(q8.shape[1] / q8.block_len * q8.block_bytes, 68);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantization {
    /// The name of the type, such as `Q4_K`.
    pub name: &'static str,
    /// The number of elements in a block.
    pub block_len: usize,
    /// The number of bytes of a block.
    pub block_bytes: usize,
    /// The extents of the numbers that the blocks stand for.
    pub shape: Vec<usize>,
}

/// A value in the metadata of a file. safetensors has only text.
///
/// ```
/// use dlbridge_files::Value;
///
/// assert_ne!(Value::Int(1), Value::Text("1".into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above the largest `i64`, or of an unsigned type.
    Uint(u64),
    /// A float.
    Float(f64),
    /// Text.
    Text(String),
    /// An array of values.
    Array(Vec<Value>),
    /// Nothing: Python's `None`.
    Null,
}

impl Index {
    /// Adds a tensor, or the reason why it cannot be read.
    pub(crate) fn add(
        &mut self,
        format: &'static str,
        name: String,
        entry: Result<Entry, Fault>,
    ) -> Result<(), Fault> {
        if self.tensors.contains_key(&name) || self.refused.contains_key(&name) {
            return Err(invalid(format, format!("two tensors have the name {name:?}")));
        }
        match entry {
            Ok(entry) => drop(self.tensors.insert(name, entry)),
            Err(Fault::Unsupported { reason, .. }) => drop(self.refused.insert(name, reason)),
            Err(fault) => return Err(fault),
        }
        Ok(())
    }
}

impl Entry {
    /// The description of elements in C order and this machine's byte order, from a byte of the file on.
    pub(crate) fn stored(dtype: DataType, shape: Vec<usize>, offset: u64) -> Self {
        Self {
            dtype,
            shape,
            strides: None,
            is_swapped: false,
            place: Place::Stored { offset },
            quantization: None,
            storage: None,
            file: 0,
        }
    }

    /// The number of bits of the elements; `None` if no memory has as many, also without the extents of zero, which strides
    /// would exceed.
    pub(crate) fn bits(&self) -> Option<u128> {
        let bits = u128::from(self.dtype.element_bits());
        let bits = self.shape.iter().try_fold(bits, |product, &extent| {
            product.checked_mul(extent.max(1) as u128).filter(|&bits| bits <= 8 * i64::MAX as u128)
        })?;
        Some(if self.shape.contains(&0) { 0 } else { bits })
    }

    /// The number of bytes of the elements, those of packed elements together; `None` if the number overflows.
    pub fn nbytes(&self) -> Option<u64> {
        self.bits().map(|bits| bits.div_ceil(8) as u64)
    }

    /// Makes floats of four bits pairs, as PyTorch's `float4_e2m1fn_x2`, if the last extent is even.
    pub(crate) fn make_pairs(&mut self) {
        let is_alone = self.dtype == DataType::FLOAT4_E2M1FN && self.strides.is_none();
        if let Some(last) = self.shape.last_mut().filter(|last| is_alone && last.is_multiple_of(2))
        {
            *last /= 2;
            self.dtype = self.dtype.with_lanes(2);
        }
    }

    /// The run of elements in the file that the strides reach, as a description in C order; `None` if no memory has them.
    pub(crate) fn run(&self) -> Option<Self> {
        let mut run = self.clone();
        if let Some(strides) = run.strides.take() {
            run.shape = vec![span(&self.shape, &strides)?];
        }
        run.nbytes().and_then(|bytes| usize::try_from(bytes).ok())?;
        Some(run)
    }

    /// The tensor of its [`run`](Self::run), with the shape and strides of the file.
    pub(crate) fn in_order(&self, run: Tensor) -> dlbridge::Result<Tensor> {
        match &self.strides {
            Some(strides) => run.as_strided(&self.shape, strides),
            None => Ok(run),
        }
    }

    /// The largest power of two that divides the address of the mapped elements; 4096 at most. Inflated
    /// elements are at a multiple of 64.
    pub fn alignment(&self) -> u64 {
        match self.place {
            Place::Stored { offset } => 1 << offset.trailing_zeros().min(12),
            Place::Deflated { .. } => 64,
        }
    }
}

/// The number of elements from the first to the last that strides reach; `None` if no memory has as many.
pub(crate) fn span(shape: &[usize], strides: &[isize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().zip(strides).try_fold(1_usize, |span, (&extent, &stride)| {
        span.checked_add((extent - 1).checked_mul(usize::try_from(stride).ok()?)?)
    })
}

/// The strides of elements without gaps, for extents by ascending stride.
pub(crate) fn packed(extents: impl Iterator<Item = usize>) -> Vec<isize> {
    let next = |step: &mut isize, extent: usize| {
        let stride = *step;
        *step = step.saturating_mul(isize::try_from(extent.max(1)).unwrap_or(isize::MAX));
        Some(stride)
    };
    extents.scan(1, next).collect()
}
