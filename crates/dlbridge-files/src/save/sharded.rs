//! The files of a sharded model that is written, and their index.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;
use std::time::SystemTime;

use super::plan::Planned;

/// The files of a sharded model: their paths, and the tensors of each by number.
pub(super) fn files(
    path: &Path,
    sizes: &[u64],
    max_shard_bytes: Option<u64>,
) -> Vec<(PathBuf, Vec<usize>)> {
    let limit = max_shard_bytes.unwrap_or(u64::MAX);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut filled = 0_u64;
    for (nth, &size) in sizes.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if filled.saturating_add(size) <= limit => {
                group.push(nth);
                filled += size;
            }
            _ => {
                groups.push(vec![nth]);
                filled = size;
            }
        }
    }
    if groups.len() < 2 {
        return vec![(path.into(), (0..sizes.len()).collect())];
    }
    let mut names = paths(path, groups.len(), "");
    // A loader may have read the index of an older model, so its names are not used again. A child process begins with the
    // random state of its parent.
    if names.iter().chain([&index_path(path)]).any(|path| path.exists()) {
        let version = RandomState::new().hash_one((process::id(), SystemTime::now()));
        names = paths(path, groups.len(), &format!("-{version:016x}"));
    }
    names.into_iter().zip(groups).collect()
}

/// The paths of the files of a sharded model: `model-00001-of-00002.safetensors`, with a version before the number.
fn paths(model: &Path, count: usize, version: &str) -> Vec<PathBuf> {
    let one = |nth| {
        let mut name = model.file_stem().unwrap_or_default().to_os_string();
        name.push(format!("{version}-{nth:05}-of-{count:05}.safetensors"));
        model.with_file_name(name)
    };
    (1..=count).map(one).collect()
}

/// Returns true for a path that [`paths`] gives to a file of the model.
fn is_of_model(model: &Path, path: &Path) -> bool {
    let stem = model.file_stem().unwrap_or_default().to_string_lossy();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let rest = name.strip_prefix(&*stem).and_then(|rest| rest.strip_suffix(".safetensors"));
    let Some(rest) = rest else { return false };
    let is_number = |part: &str| part.len() >= 5 && part.bytes().all(|byte| byte.is_ascii_digit());
    // `v1` and so on are older.
    let is_version = |part: &str| match part.strip_prefix('v') {
        Some(number) => number.bytes().all(|byte| byte.is_ascii_digit()),
        None => part.len() == 16 && part.bytes().all(|byte| byte.is_ascii_hexdigit()),
    };
    let is_name = match rest.split('-').collect::<Vec<_>>()[..] {
        ["", nth, "of", count] => is_number(nth) && is_number(count),
        ["", version, nth, "of", count] => {
            is_version(version) && is_number(nth) && is_number(count)
        }
        _ => false,
    };
    is_name && path.parent() == model.parent()
}

/// Removes the files of the model that was at the path before, except for those of the new one. An index may list any
/// files; only those with names of such a model are removed.
pub(super) fn remove_old(model: &Path, old: &[PathBuf], new: &[PathBuf]) -> io::Result<()> {
    if new.len() == 1 {
        remove(&index_path(model))?;
    } else {
        remove(model)?;
    }
    let is_old = |path: &&PathBuf| is_of_model(model, path) && !new.contains(path);
    old.iter().filter(is_old).try_for_each(|path| remove(path))
}

fn remove(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The path of the index of a sharded model: `model.safetensors.index.json`.
pub(super) fn index_path(model: &Path) -> PathBuf {
    let mut name = model.file_name().unwrap_or_default().to_os_string();
    name.push(".index.json");
    model.with_file_name(name)
}

/// The text of the index of a sharded model.
pub(super) fn text(groups: &[(PathBuf, Vec<usize>)], planned: &[Planned]) -> String {
    let total: u64 = planned.iter().map(Planned::nbytes).sum();
    let mut weights = BTreeMap::new();
    for (path, group) in groups {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        weights.extend(group.iter().map(|&nth| (&planned[nth].name, file.clone())));
    }
    let index = serde_json::json!({"metadata": {"total_size": total}, "weight_map": weights});
    serde_json::to_string_pretty(&index).expect("text and numbers")
}
