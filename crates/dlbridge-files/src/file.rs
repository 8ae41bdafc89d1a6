//! A file with tensors, or the files of a sharded model.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr;

use dlbridge::{Access, ArcTensor, DataType, Owner, Tensor, TensorRef};
use indexmap::IndexMap;
use memmap2::Mmap;

use crate::formats::{NPZ, invalid};
use crate::gguf::dequantized;
use crate::index::Index;
use crate::private::PrivateMap;
use crate::read_at::{At, Bytes, Turns, read_inflated};
use crate::shards::Listed;
use crate::{Entry, Error, Fault, Place, Value, formats, shards};

/// The alignment of elements that are read, in bytes: that of JAX's arrays, the largest of all libraries.
const ALIGNMENT: usize = 64;

/// How often a sharded model is opened again that another program replaced meanwhile.
const ATTEMPTS: usize = 100;

/// The tensors of a file by name. The index is read when it is opened, the elements of a tensor when it is asked for.
///
/// | | elements | time and memory of [`tensor`](Self::tensor) |
/// | --- | --- | --- |
/// | [`map`](Self::map) | in the file, mapped; [`Immutable`](dlbridge::Access::Immutable) | neither grows with the tensor |
/// | [`read`](Self::read) | in memory of their own; [`Exclusive`](dlbridge::Access::Exclusive) | one copy |
/// | [`from_reader`](Self::from_reader) | as for `read` | one copy |
/// | [`from_bytes`](Self::from_bytes) | in the bytes that it got; [`Immutable`](dlbridge::Access::Immutable) for a `Vec`, otherwise as their owner | neither grows with the tensor |
///
/// A path is that of a file, of the index of a sharded model (`model.safetensors.index.json`), of the model that was split
/// (`model.safetensors`), or of a folder: of its `model.safetensors`, `diffusion_pytorch_model.safetensors`,
/// `pytorch_model.bin` and `diffusion_pytorch_model.bin`, the first that is there, or its index.
///
/// ```
/// use dlbridge::Tensor;
/// use dlbridge_files::{SaveOptions, TensorFile, save};
///
/// let path = std::env::temp_dir().join(format!("doc-file-{}.npz", std::process::id()));
/// save(&path, [("x", &Tensor::from(vec![1.0_f64, 2.0]))], &SaveOptions::default())?;
/// let file = TensorFile::read(&path)?;
/// assert_eq!(file.tensors()["x"].shape, [2]);
/// assert_eq!(file.tensor("x")?.view::<f64>()?[[1]], 2.0);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    files: Vec<Source>,
    index: Index,
}

/// A file, and its maps.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    bytes: Bytes,
    len: u64,
    /// All bytes, mapped or in memory; `None` if they are read.
    shared: Option<ArcTensor>,
    /// Maps the file for the first private tensor.
    private: PrivateMap,
}

/// The map of a whole file, made by [`TensorFile::map`].
struct FileMap(Mmap);

// SAFETY: the map keeps its address when this moves, is initialised, and is only read. The caller of `TensorFile::map`
// promises that no program changes the file while the map lives.
unsafe impl Owner for FileMap {
    type Item = u8;
    const ACCESS: Access = Access::Immutable;
    const IS_LEAF: bool = true;

    fn items(&mut self) -> *mut [u8] {
        ptr::slice_from_raw_parts_mut(self.0.as_ptr().cast_mut(), self.0.len())
    }
}

