//! The files of a sharded model, which a file in JSON lists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::formats::invalid;
use crate::safetensors::MAX_HEADER;
use crate::{Error, Fault, formats};

/// The format, for messages.
const NAME: &str = "shard index";

/// The names of models in a folder, which an index may list: the first that is there is the model.
const NAMES: [&str; 4] = [
    "model.safetensors",
    "diffusion_pytorch_model.safetensors",
    "pytorch_model.bin",
    "diffusion_pytorch_model.bin",
];

#[derive(Deserialize)]
struct Shards {
    weight_map: BTreeMap<String, String>,
}

/// The files that a path stands for.
pub(crate) struct Listed {
    /// The path of the file, or of the index.
    pub(crate) path: PathBuf,
    /// The files with tensors, sorted by name.
    pub(crate) paths: Vec<PathBuf>,
    /// The file of each tensor, if the path is that of an index.
    pub(crate) places: BTreeMap<String, PathBuf>,
    /// The index, which is open, so that no other file gets its number.
    index: Option<(PathBuf, File)>,
}

impl Listed {
    /// Lists the files of a path.
    pub(crate) fn of(path: &Path) -> Result<Self, Error> {
        let path = &found(path).map_err(|fault| Error::new(path, fault))?;
        if path.extension().is_none_or(|extension| extension != "json") {
            let (path, places) = (path.clone(), BTreeMap::new());
            return Ok(Self { paths: vec![path.clone()], path, places, index: None });
        }
        let (shards, file) = read(path).map_err(|fault| Error::new(path, fault))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let places: BTreeMap<String, PathBuf> =
            shards.into_iter().map(|(name, file)| (name, folder.join(file))).collect();
        let files: BTreeSet<&PathBuf> = places.values().collect();
        let paths = files.into_iter().cloned().collect();
        Ok(Self { path: path.clone(), paths, places, index: Some((path.clone(), file)) })
    }

    /// Returns true if no other index has replaced the one that was read.
    pub(crate) fn is_current(&self) -> bool {
        let Some((path, file)) = &self.index else { return true };
        let (Ok(read), Ok(now)) = (file.metadata(), fs::metadata(path)) else { return false };
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            (read.dev(), read.ino()) == (now.dev(), now.ino())
        }
        #[cfg(not(unix))]
        {
            (read.len(), read.modified().ok()) == (now.len(), now.modified().ok())
        }
    }
}

/// The file or index of a path, which may be that of a folder, or of a model that was split into shards.
fn found(path: &Path) -> Result<PathBuf, Fault> {
    let index = |path: &Path| {
        let mut index = path.as_os_str().to_owned();
        index.push(".index.json");
        PathBuf::from(index)
    };
    if !path.is_dir() {
        let may_be_split = path.extension().is_some_and(|end| end == "safetensors" || end == "bin");
        let is_split = may_be_split && path.symlink_metadata().is_err() && index(path).is_file();
        return Ok(if is_split { index(path) } else { path.into() });
    }
    let files = NAMES.map(|name| path.join(name));
    let mut all = files.into_iter().flat_map(|file| [index(&file), file]);
    all.find(|file| file.is_file()).ok_or_else(|| {
        let names = NAMES.join(", ");
        let reason = format!("the folder has none of {names} or an index of them; name the file");
        Fault::Io(io::Error::new(ErrorKind::NotFound, reason))
    })
}

/// The file of each tensor in an index, and the index.
fn read(path: &Path) -> Result<(BTreeMap<String, String>, File), Fault> {
    let mut text = String::new();
    // Opening a pipe would wait for a program that writes it.
    if !fs::metadata(path)?.is_file() {
        return Err(Fault::Io(io::Error::other("it is not a regular file")));
    }
    let file = File::open(path)?;
    let read = (&file).take(MAX_HEADER + 1).read_to_string(&mut text);
    read.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => invalid(NAME, "it is not UTF-8"),
        _ => error.into(),
    })?;
    if text.len() as u64 > MAX_HEADER {
        return Err(invalid(NAME, format!("it has more than {MAX_HEADER} bytes")));
    }
    let shards: Shards = serde_json::from_str(&text).map_err(|error| {
        formats::not_downloaded(text.as_bytes()).unwrap_or_else(|| invalid(NAME, error.to_string()))
    })?;
    for file in shards.weight_map.values() {
        let is_name = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_name || file.is_empty() {
            return Err(invalid(
                NAME,
                format!("the file {file:?} is not in the folder of the index"),
            ));
        }
    }
    if shards.weight_map.is_empty() {
        return Err(invalid(NAME, "it lists no file"));
    }
    Ok((shards.weight_map, file))
}

/// The fault of an index that names a tensor which its file lacks.
pub(crate) fn lacks(name: &str, file: &Path) -> Fault {
    invalid(NAME, format!("it lists the tensor {name:?} in {}, which lacks it", file.display()))
}
