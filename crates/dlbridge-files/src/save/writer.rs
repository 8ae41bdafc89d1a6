//! A file that is written tensor by tensor.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use dlbridge::{Tensor, TensorRef};
use tempfile::{Builder, TempPath};

use super::pieces;
use super::plan::{Planned, SaveOptions};
use super::{header, sharded};
use crate::shards::Listed;
use crate::{Error, Fault, formats, safetensors};

/// Writes a file, or the files of a sharded model, from tensors that need not live at the same time.
///
/// [`next_index`](Self::next_index) says which tensor of the plan must be written, so that data on a GPU, or in a program that
/// computes it, needs memory for one tensor. Nothing appears under the path before [`finish`](Self::finish). As [`save`](crate::save),
/// it writes repeated elements and does not check the free space.
///
/// ```
/// use dlbridge::{DataType, Tensor, TensorRef};
/// use dlbridge_files::{FileWriter, Planned, SaveOptions, TensorFile};
///
/// let path = std::env::temp_dir().join(format!("doc-writer-{}.safetensors", std::process::id()));
/// let plan = ["a", "b"].map(|name| Planned::new(name, DataType::FLOAT32, [2]));
/// let mut writer = FileWriter::create(&path, plan, &SaveOptions::default())?;
/// while let Some(nth) = writer.next_index() {
///     let computed = Tensor::from(vec![nth as f32; 2]);
///     writer.write(&TensorRef::from(&computed))?;
/// }
/// writer.finish()?;
/// assert_eq!(TensorFile::read(&path)?.tensor("b")?.view::<f32>()?[[0]], 1.0);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileWriter {
    path: PathBuf,
    planned: Vec<Planned>,
    /// The files, each with the tensors that are still to be written in reverse order.
    files: Vec<Part>,
    /// The file that is written.
    current: usize,
    /// The text of the index of a sharded model.
    index: Option<String>,
    /// True after data could not be written.
    has_failed: bool,
}

/// A file, before it has its name.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    temporary: TempPath,
    todo: Vec<usize>,
    body: Body,
}

/// A complete file without its name.
type Written = (File, TempPath);

/// The content of a file.
#[derive(Debug)]
enum Body {
    Plain(BufWriter<File>),
    #[cfg(feature = "npz")]
    Npz(Box<super::archive::Archive>),
}

/// The longest name of a tensor in an archive, whose member has `.npy` behind it.
const MAX_NAME: usize = u16::MAX as usize - 4;

/// The formats that are written.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Safetensors,
    Npy,
    #[cfg(feature = "npz")]
    Npz,
}

