//! The folder of everything that a release builds, and its list.

use std::fs;
use std::path::{Path, PathBuf};

use crate::python::Venv;
use crate::workplace::{names, remove_folder};
use crate::{Result, Workplace, process};

/// The folders inside: for crates.io, for PyPI, and for wheels that are not uploaded.
pub(super) const CRATES: &str = "crates";
pub(super) const PYTHON: &str = "python";
pub(super) const FREE_THREADED: &str = "free-threaded";

/// The hashes, in the format of `sha256sum`.
const SUMS: &str = "SHA256SUMS";

/// The sizes, as a table in Markdown.
const TABLE: &str = "artifacts.md";

/// The outcome of each step, as a table in Markdown.
const STEPS: &str = "steps.md";

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
    remove_folder(&folder)?;
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
pub(super) fn forget_crates(clone: &Workplace) -> Result<()> {
    remove_folder(&packages(clone))
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

/// Prints every artefact with its size, and writes the hashes and a table of the sizes into files beside them.
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
    let mut sums = String::new();
    let mut sizes = Vec::new();
    for (file, hash) in files.iter().zip(hashes) {
        let size = size(&folder.join(file))?;
        println!("{size:>9}  {hash}  {file}");
        sums += &format!("{hash}  {file}\n");
        sizes.push((file.as_str(), size));
    }
    println!("{:>9}  bytes in {} artefacts: {}", total(&sizes), files.len(), folder.display());
    for (name, text) in [(SUMS, sums), (TABLE, table(&sizes))] {
        fs::write(folder.join(name), text).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

/// Writes the table of the steps. The run may have failed before it made the folder.
pub(super) fn write_steps(clone: &Workplace, steps: &str) -> Result<()> {
    let file = folder(clone).join(STEPS);
    let made = fs::create_dir_all(folder(clone)).and_then(|()| fs::write(&file, steps));
    made.map_err(|e| format!("{}: {e}", file.display()))
}

/// Returns the table of files and their sizes in bytes, for a page.
fn table(sizes: &[(&str, u64)]) -> String {
    let mut text = "| file | bytes |\n| --- | ---: |\n".to_owned();
    for (file, size) in sizes {
        text += &format!("| `{file}` | {size} |\n");
    }
    text + &format!("| {} files | {} |\n", sizes.len(), total(sizes))
}

fn total(sizes: &[(&str, u64)]) -> u64 {
    sizes.iter().map(|(_, size)| size).sum()
}

fn size(file: &Path) -> Result<u64> {
    fs::metadata(file).map(|m| m.len()).map_err(|e| format!("{}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_each_file_and_the_sum() {
        let sizes = [("crates/dlbridge-0.1.0.crate", 120), ("python/dlbridge-0.1.0.tar.gz", 34)];
        let expected = "| file | bytes |\n| --- | ---: |\n\
            | `crates/dlbridge-0.1.0.crate` | 120 |\n\
            | `python/dlbridge-0.1.0.tar.gz` | 34 |\n\
            | 2 files | 154 |\n";
        assert_eq!(table(&sizes), expected);
    }

    #[test]
    fn folder_that_cannot_be_emptied_is_an_error() {
        let target = std::env::temp_dir().join(format!("xtask-artifacts-{}", std::process::id()));
        let clone = Workplace { root: target.join("release-clone"), target: target.clone() };
        assert_eq!(clear(&clone), Ok(()));
        let old = folder(&clone).join(PYTHON).join("dlbridge-0.0.9.tar.gz");
        fs::write(&old, "").unwrap();
        assert_eq!(clear(&clone), Ok(()));
        assert!(!old.exists() && folder(&clone).join(CRATES).is_dir());
        fs::remove_dir_all(folder(&clone)).unwrap();
        // Even the root of a container cannot remove a file as a folder.
        fs::write(folder(&clone), "").unwrap();
        let error = clear(&clone).unwrap_err();
        assert!(error.contains("cannot be removed"), "{error}");
        fs::remove_dir_all(&target).unwrap();
    }
}
