//! `cargo xtask bump VERSION`: writes a version into every place that states one, and dates the changelog.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Result;
use crate::release::changelog::{CHANGELOG, dated, lists, month_lengths};
use crate::release::places::{self, Place};
use crate::release::version::Version;

/// Writes the version, and prints the files that changed.
pub(crate) fn run(root: &Path, version: &str) -> Result<()> {
    let version: Version = version.parse()?;
    let changed = write(root, version, &today())?;
    if changed.is_empty() {
        println!("every file has {version} already");
        return Ok(());
    }
    for (file, count) in &changed {
        println!("{}: {count} changed", file.display());
    }
    println!("Commit these files, then run `cargo xtask release --dry-run`");
    Ok(())
}

/// Writes the version. Returns the files that changed, with the number of places in each.
fn write(root: &Path, version: Version, date: &str) -> Result<Vec<(PathBuf, usize)>> {
    let current = places::declared(root)?;
    let changelog = places::read(root, Path::new(CHANGELOG))?;
    // Until the current version is released, its candidates may follow.
    let is_candidate = version.is_before_release_of(&current) && !lists(&changelog, &current);
    if version < current && !is_candidate {
        return Err(format!(
            "{version} is older than {current}, the version in Cargo.toml; choose a later one"
        ));
    }
    let mut by_file: BTreeMap<PathBuf, Vec<Place>> = BTreeMap::new();
    for place in places::places(root)? {
        if place.text != place.written(&version) {
            by_file.entry(place.file.clone()).or_default().push(place);
        }
    }
    // All files are read before the first is written, so that an error changes nothing.
    let mut texts = Vec::new();
    for (file, places) in &by_file {
        let mut text = places::read(root, file)?;
        // From the end, so that the other places stay where they are.
        for place in places.iter().rev() {
            text.replace_range(place.at.clone(), &place.written(&version));
        }
        texts.push((file.clone(), places.len(), text));
    }
    if let Some(text) = dated(&changelog, &current, &version, date)? {
        texts.push((CHANGELOG.into(), 1, text));
    }
    for (file, _, text) in &texts {
        fs::write(root.join(file), text).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(texts.into_iter().map(|(file, count, _)| (file, count)).collect())
}

/// Returns the date in UTC: `2026-11-27`.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / (24 * 60 * 60))
}