impl TensorFile {
    /// Opens a file to read each tensor into memory of its own, at a multiple of 64 bytes.
    ///
    /// # Errors
    /// [`Fault::Io`]; [`Fault::Unknown`] if the format is not known; [`Fault::Format`] if the file breaks it.
    ///
    /// ```
    /// use dlbridge_files::TensorFile;
    ///
    /// assert!(TensorFile::read("no-such-file.gguf").is_err());
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open(path.as_ref(), |_, _| Ok(None))
    }

    /// Maps a file: tensors are the file's own pages, which the system reads at their first use and which all processes
    /// share. Deflated tensors, and numbers in another byte order, are read as by [`read`](Self::read).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Safety
    /// No program changes the file, or makes it shorter, while the `TensorFile` or a tensor of it lives.
    ///
    /// ```
    /// use dlbridge::{Access, Tensor};
    /// use dlbridge_files::{SaveOptions, TensorFile, save};
    ///
    /// let path = std::env::temp_dir().join(format!("doc-map-{}.safetensors", std::process::id()));
    /// save(&path, [("x", &Tensor::from(vec![1.0_f32]))], &SaveOptions::default())?;
    /// // SAFETY: the name is that of this process, and the file was just written.
    /// let file = unsafe { TensorFile::map(&path)? };
    /// assert_eq!(file.tensor("x")?.access(), Access::Immutable);
    /// assert_eq!(file.private_tensor("x")?.access(), Access::Exclusive);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open(path.as_ref(), |file, len| {
            if len == 0 {
                return Ok(None);
            }
            // SAFETY: the caller of `map` promises that no program changes the file while this or a tensor of it lives.
            let map = unsafe { Mmap::map(file)? };
            let bytes = map.len();
            let map = Tensor::from_parts(FileMap(map), [bytes]).map_err(io::Error::other)?;
            Ok(Some(map.into_shared()))
        })
    }

    /// Opens a file in memory, such as a `Vec<u8>`, a `Bytes`, a map or a contiguous tensor: its tensors share the
    /// bytes. Deflated tensors, and numbers in another byte order, are copied.
    ///
    /// After the `TensorFile` and all other tensors were dropped, [`Tensor::try_into_owner`] of the last one returns
    /// the bytes.
    ///
    /// # Errors
    /// [`Fault::Unknown`] if the format is not known; [`Fault::Format`] if the file breaks it; [`Fault::Tensor`] for a
    /// tensor whose bytes are not contiguous, or not in memory that the CPU reads.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_files::{SaveOptions, TensorFile, to_bytes};
    ///
    /// let bytes = to_bytes([("x", &Tensor::from(vec![1.0_f32, 2.0]))], &SaveOptions::default())?;
    /// let file = TensorFile::from_bytes(bytes)?;
    /// assert_eq!(file.tensor("x")?.view::<f32>()?[[1]], 2.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_bytes(bytes: impl Into<Tensor>) -> Result<Self, Error> {
        // Only this code has the bytes of an exclusive tensor, so it can give up writing them. Others keep their access.
        let bytes: Tensor = bytes.into();
        let bytes = bytes.try_into_immutable().unwrap_or_else(|bytes| bytes).into_shared();
        let all = usize::try_from(bytes.nbytes()).unwrap_or(usize::MAX);
        let all = bytes.share_bytes(DataType::UINT8, [all], 0);
        let all = all.map_err(|error| Error::new(Path::new(""), tensor_fault("", error)))?;
        let len = all.len() as u64;
        Self::of(Bytes::Memory(all), len, Some(bytes))
    }

    /// Opens a file behind a reader, such as one of an object store: reads the index now, and each tensor when it is
    /// requested, from its own range, into memory of its own.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_files::{SaveOptions, TensorFile, to_bytes};
    ///
    /// let bytes = to_bytes([("x", &Tensor::from(vec![1.0_f32, 2.0]))], &SaveOptions::default())?;
    /// let file = TensorFile::from_reader(std::io::Cursor::new(bytes))?;
    /// assert_eq!(file.tensor("x")?.view::<f32>()?[[1]], 2.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_reader(mut reader: impl Read + Seek + Send + 'static) -> Result<Self, Error> {
        let len = reader.seek(SeekFrom::End(0));
        let len = len.map_err(|error| Error::new(Path::new(""), error))?;
        Self::of(Bytes::Reader(Turns::new(reader)), len, None)
    }

    /// Opens bytes that are not a file.
    fn of(bytes: Bytes, len: u64, shared: Option<ArcTensor>) -> Result<Self, Error> {
        let path = PathBuf::new();
        let index = formats::index(&mut At::new(&bytes, 0, len), len)
            .map_err(|fault| Error::new(&path, fault))?;
        let private = PrivateMap::default();
        let files = vec![Source { path: path.clone(), bytes, len, shared, private }];
        Ok(Self { path, files, index })
    }

    fn open(
        path: &Path,
        map: impl Fn(&File, u64) -> std::io::Result<Option<ArcTensor>>,
    ) -> Result<Self, Error> {
        // Another program may replace a sharded model meanwhile: its index last, before the old files are removed.
        for _ in 0..ATTEMPTS {
            let listed = Listed::of(path)?;
            let opened = Self::open_listed(&listed, &map);
            if listed.is_current() {
                return opened;
            }
        }
        let busy =
            io::Error::other("other programs replace the model faster than it can be opened");
        Err(Error::new(path, Fault::Io(busy)))
    }

    /// Opens the files that a path stood for.
    fn open_listed(
        listed: &Listed,
        map: &impl Fn(&File, u64) -> std::io::Result<Option<ArcTensor>>,
    ) -> Result<Self, Error> {
        let path = listed.path.clone();
        let mut opened = Self { path, files: Vec::new(), index: Index::default() };
        for path in &listed.paths {
            let one = || -> Result<_, Fault> {
                // Opening a pipe would wait for a program that writes it.
                if !fs::metadata(path)?.is_file() {
                    return Err(Fault::Io(io::Error::other("it is not a regular file")));
                }
                let mut file = File::open(path)?;
                let len = file.metadata()?.len();
                let index = formats::index(&mut file, len)?;
                let shared = map(&file, len)?;
                let (path, private) = (path.clone(), PrivateMap::default());
                #[cfg(any(unix, windows))]
                let bytes = Bytes::File(file);
                #[cfg(not(any(unix, windows)))]
                let bytes = Bytes::Reader(Turns::new(file));
                Ok((Source { path, bytes, len, shared, private }, index))
            };
            let (source, index) = one().map_err(|fault| Error::new(path, fault))?;
            opened.add(source, index)?;
        }
        for (name, place) in &listed.places {
            let found = opened.index.tensors.get(name).map(|entry| &opened.files[entry.file].path);
            if found != Some(place) && !opened.index.refused.contains_key(name) {
                return Err(Error::new(&listed.path, shards::lacks(name, place)));
            }
        }
        Ok(opened)
    }

    /// Adds a file of a sharded model, or the only file.
    fn add(&mut self, source: Source, index: Index) -> Result<(), Error> {
        let file = self.files.len();
        let path = source.path.clone();
        self.files.push(source);
        if file == 0 {
            self.index = index;
            return Ok(());
        }
        self.index.metadata.extend(index.metadata);
        self.index.refused.extend(index.refused);
        for (name, entry) in index.tensors {
            if self.index.tensors.contains_key(&name) {
                return Err(Error::new(&path, Fault::Name { name }));
            }
            self.index.tensors.insert(name, Entry { file, ..entry });
        }
        Ok(())
    }

    /// The path of the file that was found, or of the index of shards; empty for memory and readers.
    ///
    /// ```
    /// # use dlbridge_files::{SaveOptions, TensorFile, save};
    /// # let path = std::env::temp_dir().join(format!("doc-path-{}.npy", std::process::id()));
    /// # save(&path, [("", &dlbridge::Tensor::from(vec![1_u8]))], &SaveOptions::default())?;
    /// assert_eq!(TensorFile::read(&path)?.path(), path);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptions of the tensors by name, in the file's order.
    ///
    /// ```no_run
    /// for (name, entry) in dlbridge_files::TensorFile::read("model.gguf")?.tensors() {
    ///     println!("{name}: {:?} {}", entry.shape, entry.dtype);
    /// }
    /// # Ok::<(), dlbridge_files::Error>(())
    /// ```
    pub fn tensors(&self) -> &IndexMap<String, Entry> {
        &self.index.tensors
    }

    /// Returns true if the file is one tensor without a name, as npy: its name is the empty string.
    ///
    /// ```
    /// # let tensor = dlbridge::Tensor::from(vec![1_u8]);
    /// let bytes = dlbridge_files::to_bytes([("x", &tensor)], &Default::default())?;
    /// assert!(!dlbridge_files::TensorFile::from_bytes(bytes)?.is_single());
    /// # Ok::<(), dlbridge_files::Error>(())
    /// ```
    pub fn is_single(&self) -> bool {
        self.index.is_single
    }

    /// The metadata of the file; of all files of a sharded model together.
    ///
    /// ```no_run
    /// let file = dlbridge_files::TensorFile::read("model.gguf")?;
    /// println!("{:?}", file.metadata().get("general.architecture"));
    /// # Ok::<(), dlbridge_files::Error>(())
    /// ```
    pub fn metadata(&self) -> &BTreeMap<String, Value> {
        &self.index.metadata
    }

    /// The names of those values that are not in [`tensors`](Self::tensors) because they cannot be read, and the reasons:
    /// text in an npz file, unknown types of GGUF, values of a checkpoint that need code.
    ///
    /// ```no_run
    /// for (name, reason) in dlbridge_files::TensorFile::read("model.pt")?.refused() {
    ///     eprintln!("{name}: {reason}");
    /// }
    /// # Ok::<(), dlbridge_files::Error>(())
    /// ```
    pub fn refused(&self) -> &BTreeMap<String, String> {
        &self.index.refused
    }

    /// The description of a tensor.
    ///
    /// # Errors
    /// [`Fault::Missing`]; [`Fault::Refused`].
    ///
    /// ```no_run
    /// let file = dlbridge_files::TensorFile::read("model.safetensors")?;
    /// println!("{:?}", file.entry("weight")?.nbytes());
    /// # Ok::<(), dlbridge_files::Error>(())
    /// ```
    pub fn entry(&self, name: &str) -> Result<&Entry, Error> {
        self.index.tensors.get(name).ok_or_else(|| {
            let name = name.to_owned();
            let fault = match self.index.refused.get(&name) {
                Some(reason) => Fault::Refused { name, reason: reason.clone() },
                None => Fault::Missing { name },
            };
            Error::new(&self.path, fault)
        })
    }

    /// Makes floats of four bits pairs, `float4_e2m1fnx2`, as PyTorch has them, where the last extent is even.
    ///
    /// ```no_run
    /// let file = dlbridge_files::TensorFile::read("model.safetensors")?.with_pairs();
    /// println!("{}", file.entry("weight")?.dtype);
    /// # Ok::<(), dlbridge_files::Error>(())
    /// ```
    #[must_use]
    pub fn with_pairs(mut self) -> Self {
        self.index.tensors.values_mut().for_each(Entry::make_pairs);
        self
    }

    /// Returns a tensor: mapped, if the file is and the elements are as in memory; otherwise read.
    ///
    /// # Errors
    /// [`Fault::Missing`]; [`Fault::Refused`]; [`Fault::Tensor`]; [`Fault::Io`].
    ///
    /// ```no_run
    /// let file = dlbridge_files::TensorFile::read("model.safetensors")?;
    /// let weight = file.tensor("weight")?;
    /// println!("{}", weight.view::<f32>()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tensor(&self, name: &str) -> Result<Tensor, Error> {
        self.with(name, Source::shared)
    }

    /// Returns a tensor that the caller alone has, and may write: private pages of a mapped file, which are copied when
    /// they are written and never reach the file; otherwise read.
    ///
    /// On Linux the tensors of a file are parts of one map. A tensor that is requested again gets a map of its own, and
    /// elsewhere each does. While 30 000 of those live, and if the system refuses a map, it is read.
    ///
    /// Tensors of a mapped checkpoint that are views of one storage, such as tied weights, are [`Shared`](Access::Shared):
    /// they use the same private pages, so that a write by another library to one of them shows in the others.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    ///
    /// ```no_run
    /// let file = dlbridge_files::TensorFile::read("model.safetensors")?;
    /// let tensor = file.private_tensor("weight")?;
    /// println!("{} {:?}", tensor.dtype(), tensor.shape());
    /// # Ok::<(), dlbridge_files::Error>(())
    /// ```
    pub fn private_tensor(&self, name: &str) -> Result<Tensor, Error> {
        self.with(name, Source::private)
    }

    /// Returns the numbers of a tensor of quantised blocks in memory of their own, as `FLOAT32`, `FLOAT16` or
    /// `BFLOAT16`; each is computed as `float32`, as gguf-py does, and then rounded to the nearest number of the dtype.
    ///
    /// These types have numbers: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4, TQ1_0 and TQ2_0.
    /// Floats of 16 and 32 bits are converted. Large tensors use the threads of [`dlbridge::num_threads`].
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Fault::Refused`] for another type, and another dtype.
    ///
    /// ```no_run
    /// let file = dlbridge_files::TensorFile::read("model.gguf")?;
    /// let weight = file.dequantize("blk.0.attn_q.weight", dlbridge::DataType::FLOAT32)?;
    /// println!("{}", weight.view::<f32>()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dequantize(&self, name: &str, dtype: DataType) -> Result<Tensor, Error> {
        self.with(name, |source, name, entry| {
            dequantized(name, entry, dtype, || source.shared(name, entry))
        })
    }

    /// The tensor of the run of elements that `make` finds in the file.
    fn with(
        &self,
        name: &str,
        make: impl FnOnce(&Source, &str, &Entry) -> Result<Tensor, Fault>,
    ) -> Result<Tensor, Error> {
        let entry = self.entry(name)?;
        let source = &self.files[entry.file];
        let fault = |error| tensor_fault(name, error);
        let run = entry.run().ok_or_else(|| fault(dlbridge::Error::TooLarge));
        run.and_then(|run| make(source, name, &run))
            .and_then(|run| entry.in_order(run).map_err(fault))
            .map_err(|fault| Error::new(&source.path, fault))
    }
}

