//! Reads the tensors of a safetensors file without a copy, and writes tensors to a file.
//!
//! [`load`] does not copy: each tensor is immutable and keeps the file's bytes, a vector or a map, alive. Numbers in a
//! file are little-endian; a big-endian machine copies them.
//!
//! ```
//! use dlbridge::{Tensor, safetensors};
//!
//! let weight = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
//! let file: Vec<u8> = safetensors::to_bytes([("weight", &weight)], &Default::default())?;
//!
//! let tensors = safetensors::load(file)?;
//! assert_eq!(tensors["weight"].view::<f32>()?[[1, 0]], 3.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In a file, each tensor begins at the byte where the previous one ends. If the address of a tensor is not a multiple
//! of its element's alignment, [`Tensor::view`] returns [`Misaligned`](crate::Error::Misaligned): copy it with
//! [`Tensor::to_copy`], or read it in place with [`Unaligned`](crate::Unaligned).

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, View};

use crate::{DataType, Owner, Tensor, TensorRef};

/// Why a file could not be read or written.
///
/// ```
/// use dlbridge::safetensors::{self, Error};
///
/// assert!(matches!(safetensors::load(b"no file".to_vec()), Err(Error::Format(_))));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file breaks the format.
    Format(SafeTensorError),
    /// The file could not be written.
    Write {
        /// The path of the file; `None` for bytes in memory.
        path: Option<PathBuf>,
        /// The error of the safetensors crate.
        error: SafeTensorError,
    },
    /// Two tensors have this name, or the format reserves it for metadata.
    Name {
        /// The name.
        name: String,
    },
    /// A tensor cannot be read or written.
    Tensor {
        /// The name of the tensor.
        name: String,
        /// The reason.
        error: crate::Error,
    },
    /// The format lacks the dtype of a tensor.
    DataType {
        /// The name of the tensor.
        name: String,
        /// Its dtype.
        dtype: DataType,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(error) => write!(f, "not a safetensors file: {error}"),
            Self::Write { path: Some(path), error } => {
                write!(f, "the file {} cannot be written: {error}", path.display())
            }
            Self::Write { path: None, error } => {
                write!(f, "the tensors cannot be written: {error}")
            }
            Self::Name { name } => write!(
                f,
                "the name {name:?} is that of two tensors, or kept for metadata; give each tensor another"
            ),
            Self::Tensor { name, error } => write!(f, "tensor {name:?}: {error}"),
            Self::DataType { name, dtype } => write!(
                f,
                "tensor {name:?}: the elements are {dtype}, which safetensors lacks; view or convert them first"
            ),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            // The `Display` text above includes their text.
            Self::Format(error) | Self::Write { error, .. } => error.source(),
            Self::Tensor { error, .. } => error.source(),
            Self::DataType { .. } | Self::Name { .. } => None,
        }
    }
}

crate::impl_py_error! {
    Error {
        Error::Tensor { error: crate::Error::OutOfMemory { .. }, .. } => MemoryError,
        Error::Tensor { .. } | Error::DataType { .. } => BufferError,
        Error::Write { error: SafeTensorError::IoError(_), .. } => OSError,
        Error::Format(_) | Error::Write { .. } | Error::Name { .. } => ValueError,
    }
}

/// The name in the header that the format reserves for metadata.
const METADATA: &str = "__metadata__";

/// The `__metadata__` of a file: text by key.
pub type Metadata = BTreeMap<String, String>;

const DTYPES: &[(Dtype, DataType)] = &[
    (Dtype::BOOL, DataType::BOOL),
    (Dtype::U8, DataType::UINT8),
    (Dtype::U16, DataType::UINT16),
    (Dtype::U32, DataType::UINT32),
    (Dtype::U64, DataType::UINT64),
    (Dtype::I8, DataType::INT8),
    (Dtype::I16, DataType::INT16),
    (Dtype::I32, DataType::INT32),
    (Dtype::I64, DataType::INT64),
    (Dtype::F16, DataType::FLOAT16),
    (Dtype::F32, DataType::FLOAT32),
    (Dtype::F64, DataType::FLOAT64),
    (Dtype::BF16, DataType::BFLOAT16),
    (Dtype::C64, DataType::COMPLEX64),
    (Dtype::F8_E5M2, DataType::FLOAT8_E5M2),
    (Dtype::F8_E4M3, DataType::FLOAT8_E4M3FN),
    (Dtype::F8_E8M0, DataType::FLOAT8_E8M0FNU),
    (Dtype::F8_E4M3FNUZ, DataType::FLOAT8_E4M3FNUZ),
    (Dtype::F8_E5M2FNUZ, DataType::FLOAT8_E5M2FNUZ),
    (Dtype::F6_E2M3, DataType::FLOAT6_E2M3FN),
    (Dtype::F6_E3M2, DataType::FLOAT6_E3M2FN),
    (Dtype::F4, DataType::FLOAT4_E2M1FN),
];