/// Returns the date a number of days after 1970-01-01.
fn date(mut days: u64) -> String {
    let mut year = 1970;
    loop {
        let of_year = month_lengths(year).iter().sum();
        if days < of_year {
            break;
        }
        days -= of_year;
        year += 1;
    }
    let mut month = 1;
    for length in month_lengths(year) {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::release::changelog::UNRELEASED;
    use crate::test_copy::{TestCopy, root};

    /// Returns a copy of the files that state a version, with an unreleased change.
    fn copied(name: &str) -> TestCopy {
        let files = places::files(&root()).unwrap().into_iter().chain([CHANGELOG.into()]);
        let copy = TestCopy::new(name, files);
        unreleased(&copy, "- A change.");
        copy
    }

    /// Makes sure that the changelog has an unreleased change.
    fn unreleased(copy: &TestCopy, change: &str) {
        let line = format!("{UNRELEASED}\n");
        let text = copy.read(CHANGELOG).replacen(&line, &format!("{line}\n{change}\n"), 1);
        fs::write(copy.0.join(CHANGELOG), text).unwrap();
    }

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn bump_writes_the_version_everywhere() {
        let copy = copied("bump");
        assert!(places::check(&copy.0).is_err(), "not released");
        let changed = write(&copy.0, version("8.7.6-rc.5"), "2031-02-03").unwrap();
        assert!(changed.iter().any(|(file, _)| file.ends_with("benches/rust/Cargo.lock")));
        assert_eq!(places::check(&copy.0), Ok(version("8.7.6-rc.5")));
        let macros = "dlbridge-pyo3-macros = { version = \"=8.7.6-rc.5\", path";
        assert!(copy.read("Cargo.toml").contains(macros));
        assert!(copy.read("conformance/pyproject.toml").contains("\"dlbridge==8.7.6rc5\""));
        assert!(copy.read("pyproject.toml").contains("\"dlbridge-conformance==8.7.6rc5\""));
        assert!(
            !copy.read("peers/ports/fastpdb.lock").contains("name = \"dlbridge\"\nversion = \"0.")
        );
        assert!(copy.read("docs/gpu.md").contains("--wheel dlbridge-8.7.6rc5-cp311"));
        let changelog = copy.read(CHANGELOG);
        assert!(changelog.contains("## Unreleased\n\n## 8.7.6-rc.5 - 2031-02-03\n\n- A change.\n"));
    }

    #[test]
    fn release_follows_its_candidate_without_new_changes() {
        let copy = copied("bump-candidate");
        write(&copy.0, version("8.7.6-rc.1"), "2031-02-03").unwrap();
        write(&copy.0, version("8.7.6"), "2031-02-04").unwrap();
        assert_eq!(places::check(&copy.0), Ok(version("8.7.6")));
        assert!(!copy.read(CHANGELOG).contains("8.7.6-rc.1"));
    }

    #[test]
    fn candidate_of_a_version_is_written_until_its_release() {
        let copy = copied("bump-before");
        write(&copy.0, version("8.7.6"), "2031-02-03").unwrap();
        let error = write(&copy.0, version("8.7.6-rc.1"), "2031-02-03").unwrap_err();
        assert!(error.starts_with("8.7.6-rc.1 is older than 8.7.6"), "{error}");
        // Without its heading, 8.7.6 was not released.
        fs::write(copy.0.join(CHANGELOG), "# Changelog\n\n## Unreleased\n\n- New.\n").unwrap();
        assert!(write(&copy.0, version("8.7.5"), "2031-02-03").is_err());
        write(&copy.0, version("8.7.6-rc.1"), "2031-02-03").unwrap();
        assert_eq!(places::check(&copy.0), Ok(version("8.7.6-rc.1")));
        write(&copy.0, version("8.7.6"), "2031-02-04").unwrap();
        assert_eq!(places::check(&copy.0), Ok(version("8.7.6")));
    }

    #[test]
    fn changes_after_the_bump_are_refused() {
        let copy = copied("bump-late");
        write(&copy.0, version("8.7.6"), "2031-02-03").unwrap();
        unreleased(&copy, "- Late.");
        let error = places::check(&copy.0).unwrap_err();
        assert!(error.contains("has changes under `## Unreleased`"), "{error}");
    }

    #[test]
    fn untracked_file_is_not_written() {
        let copy = copied("bump-untracked");
        let current = places::declared(&copy.0).unwrap();
        let page = format!("$ pip install dlbridge=={}\n", current.of_python());
        fs::write(copy.0.join("new.md"), &page).unwrap();
        write(&copy.0, version("8.7.6"), "2031-02-03").unwrap();
        assert_eq!(copy.read("new.md"), page);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let copy = copied("bump-links");
        std::os::unix::fs::symlink("..", copy.0.join("up")).unwrap();
        std::os::unix::fs::symlink("README.md", copy.0.join("link.md")).unwrap();
        copy.git(&["add", "up", "link.md"]);
        let files = places::files(&copy.0).unwrap();
        assert!(files.contains(&"README.md".into()), "{files:?}");
        assert!(!files.iter().any(|file| file.starts_with("up") || file.ends_with("link.md")));
        let elsewhere = places::files(&std::env::temp_dir().join("no-repository"));
        assert!(elsewhere.unwrap_err().contains("git ls-files"));
    }

    #[test]
    fn bump_to_the_same_version_changes_nothing() {
        let copy = copied("bump-twice");
        write(&copy.0, version("8.7.6"), "2031-02-03").unwrap();
        assert_eq!(write(&copy.0, version("8.7.6"), "2031-02-04"), Ok(Vec::new()));
    }

    #[test]
    fn bump_to_the_current_version_dates_the_changelog() {
        let copy = copied("bump-first");
        let current = places::declared(&copy.0).unwrap();
        fs::write(copy.0.join(CHANGELOG), "# Changelog\n\n## Unreleased\n\n- New.\n").unwrap();
        let changed = write(&copy.0, current, "2031-02-03").unwrap();
        assert_eq!(changed, [(PathBuf::from(CHANGELOG), 1)]);
        assert_eq!(places::check(&copy.0), Ok(current));
    }

    #[test]
    fn older_version_is_refused() {
        let copy = copied("bump-older");
        let before = copy.read("Cargo.toml");
        let error = write(&copy.0, version("0.0.1"), "2031-02-03").unwrap_err();
        assert!(error.starts_with("0.0.1 is older than "), "{error}");
        assert!(run(&copy.0, "latest").unwrap_err().contains("`latest` is not a version"));
        assert_eq!(copy.read("Cargo.toml"), before);
    }

    #[test]
    fn version_without_changes_is_refused() {
        let copy = copied("bump-empty");
        fs::write(
            copy.0.join(CHANGELOG),
            "# Changelog\n\n## Unreleased\n\n## 0.0.1 - 2030-01-01\n\n- Old.\n",
        )
        .unwrap();
        let error = write(&copy.0, version("8.7.6"), "2031-02-03").unwrap_err();
        assert!(error.contains("lacks a change under `## Unreleased`"), "{error}");
        assert!(!copy.read("Cargo.toml").contains("8.7.6"));
    }

    #[test]
    fn different_version_is_found() {
        let copy = copied("bump-differs");
        write(&copy.0, version("8.7.6"), "2031-02-03").unwrap();
        let file = "crates/dlbridge-ops/Cargo.toml";
        let text = copy.read(file);
        let line = text.lines().position(|line| line.contains("8.7.6")).unwrap() + 1;
        fs::write(copy.0.join(file), text.replace("8.7.6", "8.7.5")).unwrap();
        let error = places::check(&copy.0).unwrap_err();
        assert!(error.contains(&format!("{file}:{line} has 8.7.5")), "{error}");
    }

    #[test]
    fn date_is_that_of_the_calendar() {
        let dates = [(0, "1970-01-01"), (11_016, "2000-02-29"), (20_819, "2027-01-01")];
        for (days, expected) in dates {
            assert_eq!(date(days), expected);
        }
    }
}