impl Source {
    /// The elements in the bytes of the file, or read.
    fn shared(&self, name: &str, entry: &Entry) -> Result<Tensor, Fault> {
        match (&self.shared, stored(entry)) {
            (Some(bytes), Some(offset)) => bytes
                .share_bytes(entry.dtype, &entry.shape, offset as usize)
                .map_err(|error| tensor_fault(name, error)),
            _ => self.read(name, entry),
        }
    }

    /// The elements in a private map, or read.
    fn private(&self, name: &str, entry: &Entry) -> Result<Tensor, Fault> {
        let nbytes = entry.nbytes().unwrap_or(0) as usize;
        let (Bytes::File(file), Some(_), Some(offset), true) =
            (&self.bytes, &self.shared, stored(entry), nbytes > 0)
        else {
            return self.read(name, entry);
        };
        let (dtype, shape, first) = (entry.dtype, &entry.shape, offset as usize);
        let tensor = match entry.storage.clone() {
            // SAFETY: the promise of `map`, which lasts as long as this and every tensor of the file.
            None => unsafe { self.private.pages(file, first..first + nbytes) }
                .map(|pages| Tensor::from_bytes(pages, dtype, shape, 0)),
            Some(Range { start, end }) => {
                let (start, end) = (start as usize, end as usize);
                // SAFETY: the promise of `map`, as above: nothing changes the file while a tensor of it exists.
                unsafe { self.private.storage(file, start..end) }
                    .map(|storage| Tensor::from_bytes(storage, dtype, shape, first - start))
            }
        };
        match tensor {
            Some(tensor) => tensor.map_err(|error| tensor_fault(name, error)),
            None => self.read(name, entry),
        }
    }

