//! The folder of everything that a release builds, and its list.

use std::fs;
use std::path::{Path, PathBuf};

use crate::python::Venv;
use crate::workplace::names;
use crate::{Result, Workplace, process};

/// The folders inside: for crates.io, for PyPI, and for wheels that are not uploaded.
pub(super) const CRATES: &str = "crates";
pub(super) const PYTHON: &str = "python";
pub(super) const FREE_THREADED: &str = "free-threaded";

/// The list, in the format of `sha256sum`.
const LIST: &str = "SHA256SUMS";

/// Prints the SHA-256 of each file that it gets, one a line.
const HASH: &str = "import hashlib, pathlib, sys
for name in sys.argv[1:]:
    print(hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest())";

/// Returns the folder, which is beside the clone.
pub(super) fn folder(clone: &Workplace) -> PathBuf {
    clone.root.with_file_name("release-artifacts")
}

/// Empties the folder.
pub(super) fn clear(clone: &Workplace) -> Result<()> {
    let folder = folder(clone);
    let _ = fs::remove_dir_all(&folder);
    for inside in [CRATES, PYTHON, FREE_THREADED] {
        let inside = folder.join(inside);
        fs::create_dir_all(&inside).map_err(|e| format!("{}: {e}", inside.display()))?;
    }
    Ok(())
}

/// Returns the folder of the packages that Cargo made.
fn packages(clone: &Workplace) -> PathBuf {
    clone.target.join("package").join("tmp-crate")
}

/// Removes the packages of an earlier run.
pub(super) fn forget_crates(clone: &Workplace) {
    let _ = fs::remove_dir_all(packages(clone));
}

/// Copies the packages that Cargo made, if their number is right.
pub(super) fn copy_crates(clone: &Workplace, expected: usize) -> Result<()> {
    let from = packages(clone);
    let to = folder(clone).join(CRATES);
    let mut packages = names(&from);
    packages.retain(|name| name.ends_with(".crate"));
    if packages.len() != expected {
        return Err(format!("Cargo made {} packages of {expected} crates", packages.len()));
    }
    for name in packages {
        fs::copy(from.join(&name), to.join(&name)).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

/// Prints every artefact with its size, and writes the hashes into a file beside them.
pub(super) fn list(clone: &Workplace, venv: &Venv<'_>) -> Result<()> {
    let folder = folder(clone);
    let of_tags = names(&folder.join(FREE_THREADED));
    let free_threaded = of_tags.into_iter().map(|tags| format!("{FREE_THREADED}/{tags}"));
    let files: Vec<String> = [CRATES, PYTHON]
        .map(str::to_owned)
        .into_iter()
        .chain(free_threaded)
        .flat_map(|inside| {
            names(&folder.join(&inside)).into_iter().map(move |name| format!("{inside}/{name}"))
        })
        .collect();
    let mut hash = venv.python();
    hash.current_dir(&folder).args(["-c", HASH]).args(&files);
    let hashes = process::answer(&mut hash).ok_or("the hashes could not be computed")?;
    let hashes: Vec<_> = hashes.lines().collect();
    if hashes.len() != files.len() {
        return Err(format!("{} hashes of {} artefacts", hashes.len(), files.len()));
    }
    let mut total = 0;
    let mut text = String::new();
    for (file, hash) in files.iter().zip(hashes) {
        let size = size(&folder.join(file))?;
        total += size;
        println!("{size:>9}  {hash}  {file}");
        text += &format!("{hash}  {file}\n");
    }
    println!("{total:>9}  bytes in {} artefacts: {}", files.len(), folder.display());
    fs::write(folder.join(LIST), text).map_err(|e| format!("{LIST}: {e}"))
}

fn size(file: &Path) -> Result<u64> {
    fs::metadata(file).map(|m| m.len()).map_err(|e| format!("{}: {e}", file.display()))
}
