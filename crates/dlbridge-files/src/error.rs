//! Why a file could not be read or written.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use dlbridge::DataType;

/// Why a file could not be read or written: the file, and the fault.
///
/// ```
/// use dlbridge_files::{Fault, TensorFile};
///
/// let error = TensorFile::read("no-such-file.npy").unwrap_err();
/// assert!(matches!(error.fault(), Fault::Io(_)));
/// assert!(error.to_string().starts_with("no-such-file.npy: "));
/// ```
#[derive(Debug)]
pub struct Error {
    path: PathBuf,
    fault: Fault,
}

/// The fault of a file, or of the tensors for it.
///
/// ```
/// use dlbridge_files::{Fault, TensorFile};
///
/// let error = TensorFile::from_bytes(b"no tensors".to_vec()).unwrap_err();
/// assert!(matches!(error.fault(), Fault::Unknown { .. }));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The system reported an error.
    Io(io::Error),
    /// The first bytes are those of no known format.
    Unknown {
        /// What the file is instead, and advice.
        reason: &'static str,
    },
    /// The extension of a file to be written is that of no known format.
    Extension,
    /// The file breaks its format.
    Format {
        /// The name of the format.
        format: &'static str,
        /// The fault, and the bytes that were found.
        reason: String,
    },
    /// The file has something that no tensor can hold, or that this crate does not read.
    Unsupported {
        /// The name of the format.
        format: &'static str,
        /// The reason, and advice.
        reason: String,
    },
    /// The format cannot have these tensors, or these options.
    Unwritable {
        /// The name of the format.
        format: &'static str,
        /// The reason, and advice.
        reason: String,
    },
    /// A tensor cannot be read or written.
    Tensor {
        /// The name of the tensor.
        name: String,
        /// The reason.
        error: dlbridge::Error,
    },
    /// The format lacks the dtype of a tensor.
    DataType {
        /// The name of the format.
        format: &'static str,
        /// The name of the tensor.
        name: String,
        /// Its dtype.
        dtype: DataType,
    },
    /// This tensor cannot be read, and others of the file can.
    Refused {
        /// The name of the tensor.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The file does not have a tensor with this name.
    Missing {
        /// The name.
        name: String,
    },
    /// A tensor has another dtype or shape than was planned.
    Plan {
        /// The name of the tensor.
        name: String,
        /// The planned dtype and shape.
        planned: String,
        /// Its dtype and shape.
        found: String,
    },
    /// Two tensors have this name.
    Name {
        /// The name.
        name: String,
    },
}

impl Error {
    pub(crate) fn new(path: &Path, fault: impl Into<Fault>) -> Self {
        Self { path: path.into(), fault: fault.into() }
    }

    /// The path of the file; empty for a file in memory.
    ///
    /// ```
    /// let error = dlbridge_files::TensorFile::read("no-such-file.npy").unwrap_err();
    /// assert_eq!(error.path(), std::path::Path::new("no-such-file.npy"));
    /// ```
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The fault of the file.
    ///
    /// ```
    /// let error = dlbridge_files::TensorFile::read("no-such-file.npy").unwrap_err();
    /// assert!(matches!(error.fault(), dlbridge_files::Fault::Io(_)));
    /// ```
    pub fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.as_os_str().is_empty() {
            return self.fault.fmt(f);
        }
        write!(f, "{}: {}", self.path.display(), self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Unknown { reason } => f.write_str(reason),
            Self::Extension => f.write_str("the extension is not .safetensors, .npz or .npy"),
            Self::Format { format, reason } => write!(f, "not a valid {format} file: {reason}"),
            Self::Unsupported { format, reason } => {
                write!(f, "this {format} file cannot be read: {reason}")
            }
            Self::Unwritable { format, reason } => {
                write!(f, "this {format} file cannot be written: {reason}")
            }
            Self::Tensor { name, error } => write!(f, "{}{error}", Of(name)),
            Self::DataType { format, name, dtype } => {
                if *format != "npy" {
                    write!(f, "tensor {name:?}: ")?;
                }
                write!(
                    f,
                    "the elements are {dtype}, which {format} lacks; view or convert them first"
                )
            }
            Self::Refused { name, reason } => write!(f, "{}{reason}", Of(name)),
            Self::Missing { name } => write!(f, "the file has no tensor {name:?}"),
            Self::Plan { name, planned, found } => {
                write!(f, "{}{found} was written, and {planned} was planned", Of(name))
            }
            Self::Name { name } => {
                write!(f, "the name {name:?} is that of two tensors; give each tensor another name")
            }
        }
    }
}

/// Displays the start of a message about a tensor. The name of the only tensor of an npy file is empty.
struct Of<'a>(&'a str);

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => Ok(()),
            name => write!(f, "tensor {name:?}: "),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The text above includes that of these errors.
        match &self.fault {
            Fault::Io(error) => error.source(),
            Fault::Tensor { error, .. } => error.source(),
            _ => None,
        }
    }
}

impl std::error::Error for Fault {}

dlbridge::impl_py_error! {
    Error {
        Error { fault: Fault::Io(_), .. } => OSError,
        Error { fault: Fault::Tensor { error: dlbridge::Error::OutOfMemory { .. }, .. }, .. } => MemoryError,
        Error { fault: Fault::Tensor { .. } | Fault::DataType { .. }, .. } => BufferError,
        Error { .. } => ValueError,
    }
}
