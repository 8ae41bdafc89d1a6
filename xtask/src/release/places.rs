//! Every place that states the project's version: manifests, lock files, requirements of the Python projects, commands in
//! pages, the changelog.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::version::Version;
use crate::Result;
use crate::workplace::names;

/// The start of the names of the project's crates.
const PROJECT: &str = "dlbridge";

pub(crate) const CHANGELOG: &str = "CHANGELOG.md";

/// The heading of changes since the last release.
pub(crate) const UNRELEASED: &str = "## Unreleased";

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

/// Returns every place, except the changelog.
pub(crate) fn places(root: &Path) -> Result<Vec<Place>> {
    let declared = declared(root)?;
    let files = files(root);
    let mut members = Vec::new();
    for file in files.iter().filter(|file| file.ends_with("Cargo.toml")) {
        members.extend(member(&read(root, file)?));
    }
    // Other workspaces have packages with the names of tests and examples.
    let libraries: Vec<_> =
        members.iter().filter(|name| name.starts_with(PROJECT)).cloned().collect();
    let mut places = Vec::new();
    for file in &files {
        let text = read(root, file)?;
        let place = |at: Range<usize>, of_python| Place {
            file: file.clone(),
            line: text[..at.start].matches('\n').count() + 1,
            text: text[at.clone()].to_owned(),
            at,
            of_python,
        };
        let of_cargo = |found: Vec<_>| found.into_iter().map(|at| place(at, false)).collect();
        let found: Vec<_> = match file.file_name().and_then(|name| name.to_str()) {
            Some("Cargo.toml") => of_cargo(in_manifest(&text)),
            Some("Cargo.lock") if file.parent() == Some(Path::new("")) => {
                of_cargo(in_lock_file(&text, &members))
            }
            Some(name) if name.ends_with(".lock") => of_cargo(in_lock_file(&text, &libraries)),
            Some("pyproject.toml") => {
                in_project(&text).into_iter().map(|at| place(at, true)).collect()
            }
            _ => in_page(&text, &declared).into_iter().map(|(at, of)| place(at, of)).collect(),
        };
        places.extend(found);
    }
    Ok(places)
}

/// Returns the heading of a version in the changelog, without its date.
pub(crate) fn heading(version: &Version) -> String {
    format!("## {version} - ")
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
    let heading = heading(&version);
    let changelog = read(root, Path::new(CHANGELOG))?;
    if !changelog.lines().any(|line| line.strip_prefix(&heading).is_some_and(is_date)) {
        wrong.push(format!("{CHANGELOG} lacks the line `{heading}YEAR-MONTH-DAY`"));
    }
    if wrong.is_empty() {
        println!("{version}, in {} places and in {CHANGELOG}", places.len());
        return Ok(version);
    }
    Err(format!(
        "Cargo.toml has the version {version}, but\n    {}\nRun `cargo xtask bump {version}`",
        wrong.join("\n    ")
    ))
}

fn is_date(text: &str) -> bool {
    let lengths: Vec<_> = text.split('-').map(str::len).collect();
    lengths == [4, 2, 2] && text.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}

/// Returns the manifests, Python projects, lock files and pages of the repository, from the root and in a fixed order.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(root, Path::new(""), &mut found);
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) {
    for name in names(&root.join(folder)) {
        let path = folder.join(&name);
        if root.join(&path).is_dir() {
            // Build folders, environments and version control.
            if name != "target" && !name.starts_with('.') {
                collect(root, &path, found);
            }
        } else if name != CHANGELOG
            && (["Cargo.toml", "pyproject.toml"].contains(&name.as_str())
                || [".lock", ".md"].iter().any(|end| name.ends_with(end)))
        {
            found.push(path);
        }
    }
}

pub(crate) fn read(root: &Path, file: &Path) -> Result<String> {
    fs::read_to_string(root.join(file)).map_err(|e| format!("{}: {e}", file.display()))
}

/// Returns the lines of a text with the byte at which each starts.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let at = start;
        start += line.len();
        (at, line.trim_end())
    })
}

/// Returns the version in `[workspace.package]`.
fn of_workspace(manifest: &str) -> Option<Range<usize>> {
    let mut inside = false;
    lines(manifest).find_map(|(start, line)| {
        if line.starts_with('[') {
            inside = line == "[workspace.package]";
        }
        let version = line.strip_prefix("version = \"")?.strip_suffix('"')?;
        let at = start + "version = \"".len();
        inside.then(|| at..at + version.len())
    })
}

/// Returns the name of a package with the workspace's version.
fn member(manifest: &str) -> Option<String> {
    manifest.lines().find(|line| *line == "version.workspace = true")?;
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \""))?;
    Some(name.trim_end_matches('"').to_owned())
}

/// Returns the version of the workspace, and those of dependencies on the project's crates.
fn in_manifest(text: &str) -> Vec<Range<usize>> {
    let dependencies = lines(text).filter_map(|(start, line)| {
        // `dlbridge = { version = "0.1.0", path = ...`; `=` before the version requires exactly that one.
        if !line.starts_with(PROJECT) || !line.contains("path = \"") {
            return None;
        }
        let key = "version = \"";
        let after = line.find(key)? + key.len();
        let version = line[after..].split('"').next()?;
        let bare = version.trim_start_matches('=');
        let at = start + after + version.len() - bare.len();
        Some(at..at + bare.len())
    });
    of_workspace(text).into_iter().chain(dependencies).collect()
}

