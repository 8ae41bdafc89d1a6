//! Deletes files that no later step of `cargo xtask test --all` uses, in CI, whose disks are small. A developer keeps
//! them for the next run.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::python::Venv;
use crate::steps::{Steps, in_ci};
use crate::workplace::names;
use crate::{Workplace, process};

/// Deletes a folder of the target directory.
pub(crate) fn folder(steps: &Steps, workplace: &Workplace, folder: &str) {
    if in_ci() && !steps.counting() {
        // A folder that stays costs space, but no step reads it.
        let _ = fs::remove_dir_all(workplace.target.join(folder));
    }
}

/// Deletes the programs of tests that Cargo built in a folder of the target directory. Cargo builds one again if a
/// later step runs it.
pub(crate) fn tests(steps: &Steps, workplace: &Workplace, folder: &str) {
    if in_ci() && !steps.counting() {
        for program in programs_of_tests(&workplace.target.join(folder).join("deps")) {
            let _ = fs::remove_file(program);
        }
    }
}

/// Removes packages from the environment of a Python, and from the cache of uv, whose files the environment shares. Only
/// if `.ci/run` has put that cache into the target directory: other projects use the cache of the user.
pub(crate) fn packages(steps: &Steps, workplace: &Workplace, venv: &Venv<'_>, names: &[&str]) {
    let cache = env::var_os("UV_CACHE_DIR");
    let is_ours = cache.is_some_and(|cache| Path::new(&cache).starts_with(&workplace.target));
    if in_ci() && is_ours && !steps.counting() {
        let _ = process::run(venv.python().args(["-m", "pip", "uninstall", "--yes"]).args(names));
        let _ = process::run(venv.python().args(["-m", "uv", "cache", "clean"]).args(names));
    }
}

/// Removes a release of Rust that a step has installed.
pub(crate) fn toolchain(workplace: &Workplace, rust: &str) {
    if in_ci() {
        let _ = process::run(workplace.command("rustup").args(["toolchain", "uninstall", rust]));
    }
}

/// Returns the programs in a folder that lack a second name: Cargo gives one to the programs of packages, and an
/// extension to files that it reads again.
#[cfg(unix)]
fn programs_of_tests(folder: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let is_one = |path: &PathBuf| {
        let Ok(file) = fs::metadata(path) else { return false };
        let is_program = file.is_file() && file.permissions().mode() & 0o111 != 0;
        is_program && path.extension().is_none() && file.nlink() == 1
    };
    names(folder).into_iter().map(|name| folder.join(name)).filter(is_one).collect()
}

/// Returns nothing: CI runs on Linux.
#[cfg(not(unix))]
fn programs_of_tests(_folder: &Path) -> Vec<PathBuf> {
    Vec::new()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_programs_with_one_name_are_of_tests() {
        let folder = std::env::temp_dir().join(format!("dlbridge-deps-{}", std::process::id()));
        fs::create_dir_all(folder.join("up")).unwrap();
        for name in ["test-1a2b", "program-3c4d", "liba.so", "notes"] {
            fs::write(folder.join(name), name).unwrap();
            let mode = if name == "notes" { 0o644 } else { 0o755 };
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::hard_link(folder.join("program-3c4d"), folder.join("up/program")).unwrap();
        let found = programs_of_tests(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [folder.join("test-1a2b")]);
    }
}