    fn at(&self, offset: u64) -> At<'_> {
        At::new(&self.bytes, offset, self.len)
    }

    /// Reads the elements into memory of their own.
    fn read(&self, name: &str, entry: &Entry) -> Result<Tensor, Fault> {
        let fault = |error| tensor_fault(name, error);
        let bytes = entry.nbytes().unwrap_or(0) as usize;
        if bytes == 0 {
            return Tensor::zeroed(entry.dtype, &entry.shape).map_err(fault);
        }
        let room = bytes.checked_add(ALIGNMENT).ok_or_else(|| fault(dlbridge::Error::TooLarge))?;
        let mut memory = Vec::new();
        memory
            .try_reserve_exact(room)
            .map_err(|_| fault(dlbridge::Error::OutOfMemory { bytes: room, for_copy: false }))?;
        memory.resize(room, 0_u8);
        let first = memory.as_ptr().align_offset(ALIGNMENT);
        let target = &mut memory[first..first + bytes];
        match entry.place {
            Place::Stored { offset } => self.at(offset).read_exact(target)?,
            Place::Deflated { offset, len, skip } => {
                let stream = self.at(offset).take(len);
                read_inflated(stream, skip, target).map_err(|error| damaged(name, error))?;
            }
        }
        let tensor = Tensor::from_bytes(memory, entry.dtype, &entry.shape, first).map_err(fault)?;
        match entry.is_swapped {
            true => TensorRef::from(&tensor).to_byte_swapped().map_err(fault),
            false => Ok(tensor),
        }
    }
}

/// The first byte of elements that are in the file as they are in memory.
fn stored(entry: &Entry) -> Option<u64> {
    match entry.place {
        Place::Stored { offset } if !entry.is_swapped => Some(offset),
        _ => None,
    }
}

/// The fault of a deflated tensor that cannot be inflated.
fn damaged(name: &str, error: io::Error) -> Fault {
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
            invalid(NPZ, format!("member {name:?}: {error}"))
        }
        _ => error.into(),
    }
}

pub(crate) fn tensor_fault(name: &str, error: dlbridge::Error) -> Fault {
    Fault::Tensor { name: name.into(), error }
}
