//! The directories that the tasks work in, and their contents.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{self, Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::process::Result;

/// The directories that the tasks work in; all absolute.
pub(crate) struct Workplace {
    /// The root of the repository.
    pub(crate) root: PathBuf,
    /// Cargo's target directory, for all built files.
    pub(crate) target: PathBuf,
}

impl Workplace {
    pub(crate) fn find() -> Result<Self> {
        // Cargo sets the variable when it runs the task; the constant is for a binary started by hand.
        let own = env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&own).parent().ok_or("xtask lacks a parent directory")?.to_owned();
        let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| root.join("target").into());
        let target = path::absolute(target).map_err(|e| format!("the target directory: {e}"))?;
        Ok(Self { root, target })
    }

    /// Returns the command `cargo` of the current toolchain, in the root.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = self.command("cargo");
        cargo.args(arguments);
        cargo
    }

    /// Returns a command in the root. Its child processes build in the same target directory.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command
    }
}

/// Returns a path as the pages write it, with the separator of Unix, also on Windows.
pub(crate) fn in_pages(path: &Path) -> String {
    path.display().to_string().replace(path::MAIN_SEPARATOR, "/")
}

/// Returns the names in a directory, in a fixed order; none if the directory does not exist.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Removes a folder with its contents, if it exists. Files that stay would be taken for new ones.
pub(crate) fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(format!("{} cannot be removed: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_folder_is_ignored() {
        let folder = env::temp_dir().join(format!("xtask-remove-{}", std::process::id()));
        fs::create_dir_all(folder.join("inside")).unwrap();
        assert_eq!(remove_folder(&folder), Ok(()));
        assert_eq!((remove_folder(&folder), folder.exists()), (Ok(()), false));
        // Even the root of a container cannot remove a file as a folder.
        fs::write(&folder, "").unwrap();
        let error = remove_folder(&folder).unwrap_err();
        assert!(error.contains("cannot be removed"), "{error}");
        fs::remove_file(&folder).unwrap();
    }
}
