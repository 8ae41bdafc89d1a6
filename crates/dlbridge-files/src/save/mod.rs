//! Writes tensors to files: safetensors, npy and npz.

#[cfg(feature = "npz")]
mod archive;
mod header;
mod pieces;
mod plan;
mod sharded;
mod writer;

use std::path::Path;

use dlbridge::{Tensor, TensorRef};

pub use plan::{Planned, SaveOptions};
pub use writer::FileWriter;

use crate::Error;

/// Writes tensors to a file, whose format its extension tells: `.safetensors`, `.npz`, or `.npy` for one tensor.
///
/// The elements go from the tensors to the file. Those that are not contiguous in C order are copied in pieces of about
/// 16 MiB; packed elements, and padded ones with a first extent of at most eight, at once. The file appears when it is complete, and replaces one with its name; it is not flushed to the disk.
///
/// All elements are written, also those that a stride of 0 repeats, and the free space is not checked before: a broadcast tensor of a
/// few bytes can fill a disk.
///
/// In a safetensors file, the data of each tensor whose size is a multiple of 64 bytes begins at a multiple of 64 bytes,
/// as JAX demands for an import without a copy. The other tensors follow, since the format forbids gaps. In the formats
/// of NumPy all tensors do.
///
/// # Errors
/// [`Fault::Extension`](crate::Fault::Extension) for another extension; [`Fault::DataType`](crate::Fault::DataType) for a
/// dtype that the format lacks; [`Fault::Unwritable`](crate::Fault::Unwritable) for options, a number
/// of tensors, a header or a name that the format cannot have; [`Fault::Tensor`](crate::Fault::Tensor) for data that the CPU cannot read, and for packed
/// elements that end within a byte; [`Fault::Name`](crate::Fault::Name); [`Fault::Io`](crate::Fault::Io).
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_files::{SaveOptions, TensorFile, save};
///
/// let path = std::env::temp_dir().join(format!("doc-save-{}.npy", std::process::id()));
/// save(&path, [("", &Tensor::from([[1_i32, 2]]))], &SaveOptions::default())?;
/// assert_eq!(TensorFile::read(&path)?.tensor("")?.shape(), [1, 2]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save<'t, N: Into<String>>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (N, &'t Tensor)>,
    options: &SaveOptions,
) -> Result<(), Error> {
    let (tensors, planned) = planned(tensors);
    let mut writer = FileWriter::create(path, planned, options)?;
    while let Some(nth) = writer.next_index() {
        writer.write(&TensorRef::from(tensors[nth]))?;
    }
    writer.finish()
}

/// Returns a safetensors file as bytes. Tensors are written as [`save`] writes them; the options split nothing.
///
/// # Errors
/// Those of [`save`].
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_files::{SaveOptions, TensorFile, to_bytes};
///
/// let options = SaveOptions::default().metadata([("license", "MIT")]);
/// let bytes = to_bytes([("x", &Tensor::from(vec![1_u8]))], &options)?;
/// assert_eq!(TensorFile::from_bytes(bytes)?.metadata().len(), 1);
/// # Ok::<(), dlbridge_files::Error>(())
/// ```
pub fn to_bytes<'t, N: Into<String>>(
    tensors: impl IntoIterator<Item = (N, &'t Tensor)>,
    options: &SaveOptions,
) -> Result<Vec<u8>, Error> {
    let (tensors, planned) = planned(tensors);
    writer::safetensors(&tensors, &planned, options)
        .map_err(|fault| Error::new(Path::new(""), fault))
}

/// The tensors, and the plan for them.
fn planned<'t, N: Into<String>>(
    tensors: impl IntoIterator<Item = (N, &'t Tensor)>,
) -> (Vec<&'t Tensor>, Vec<Planned>) {
    let one = |(name, tensor)| (tensor, Planned::of(name, &TensorRef::from(tensor)));
    tensors.into_iter().map(one).unzip()
}
