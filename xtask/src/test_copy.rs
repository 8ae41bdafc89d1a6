//! A copy of some of the repository's files, for tests that change them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::release::places;

/// A folder with copied files, which git tracks there. Dropping it removes the folder.
pub(crate) struct TestCopy(pub(crate) PathBuf);

impl TestCopy {
    /// Copies files, whose paths are from the root.
    pub(crate) fn new(name: &str, files: impl IntoIterator<Item = PathBuf>) -> Self {
        let copy = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&copy);
        for file in files {
            let to = copy.join(&file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(root().join(&file), to).unwrap();
        }
        let copy = Self(copy);
        copy.git(&["init", "--quiet"]);
        copy.git(&["add", "--force", "."]);
        copy
    }

    pub(crate) fn git(&self, words: &[&str]) {
        process::run(Command::new("git").current_dir(&self.0).args(words)).unwrap();
    }

    pub(crate) fn read(&self, file: &str) -> String {
        places::read(&self.0, Path::new(file)).unwrap()
    }
}

impl Drop for TestCopy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the root of this repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