/// Returns the tensors of a file by name. The file is a vector of bytes, or a memory map.
///
/// Shapes are those of the file, in C order; elements narrower than a byte are packed. [`Tensor::try_into_owner`]
/// returns the file from the last tensor, after all others were dropped.
///
/// # Errors
/// [`Error::Format`] if the header or its offsets are wrong; [`Error::Tensor`] for a shape that a
/// tensor cannot have.
///
#[cfg_attr(
    all(feature = "memmap2", feature = "ndarray"),
    doc = "
```no_run
use std::fs::File;
use memmap2::Mmap;
use ndarray::ArrayView2;

// SAFETY: no process changes the file while the tensors live.
let file = unsafe { Mmap::map(&File::open(\"model.safetensors\")?)? };
let tensors = dlbridge::safetensors::load(file)?;
let weight: ArrayView2<'_, f32> = tensors[\"weight\"].view()?.try_into()?;
# Ok::<(), Box<dyn std::error::Error>>(())
```
"
)]
pub fn load<O: Owner<Item = u8>>(file: O) -> Result<BTreeMap<String, Tensor>, Error> {
    let file = Tensor::from_whole(file);
    // Only this code has the bytes of an exclusive owner, so it can give up writing them. Other owners keep their
    // access.
    let file = file.try_into_immutable().unwrap_or_else(|file| file).into_shared();
    let bytes = TensorRef::from(&*file).as_bytes().expect("bytes of an owner are contiguous");
    let (header, metadata) = SafeTensors::read_metadata(bytes).map_err(Error::Format)?;
    let data = size_of::<u64>() + header;
    let mut tensors = BTreeMap::new();
    for (name, info) in metadata.tensors() {
        let tensor = known(info.dtype)
            .and_then(|dtype| file.share_bytes(dtype, &info.shape, data + info.data_offsets.0))
            .and_then(native);
        match tensor {
            Ok(tensor) => tensors.insert(name, tensor),
            Err(error) => return Err(Error::Tensor { name, error }),
        };
    }
    Ok(tensors)
}

/// Returns the `__metadata__` of a file; empty if the file has none.
///
/// # Errors
/// [`Error::Format`] if the header is wrong.
///
/// ```
/// use dlbridge::{Tensor, safetensors::{self, Metadata}};
///
/// let about = Metadata::from([("license".into(), "MIT".into())]);
/// let file = safetensors::to_bytes([("x", &Tensor::from(vec![1.0_f32]))], &about)?;
/// assert_eq!(safetensors::load_metadata(&file)?, about);
/// # Ok::<(), safetensors::Error>(())
/// ```
pub fn load_metadata(file: &[u8]) -> Result<Metadata, Error> {
    let (_, metadata) = SafeTensors::read_metadata(file).map_err(Error::Format)?;
    Ok(metadata.metadata().clone().unwrap_or_default().into_iter().collect())
}

/// Returns a file of tensors as bytes. Tensors that are not contiguous in C order are copied first.
///
/// # Errors
/// [`Error::DataType`] for a dtype the format does not have; [`Error::Tensor`] for data that the CPU
/// cannot read, and for packed elements that end within a byte; [`Error::Name`]; [`Error::Write`].
///
/// ```
/// use dlbridge::{Tensor, safetensors};
///
/// let (a, b) = (Tensor::from(vec![1.0_f64]), Tensor::from([[true, false]]));
/// let file = safetensors::to_bytes([("a", &a), ("b", &b)], &Default::default())?;
/// assert_eq!(safetensors::load(file)?.len(), 2);
/// # Ok::<(), safetensors::Error>(())
/// ```
pub fn to_bytes<'t, N: AsRef<str>>(
    tensors: impl IntoIterator<Item = (N, &'t Tensor)>,
    metadata: &Metadata,
) -> Result<Vec<u8>, Error> {
    let metadata = (!metadata.is_empty()).then(|| metadata.clone().into_iter().collect());
    safetensors::serialize(written(tensors)?, metadata)
        .map_err(|error| Error::Write { path: None, error })
}

