//! Every place that states the project's version: manifests, lock files, requirements of the Python projects, commands in
//! pages, the changelog.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::changelog::{self, CHANGELOG};
use super::finders::{Found, PROJECT, in_lock_file, in_manifest, in_project, member, of_workspace};
use super::pages::in_page;
use super::version::Version;
use crate::{Result, process};

/// A place in a file that states the project's version.
#[derive(Debug, PartialEq)]
pub(crate) struct Place {
    /// The file, from the root.
    pub(crate) file: PathBuf,
    /// The line, from 1.
    pub(crate) line: usize,
    /// The bytes of the version in the file.
    pub(crate) at: Range<usize>,
    /// The version there.
    pub(crate) text: String,
    /// True for the version of a Python package.
    of_python: bool,
}

impl Place {
    /// Returns the text of a version in this place.
    pub(crate) fn written(&self, version: &Version) -> String {
        if self.of_python { version.of_python() } else { version.to_string() }
    }
}

/// Returns the version of the workspace.
pub(crate) fn declared(root: &Path) -> Result<Version> {
    let manifest = read(root, Path::new("Cargo.toml"))?;
    let found = of_workspace(&manifest).map(|at| manifest[at].to_owned());
    found.ok_or("Cargo.toml has no `version` in `[workspace.package]`")?.parse()
}

/// Returns every place, except the changelog. Fails if a file requires a crate of the project in another form than
/// one version.
pub(crate) fn places(root: &Path) -> Result<Vec<Place>> {
    let declared = declared(root)?;
    let files = files(root)?;
    let mut members = Vec::new();
    for file in files.iter().filter(|file| file.ends_with("Cargo.toml")) {
        members.extend(member(&read(root, file)?));
    }
    // Other workspaces have packages with the names of tests and examples.
    let libraries: Vec<_> =
        members.iter().filter(|name| name.starts_with(PROJECT)).cloned().collect();
    let mut places = Vec::new();
    let mut other = Vec::new();
    for file in &files {
        let text = read(root, file)?;
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        let place = |at: Range<usize>, of_python| Place {
            file: file.clone(),
            line: line(at.start),
            text: text[at.clone()].to_owned(),
            at,
            of_python,
        };
        let Found { versions, unclear } = match file.file_name().and_then(|name| name.to_str()) {
            Some("Cargo.toml") => in_manifest(&text),
            Some("Cargo.lock") if file.parent() == Some(Path::new("")) => {
                in_lock_file(&text, &members)
            }
            Some(name) if name.ends_with(".lock") => in_lock_file(&text, &libraries),
            Some("pyproject.toml") => in_project(&text),
            _ => in_page(&text, &declared),
        };
        other.extend(
            unclear
                .into_iter()
                .map(|at| format!("{}:{} has `{}`", file.display(), line(at.start), &text[at])),
        );
        places.extend(versions.into_iter().map(|(at, of_python)| place(at, of_python)));
    }
    if other.is_empty() {
        return Ok(places);
    }
    Err(format!(
        "requirements of {PROJECT} that `cargo xtask bump` cannot write:\n    {}\nWrite one version: `{declared}`, \
         `={declared}` or `^{declared}` for Cargo, and `==`, `~=` or `>=` before `{}` for Python",
        other.join("\n    "),
        declared.of_python()
    ))
}

/// Checks that all places state one version, and that the changelog has a dated heading for it. Returns the version.
pub(crate) fn check(root: &Path) -> Result<Version> {
    let version = declared(root)?;
    let mut wrong = Vec::new();
    let places = places(root)?;
    for place in &places {
        if place.text != place.written(&version) {
            wrong.push(format!("{}:{} has {}", place.file.display(), place.line, place.text));
        }
    }
    for project in ["pyproject.toml", "conformance/pyproject.toml"] {
        if !read(root, Path::new(project))?.lines().any(|l| l == "dynamic = [\"version\"]") {
            wrong.push(format!("{project} has a version of its own, not that of its crate"));
        }
    }
    wrong.extend(changelog::faults(&read(root, Path::new(CHANGELOG))?, &version));
    if wrong.is_empty() {
        println!("{version}, in {} places and in {CHANGELOG}", places.len());
        return Ok(version);
    }
    Err(format!(
        "Cargo.toml has the version {version}, but\n    {}\n`cargo xtask bump {version}` writes the version and the \
         heading",
        wrong.join("\n    ")
    ))
}

/// Returns the tracked manifests, Python projects, lock files and pages, from the root and in a fixed order. A link is not
/// one: it could leave the repository, and its target is in the list if it is tracked.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let listed = process::answer(Command::new("git").current_dir(root).args(["ls-files", "-z"]))
        .ok_or_else(|| {
            format!("`git ls-files` failed in {}; run this task in a clone", root.display())
        })?;
    let is_stating = |file: &str| {
        let name = file.rsplit('/').next().unwrap_or_default();
        name != CHANGELOG
            && (["Cargo.toml", "pyproject.toml"].contains(&name)
                || [".lock", ".md"].iter().any(|end| name.ends_with(end)))
    };
    // A file that was deleted stays in the list until the next commit.
    let is_file = |file: &&str| root.join(file).symlink_metadata().is_ok_and(|data| data.is_file());
    let found = listed.split('\0').filter(|file| is_stating(file)).filter(is_file);
    Ok(found.map(PathBuf::from).collect())
}

/// Returns a file in a folder, `.` for the root, as a path from the root.
pub(crate) fn in_folder(folder: &str, name: &str) -> PathBuf {
    let file = Path::new(folder).join(name);
    file.strip_prefix(".").map(Path::to_owned).unwrap_or(file)
}

pub(crate) fn read(root: &Path, file: &Path) -> Result<String> {
    fs::read_to_string(root.join(file)).map_err(|e| format!("{}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_states_one_version() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let version = declared(root).unwrap();
        assert_eq!(version.to_string(), env!("CARGO_PKG_VERSION"));
        let places = places(root).unwrap();
        for place in &places {
            assert_eq!(place.text, place.written(&version), "{place:?}");
        }
        let count = |name: &str| places.iter().filter(|place| place.file.ends_with(name)).count();
        let members = crate::crates::folders(root).len();
        assert!(count("Cargo.lock") > members, "{places:#?}");
        assert!(count("Cargo.toml") > 10 && count("docs/gpu.md") > 0, "{places:#?}");
        assert!(count("fastpdb.lock") > 5, "{places:#?}");
        assert_eq!(count("pyproject.toml"), 2, "{places:#?}");
    }
}