impl FileWriter {
    /// Begins a file. Its format is that of the extension: `.safetensors`, `.npy` or `.npz`.
    ///
    /// # Errors
    /// Those of [`save`](crate::save), except for the data.
    pub fn create(
        path: impl AsRef<Path>,
        planned: impl IntoIterator<Item = Planned>,
        options: &SaveOptions,
    ) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::created(path, planned.into_iter().collect(), options)
            .map_err(|fault| Error::new(path, fault))
    }

    fn created(path: &Path, planned: Vec<Planned>, options: &SaveOptions) -> Result<Self, Fault> {
        let kind = Kind::of(path)?;
        kind.check(&planned, options)?;
        let sizes: Vec<u64> = planned.iter().map(Planned::nbytes).collect();
        let groups = sharded::files(path, &sizes, options.max_shard_bytes);
        if groups.len() > 1 && path.file_name().is_none_or(|name| name.to_str().is_none()) {
            let reason = "its index cannot have a name that is not UTF-8".to_owned();
            return Err(Fault::Unwritable { format: kind.name(), reason });
        }
        if groups.len() > 1 && path.is_dir() {
            return Err(Fault::Io(ErrorKind::IsADirectory.into()));
        }
        let index = (groups.len() > 1).then(|| sharded::text(&groups, &planned));
        let part = |(path, group): (PathBuf, Vec<usize>)| -> Result<Part, Fault> {
            let of_group: Vec<Planned> = group.iter().map(|&nth| planned[nth].clone()).collect();
            let order = match kind {
                Kind::Safetensors => header::safetensors_order(&of_group),
                _ => (0..of_group.len()).collect(),
            };
            let in_order: Vec<&Planned> = order.iter().map(|&nth| &of_group[nth]).collect();
            let (file, temporary) = temporary(&path)?;
            let body = match kind {
                Kind::Safetensors => {
                    plain(file, &header::safetensors(&in_order, &options.metadata)?)?
                }
                Kind::Npy => plain(file, &header::npy(in_order[0]))?,
                #[cfg(feature = "npz")]
                Kind::Npz => Body::Npz(Box::new(super::archive::Archive::new(file))),
            };
            let todo = order.iter().rev().map(|&nth| group[nth]).collect();
            Ok(Part { path, temporary, todo, body })
        };
        let files = groups.into_iter().map(part).collect::<Result<_, _>>()?;
        Ok(Self { path: path.into(), planned, files, current: 0, index, has_failed: false })
    }

    /// The number in the plan of the tensor that is written next; `None` after the last.
    pub fn next_index(&mut self) -> Option<usize> {
        while self.files.get(self.current).is_some_and(|part| part.todo.is_empty()) {
            self.current += 1;
        }
        self.files.get(self.current)?.todo.last().copied()
    }

    /// Writes the elements of the tensor that [`next_index`](Self::next_index) named.
    ///
    /// # Errors
    /// [`Fault::Plan`] if the dtype or the shape is not that of the plan; [`Fault::Tensor`] for data that cannot be read;
    /// [`Fault::Io`]. After the last two, the file cannot be finished.
    ///
    /// # Panics
    /// If all tensors were written.
    pub fn write(&mut self, tensor: &TensorRef<'_>) -> Result<(), Error> {
        self.write_while(tensor, &mut || true).map(|_| ())
    }

    /// As [`write`](Self::write). Calls `go_on` after every piece of about 16 MiB, and returns `None` when it returns
    /// false; the file cannot be finished then.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    ///
    /// # Panics
    /// If all tensors were written.
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor, TensorRef};
    /// use dlbridge_files::{FileWriter, Planned, SaveOptions};
    ///
    /// let path = std::env::temp_dir().join(format!("doc-while-{}.safetensors", std::process::id()));
    /// let plan = [Planned::new("a", DataType::FLOAT32, [2])];
    /// let mut writer = FileWriter::create(&path, plan, &SaveOptions::default())?;
    /// let tensor = Tensor::from(vec![0.0_f32; 2]);
    /// assert!(writer.write_while(&TensorRef::from(&tensor), &mut || false)?.is_none());
    /// assert!(writer.finish().is_err() && !path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_while(
        &mut self,
        tensor: &TensorRef<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<()>, Error> {
        let nth = self.next_index().expect("a tensor is still to be written");
        let planned = &self.planned[nth];
        let part = &mut self.files[self.current];
        let written = match self.has_failed {
            true => Err(Fault::Io(io::Error::other("an earlier tensor could not be written"))),
            false => part.write(planned, tensor, go_on),
        };
        self.has_failed |= match &written {
            Ok(done) => done.is_none(),
            Err(fault) => !matches!(fault, Fault::Plan { .. }),
        };
        let done = written.map_err(|fault| Error::new(&self.path, fault))?;
        if done.is_some() {
            part.todo.pop();
        }
        Ok(done)
    }

    /// Gives the file its name. The files of a sharded model have names of their own until their index replaces that of the
    /// model that was there before, whose files are then removed.
    ///
    /// # Errors
    /// [`Fault::Io`]; [`Fault::Missing`] if a tensor was not written.
    pub fn finish(mut self) -> Result<(), Error> {
        let path = self.path.clone();
        let fault = |fault| Error::new(&path, fault);
        if let Some(nth) = self.next_index() {
            return Err(fault(Fault::Missing { name: self.planned[nth].name.to_owned() }));
        }
        let may_be_sharded = Kind::of(&path).is_ok_and(|kind| kind == Kind::Safetensors);
        let index = sharded::index_path(&path);
        let old = if may_be_sharded {
            Listed::of(&index).map_or_else(|_| Vec::new(), |listed| listed.paths)
        } else {
            Vec::new()
        };
        let new: Vec<PathBuf> = self.files.iter().map(|part| part.path.clone()).collect();
        let finish = || -> Result<(), Fault> {
            // Everything is written before any file has its name.
            let mut files: Vec<(Written, PathBuf)> =
                self.files.into_iter().map(Part::finish).collect::<Result<_, _>>()?;
            if let Some(text) = self.index {
                let (mut file, temporary) = temporary(&index)?;
                file.write_all(text.as_bytes())?;
                files.push(((file, temporary), index.clone()));
            }
            // New names of a model that is private already are private too.
            let like = old.first().unwrap_or(&path).clone();
            files.into_iter().try_for_each(|(written, path)| persist(written, &path, &like))
        };
        let finished = finish();
        if finished.is_err() && new.len() > 1 {
            // Without their index they are of no use.
            new.iter().for_each(|path| drop(fs::remove_file(path)));
        }
        finished.map_err(fault)?;
        if may_be_sharded {
            sharded::remove_old(&path, &old, &new).map_err(|error| fault(error.into()))?;
        }
        Ok(())
    }
}

