//! The folders of the crates in all packages of the repository.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the folder of every crate with modules below the root: `src` of each package, and each other folder with a
/// `main.rs`, such as that of a program or of a test.
///
/// It searches folders instead of Cargo's workspace, because some packages are not members of it.
pub(super) fn crates(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    search(root, false, &mut found)?;
    found.sort();
    Ok(found)
}

fn search(folder: &Path, in_package: bool, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let is_package = is_package(folder)?;
    let in_package = in_package || is_package;
    let sources = folder.join("src");
    if is_package && sources.is_dir() {
        found.push(sources.clone());
    }
    if in_package && folder.file_name() != sources.file_name() && folder.join("main.rs").is_file() {
        found.push(folder.to_owned());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        // Built files, virtual environments and the files of Git.
        let is_searched = name != "target" && !name.to_string_lossy().starts_with('.');
        if is_searched && entry.file_type()?.is_dir() {
            search(&entry.path(), in_package, found)?;
        }
    }
    Ok(())
}

fn is_package(folder: &Path) -> io::Result<bool> {
    match fs::read_to_string(folder.join("Cargo.toml")) {
        Ok(manifest) => Ok(manifest.lines().any(|line| line.trim() == "[package]")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_outside_of_the_workspace_and_programs_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let found = crates(root).unwrap();
        for folder in [
            "adapters/wgpu/tests/wgpu",
            "benches/rust/src",
            "conformance/crafter/src",
            "crates/dlbridge/src",
            "examples/image_pipeline/src/bin/draw_landscape",
            "fuzz/fuzz_targets/arrow",
            "fuzz/src",
            "peers/dlpark/src",
            "tests/arguments/src",
            "xtask/src",
        ] {
            assert!(found.contains(&root.join(folder)), "{folder} is not in {found:?}");
        }
        assert!(!found.iter().any(|folder| folder.starts_with(root.join("target"))), "{found:?}");
    }
}