/// Returns the versions of the packages with the workspace's version.
fn in_lock_file(text: &str, members: &[String]) -> Vec<Range<usize>> {
    let all: Vec<_> = lines(text).collect();
    let quoted = |line: &str, key: &str| {
        Some(line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')?.to_owned())
    };
    let package = |lines: &[(usize, &str)]| {
        let [(_, name), (start, version), (_, next)] = lines else { return None };
        let name = quoted(name, "name")?;
        let version = quoted(version, "version")?;
        // A package from a registry has a source.
        if next.starts_with("source") || !members.contains(&name) {
            return None;
        }
        let at = start + "version = \"".len();
        Some(at..at + version.len())
    };
    // The file may end with a version.
    let padded = [all, vec![(text.len(), "")]].concat();
    padded.windows(3).filter_map(package).collect()
}

/// Returns the versions in a Python project's requirements of the project's own distributions: `"dlbridge==0.1.0"`.
fn in_project(text: &str) -> Vec<Range<usize>> {
    let requirements = lines(text).flat_map(|(start, line)| {
        line.match_indices('"').filter_map(move |(at, _)| {
            let (name, rest) = line[at + 1..].split_once("==")?;
            let version = rest.split('"').next()?;
            let at = start + at + 1 + name.len() + "==".len();
            is_distribution(name).then(|| at..at + version.len())
        })
    });
    requirements.collect()
}

/// Returns whether a name is that of one of the project's distributions.
fn is_distribution(name: &str) -> bool {
    name.starts_with(PROJECT) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Returns the declared version in commands and manifests of a page, and whether it is that of a Python package. Pages
/// also have other versions, and versions of measured releases.
fn in_page(text: &str, declared: &Version) -> Vec<(Range<usize>, bool)> {
    let mut found = Vec::new();
    let mut find = |version: &str, of_python, names: fn(&str, &str) -> bool| {
        for (start, line) in lines(text) {
            for (at, _) in line.match_indices(version) {
                let after = line[at + version.len()..].chars().next();
                if names(line, &line[..at]) && after.is_none_or(|c| !c.is_ascii_digit()) {
                    found.push((start + at..start + at + version.len(), of_python));
                }
            }
        }
    };
    find(&declared.to_string(), false, is_of_cargo);
    find(&declared.of_python(), true, is_of_python);
    found.sort_by_key(|(at, _)| at.start);
    found
}

/// Returns whether the text before a version names a crate of the project: `dlbridge@`, `dlbridge = "` or
/// `dlbridge = { version = "`.
fn is_of_cargo(line: &str, before: &str) -> bool {
    let before = before.trim_end_matches('=');
    let in_toml = line.starts_with(PROJECT) && before.ends_with(" = \"");
    in_toml || (before.ends_with('@') && last_word(before).starts_with(PROJECT))
}

/// Returns whether the text before a version names a distribution of the project: `dlbridge==`, or `dlbridge-` in a
/// command, which is the name of a wheel.
fn is_of_python(line: &str, before: &str) -> bool {
    let word = last_word(before);
    (line.starts_with('$') && word == "dlbridge-")
        || (word.starts_with(PROJECT) && word.ends_with("=="))
}

fn last_word(text: &str) -> &str {
    text.rsplit([' ', '`', '\'', '"']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn only_the_projects_versions_are_found_in_a_manifest() {
        let text = "[workspace.package]\nversion = \"1.2.3\"\n[x]\nversion = \"9.9.9\"\n\
            dlbridge = { version = \"=1.2.4\", path = \"a\" }\ndlbridge-x = { path = \"a\" }\n\
            serde = { version = \"1.2.3\", path = \"b\" }\n";
        let found = in_manifest(text).into_iter().map(|at| &text[at]);
        assert_eq!(found.collect::<Vec<_>>(), ["1.2.3", "1.2.4"]);
    }

    #[test]
    fn only_members_are_found_in_a_lock_file() {
        let text = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\n\n[[package]]\n\
            name = \"b\"\nversion = \"2.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"3.0.0\"\n";
        let found = in_lock_file(text, &["a".to_owned()]).into_iter().map(|at| &text[at]);
        assert_eq!(found.collect::<Vec<_>>(), ["3.0.0"]);
    }

    #[test]
    fn only_exact_requirements_of_our_own_are_found_in_a_project() {
        let text = "version = \"1.0.0\"\na = [\"numpy==1.0.0\", \"dlbridge==1.0.1\"]\n\
            b = [\"dlbridge\", \"dlbridge-conformance==1.0.2\"]\ndlbridge = \"x==1.0.0\"\n";
        let found = in_project(text).into_iter().map(|at| &text[at]);
        assert_eq!(found.collect::<Vec<_>>(), ["1.0.1", "1.0.2"]);
    }

    #[test]
    fn only_commands_are_found_in_a_page() {
        let found = |line: &str| in_page(line, &version("1.0.0-rc.1"));
        for line in [
            "`cargo add dlbridge-pyo3@1.0.0-rc.1`",
            "dlbridge = \"1.0.0-rc.1\"",
            "dlbridge = { version = \"1.0.0-rc.1\", features = [] }",
            "dlbridge-ops-macros = \"=1.0.0-rc.1\"",
        ] {
            let [(_, false)] = found(line)[..] else { panic!("{line}") };
        }
        for line in [
            "$ pip install dlbridge==1.0.0rc1",
            "$ python tests/gpu --wheel dlbridge-1.0.0rc1-cp311-abi3-x.whl",
        ] {
            let [(_, true)] = found(line)[..] else { panic!("{line}") };
        }
        for line in [
            "Run with dlbridge 1.0.0-rc.1",
            "$ pip install numpy==1.0.0rc1",
            "dlbridge==1.0.0rc12",
            "wheel: dlbridge-1.0.0rc1-cp311-abi3-x.whl",
            "version = \"1.0.0-rc.1\"",
        ] {
            assert_eq!(found(line), [], "{line}");
        }
    }

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