/// Writes a file of tensors. Tensors that are not contiguous in C order are copied first. The file appears when it is
/// complete; on Unix only its owner can read it.
///
/// # Errors
/// Those of [`to_bytes`].
///
/// ```
/// use dlbridge::{Tensor, safetensors};
///
/// let path = std::env::temp_dir().join(format!("dlbridge-{}.safetensors", std::process::id()));
/// safetensors::save([("x", &Tensor::from(vec![1.0_f32]))], &Default::default(), &path)?;
/// assert_eq!(safetensors::load(std::fs::read(&path)?)?["x"].shape(), [1]);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save<'t, N: AsRef<str>>(
    tensors: impl IntoIterator<Item = (N, &'t Tensor)>,
    metadata: &Metadata,
    path: impl AsRef<Path>,
) -> Result<(), Error> {
    let metadata = (!metadata.is_empty()).then(|| metadata.clone().into_iter().collect());
    let path = path.as_ref();
    safetensors::serialize_to_file(written(tensors)?, metadata, path)
        .map_err(|error| Error::Write { path: Some(path.into()), error })
}

fn known(dtype: Dtype) -> crate::Result<DataType> {
    let known = DTYPES.iter().find(|(theirs, _)| *theirs == dtype);
    known.map(|&(_, ours)| ours).ok_or(crate::Error::UnknownDataTypeName)
}

/// True if this machine's byte order for a dtype differs from the file's.
fn is_swapped(dtype: DataType) -> bool {
    cfg!(target_endian = "big") && dtype.number_size().is_some_and(|bytes| bytes > 1)
}

/// Converts little-endian numbers to this machine's byte order.
fn native(tensor: Tensor) -> crate::Result<Tensor> {
    match is_swapped(tensor.dtype()) {
        true => TensorRef::from(&tensor)
            .to_byte_swapped()
            .map(|copy| copy.try_into_immutable().expect("a copy is exclusive")),
        false => Ok(tensor),
    }
}

/// A tensor in the form that the format demands: host memory, C order, packed, little-endian.
struct Written<'t> {
    dtype: Dtype,
    shape: Vec<usize>,
    tensor: &'t Tensor,
    /// A copy in that form, if the tensor itself is not.
    copy: Option<Tensor>,
}

impl Written<'_> {
    fn bytes(&self) -> crate::Result<&[u8]> {
        TensorRef::from(self.copy.as_ref().unwrap_or(self.tensor)).as_bytes()
    }
}

impl View for Written<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.bytes().expect("checked when this was made"))
    }

    fn data_len(&self) -> usize {
        self.data().len()
    }
}

fn written<'t, N: AsRef<str>>(
    tensors: impl IntoIterator<Item = (N, &'t Tensor)>,
) -> Result<Vec<(String, Written<'t>)>, Error> {
    let mut names = BTreeSet::new();
    let one = |(name, tensor): (N, &'t Tensor)| {
        let (name, dtype) = (String::from(name.as_ref()), tensor.dtype());
        if name == METADATA || !names.insert(name.clone()) {
            return Err(Error::Name { name });
        }
        let Some(&(theirs, _)) = DTYPES.iter().find(|(_, ours)| *ours == dtype) else {
            return Err(Error::DataType { name, dtype });
        };
        let shape = tensor.shape().iter().map(|&extent| extent as usize).collect();
        let written = as_written(tensor).and_then(|copy| {
            if dtype.is_subbyte()
                && !(tensor.len() as u128 * u128::from(dtype.element_bits())).is_multiple_of(8)
            {
                return Err(crate::Error::SubbytePacked { dtype });
            }
            let written = Written { dtype: theirs, shape, tensor, copy };
            written.bytes()?;
            Ok(written)
        });
        match written {
            Ok(written) => Ok((name, written)),
            Err(error) => Err(Error::Tensor { name, error }),
        }
    };
    tensors.into_iter().map(one).collect()
}

/// A copy of the tensor in the format's form; `None` if the tensor already has it.
fn as_written(tensor: &Tensor) -> crate::Result<Option<Tensor>> {
    if tensor.dtype().is_subbyte() && tensor.is_subbyte_padded() {
        tensor.to_packed().map(Some)
    } else if is_swapped(tensor.dtype()) {
        TensorRef::from(tensor).to_byte_swapped().map(Some)
    } else if !tensor.is_c_contiguous() {
        tensor.to_copy().map(Some)
    } else {
        Ok(None)
    }
}
