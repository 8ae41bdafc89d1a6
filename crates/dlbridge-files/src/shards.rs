//! The files of a sharded model, which a file in JSON lists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::format::invalid;
use crate::safetensors::MAX_HEADER;
use crate::{Error, Fault, formats};

/// The format, for messages.
const NAME: &str = "shard index";

/// The name of an index in the folder of a model.
const INDEX: &str = "model.safetensors.index.json";

/// The name of the only file in the folder of a model that is not sharded.
const SINGLE: &str = "model.safetensors";

#[derive(Deserialize)]
struct Shards {
    weight_map: BTreeMap<String, String>,
}

/// The files that a path stands for.
pub(crate) struct Listed {
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
        let of_folder = || {
            let index = path.join(INDEX);
            if index.is_file() { index } else { path.join(SINGLE) }
        };
        let path = if path.is_dir() { &of_folder() } else { path };
        if path.extension().is_none_or(|extension| extension != "json") {
            return Ok(Self { paths: vec![path.into()], places: BTreeMap::new(), index: None });
        }
        let (shards, file) = read(path).map_err(|fault| Error::new(path, fault))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let places: BTreeMap<String, PathBuf> =
            shards.into_iter().map(|(name, file)| (name, folder.join(file))).collect();
        let files: BTreeSet<&PathBuf> = places.values().collect();
        let paths = files.into_iter().cloned().collect();
        Ok(Self { paths, places, index: Some((path.into(), file)) })
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
