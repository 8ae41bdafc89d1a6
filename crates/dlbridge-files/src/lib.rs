//! Tensors in files: safetensors, NumPy's npy and npz, GGUF, and the files of `torch.save`.
//!
//! [`TensorFile`] reads the names, dtypes and shapes of a file's tensors at once, and the elements when a tensor is
//! asked for: [`TensorFile::map`] maps them without a copy, and [`TensorFile::read`] reads them into memory of their
//! own. [`save`] writes tensors without a second copy, and the file appears when it is complete.
//! [`TensorFile::from_bytes`] and [`to_bytes`] do the same with a file in memory.
//!
//! ```
//! use dlbridge::Tensor;
//! use dlbridge_files::{SaveOptions, TensorFile, save};
//!
//! let path = std::env::temp_dir().join(format!("doc-{}.safetensors", std::process::id()));
//! let weight = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
//! save(&path, [("weight", &weight)], &SaveOptions::default())?;
//!
//! let file = TensorFile::read(&path)?;
//! assert_eq!(file.tensor("weight")?.view::<f32>()?[[1, 0]], 3.0);
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The files of `torch.save` are read without PyTorch. The names of nested dicts and lists are joined by `.`, as in
//! `optimizer.state.0.exp_avg`; numbers, text, `None`, dtypes, devices and lists of these are metadata. No code of the file
//! runs: a value that another class or function would make is refused, with its name, when it is requested.
//!
//! The header of a file is checked before anything of it is used: sizes, offsets, names and dtypes. A damaged file is an
//! [`Error`], and needs no more memory than a small multiple of its header.

#[cfg(feature = "npz")]
mod checkpoint;
mod error;
mod file;
mod formats;
mod gguf;
mod index;
mod npy;
#[cfg(feature = "npz")]
mod npz;
mod private;
mod read_at;
mod safetensors;
mod save;
mod shards;

pub use error::{Error, Fault};
pub use file::TensorFile;
pub use index::{Entry, Place, Quantization, Value};
pub use save::{FileWriter, Planned, SaveOptions, save, to_bytes};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/load-model-file.md")]
struct LoadModelFile;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/libraries.md")]
struct Libraries;