impl Part {
    fn write(
        &mut self,
        planned: &Planned,
        tensor: &TensorRef<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<()>, Fault> {
        let name = &planned.name;
        let found = Planned::of(name, tensor);
        if found != *planned {
            let shown = |tensor: &Planned| format!("{} of shape {:?}", tensor.dtype, tensor.shape);
            return Err(Fault::Plan {
                name: name.to_owned(),
                planned: shown(planned),
                found: shown(&found),
            });
        }
        match &mut self.body {
            Body::Plain(file) => pieces::write(name, tensor, file, go_on),
            #[cfg(feature = "npz")]
            Body::Npz(archive) => {
                archive.begin(name, &header::npy(planned))?;
                pieces::write(name, tensor, archive, go_on)
            }
        }
    }

    fn finish(self) -> Result<(Written, PathBuf), Fault> {
        let file = match self.body {
            Body::Plain(file) => file.into_inner().map_err(io::IntoInnerError::into_error)?,
            #[cfg(feature = "npz")]
            Body::Npz(archive) => archive.finish()?,
        };
        Ok(((file, self.temporary), self.path))
    }
}

impl Kind {
    fn of(path: &Path) -> Result<Self, Fault> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("safetensors") => Ok(Self::Safetensors),
            Some("npy") => Ok(Self::Npy),
            #[cfg(feature = "npz")]
            Some("npz") => Ok(Self::Npz),
            _ => Err(Fault::Extension),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Safetensors => formats::SAFETENSORS,
            Self::Npy => formats::NPY,
            #[cfg(feature = "npz")]
            Self::Npz => formats::NPZ,
        }
    }

    /// Checks what is known before the data.
    fn check(self, planned: &[Planned], options: &SaveOptions) -> Result<(), Fault> {
        let unwritable =
            |reason: &str| Fault::Unwritable { format: self.name(), reason: reason.into() };
        if self != Self::Safetensors
            && (!options.metadata.is_empty() || options.max_shard_bytes.is_some())
        {
            return Err(unwritable(
                "only safetensors files have metadata and shards; leave them out, or write NAME.safetensors",
            ));
        }
        if self == Self::Npy && planned.len() != 1 {
            let count = planned.len();
            return Err(unwritable(&format!(
                "it has exactly one tensor, not {count}; write others to an npz file"
            )));
        }
        let mut names = BTreeSet::new();
        for tensor in planned {
            let name = || tensor.name.to_owned();
            let is_known = match self {
                Self::Safetensors => header::safetensors_dtype(tensor.dtype).is_some(),
                _ => header::npy_dtype(tensor.dtype).is_some(),
            };
            if !is_known {
                return Err(Fault::DataType {
                    format: self.name(),
                    name: name(),
                    dtype: tensor.dtype,
                });
            }
            if self == Self::Safetensors && tensor.name == safetensors::METADATA {
                return Err(unwritable(
                    "the format reserves the name __metadata__; give the tensor another",
                ));
            }
            if !names.insert(&tensor.name) {
                return Err(Fault::Name { name: name() });
            }
            // Zip programs end a name at NUL, and count its bytes with 16 bits.
            if self.name() == formats::NPZ
                && (tensor.name.contains('\0') || tensor.name.len() > MAX_NAME)
            {
                let name: String = tensor.name.chars().take(40).collect();
                return Err(unwritable(&format!(
                    "the name {name:?} has a NUL, or more than {MAX_NAME} bytes; give the tensor another"
                )));
            }
            let ndim = tensor.shape.len();
            if self != Self::Safetensors && ndim > header::NUMPY_MAX_NDIM {
                let name = &tensor.name;
                let most = header::NUMPY_MAX_NDIM;
                return Err(unwritable(&format!(
                    "tensor {name:?} has {ndim} dimensions, and NumPy at most {most}"
                )));
            }
            if !tensor.bits().is_multiple_of(8) {
                let error = dlbridge::Error::SubbytePacked { dtype: tensor.dtype };
                return Err(Fault::Tensor { name: name(), error });
            }
        }
        Ok(())
    }
}

/// A safetensors file of these tensors, as planned.
pub(super) fn safetensors(
    tensors: &[&Tensor],
    planned: &[Planned],
    options: &SaveOptions,
) -> Result<Vec<u8>, Fault> {
    Kind::Safetensors.check(planned, options)?;
    let order = header::safetensors_order(planned);
    let in_order: Vec<&Planned> = order.iter().map(|&nth| &planned[nth]).collect();
    let mut file = header::safetensors(&in_order, &options.metadata)?;
    let data = planned.iter().fold(0, |sum: u64, tensor| sum.saturating_add(tensor.nbytes()));
    let bytes = usize::try_from(data).unwrap_or(usize::MAX);
    file.try_reserve_exact(bytes).map_err(|_| {
        let (name, error) = (String::new(), dlbridge::Error::OutOfMemory { bytes, for_copy: true });
        Fault::Tensor { name, error }
    })?;
    for nth in order {
        pieces::write(&planned[nth].name, &TensorRef::from(tensors[nth]), &mut file, &mut || true)?;
    }
    Ok(file)
}

/// A file with another name in the folder of a path.
fn temporary(path: &Path) -> Result<(File, TempPath), Fault> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::metadata(folder)?;
    let mut builder = Builder::new();
    builder.prefix(".").suffix(".part");
    // The builder's own error hides the number of the system's, and names a file that the caller does not know.
    let mut number = None;
    let made = builder.make_in(folder, |path| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.open(path).inspect_err(|error| number = error.raw_os_error())
    });
    let made = made.map_err(|error| number.map_or(error, io::Error::from_raw_os_error));
    Ok(made?.into_parts())
}

/// Gives a file its name, with the mode of the file that it replaces, or of another one.
fn persist((file, temporary): Written, path: &Path, like: &Path) -> Result<(), Fault> {
    if let Ok(replaced) = fs::metadata(path).or_else(|_| fs::metadata(like)) {
        file.set_permissions(without_set_id(replaced.permissions()))?;
    }
    temporary.persist(path).map_err(|error| Fault::Io(error.error))?;
    Ok(())
}

/// Permissions without the bits that give a program another user.
#[cfg(unix)]
fn without_set_id(permissions: Permissions) -> Permissions {
    use std::os::unix::fs::PermissionsExt;
    Permissions::from_mode(permissions.mode() & 0o777)
}

#[cfg(not(unix))]
fn without_set_id(permissions: Permissions) -> Permissions {
    permissions
}

fn plain(file: File, header: &[u8]) -> Result<Body, Fault> {
    let mut file = BufWriter::with_capacity(1 << 20, file);
    file.write_all(header)?;
    Ok(Body::Plain(file))
}
