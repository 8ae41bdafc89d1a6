//! The API of the crates: cargo-semver-checks compares it with that of an earlier release.

use super::changelog::CHANGELOG;
use super::crates::installed;
use super::metadata::published;
use super::places::{self, declared};
use super::source;
use super::version::Version;
use crate::python::Venv;
use crate::steps::{Finished, Steps, in_ci};
use crate::{Result, Workplace, pins, process};

/// Runs the step. `tools` is where the tool is installed.
pub(super) fn run(steps: &mut Steps, clone: &Workplace, tools: &Workplace, venv: &Venv<'_>) {
    steps.try_run("the API of the earlier release", || {
        let version = declared(&clone.root)?;
        let Some(earlier) = baseline(&source::tagged_versions(clone)?, &version) else {
            let changelog = places::read(&clone.root, CHANGELOG.as_ref())?;
            return without_baseline(&changelog, &version, in_ci());
        };
        let tag = earlier.tag();
        let there = source::names_of_packages(clone, &tag)?;
        let ours = published(&clone.root)?.into_iter().map(|one| one.name);
        let (old, new) = ours.partition::<Vec<_>, _>(|name| there.contains(name));
        if !new.is_empty() {
            println!("{tag} lacks these crates, which are not compared: {}", new.join(", "));
        }
        if old.is_empty() {
            return Err(format!("{tag} lacks all of the crates"));
        }
        let mut check = clone.command(installed(tools, pins::CARGO_SEMVER_CHECKS)?);
        check.args(arguments(&tag, &old));
        // It builds the documentation of two versions of each crate.
        process::run_for_hours(venv.for_crates(&mut check))?;
        Ok(Finished::Passed)
    });
}

/// Returns the newest of the earlier versions: a release, or the newest candidate before the first release. The changes
/// since a candidate alone would say nothing about the users of the last release.
fn baseline(tagged: &[Version], version: &Version) -> Option<Version> {
    let earlier = || tagged.iter().copied().filter(|tagged| tagged < version);
    earlier().filter(Version::is_release).max().or_else(|| earlier().max())
}

/// Returns a notice before the first release. After it, a missing tag is an error in CI, which has all tags.
fn without_baseline(changelog: &str, version: &Version, in_ci: bool) -> Result<Finished> {
    let heading = |line: &str| line.strip_prefix("## ")?.split(" - ").next()?.parse().ok();
    let earlier = changelog.lines().filter_map(heading).find(|listed: &Version| listed < version);
    let reason = match earlier {
        None => "no earlier release, so the API was not compared".to_owned(),
        Some(earlier) => format!(
            "{CHANGELOG} has {earlier}, but this clone lacks the tag of an earlier version, so the API was not compared; \
             run `git fetch --tags`"
        ),
    };
    if earlier.is_some() && in_ci { Err(reason) } else { Ok(Finished::Notice(reason)) }
}

/// Returns the arguments of cargo-semver-checks. With `--workspace`, it would fail for a crate that the tag lacks.
fn arguments(tag: &str, crates: &[String]) -> Vec<String> {
    let mut arguments = ["semver-checks", "--baseline-rev", tag].map(str::to_owned).to_vec();
    arguments.extend(crates.iter().flat_map(|name| ["--package".to_owned(), name.clone()]));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn baseline_is_the_last_release_before_the_version() {
        let tagged =
            ["0.1.0", "0.3.0", "0.2.0-rc.1", "0.2.0", "0.3.0-rc.1", "0.4.0-rc.1"].map(version);
        let of = |text: &str| baseline(&tagged, &version(text)).map(|found| found.to_string());
        assert_eq!(of("0.4.0").as_deref(), Some("0.3.0"), "not the candidate");
        assert_eq!(of("0.3.0").as_deref(), Some("0.2.0"), "not its own tag");
        assert_eq!(of("0.2.1").as_deref(), Some("0.2.0"), "not a later release");
        assert_eq!(of("0.1.0"), None);
        let candidates = ["0.1.0-rc.1", "0.1.0-rc.2", "0.2.0"].map(version);
        assert_eq!(baseline(&candidates, &version("0.1.0")), Some(version("0.1.0-rc.2")));
        assert_eq!(baseline(&[], &version("0.1.0")), None);
    }

    #[test]
    fn missing_tag_of_an_earlier_release_fails_in_ci() {
        let first = "# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2031-02-03\n\n- New.\n";
        for in_ci in [false, true] {
            let Ok(Finished::Notice(notice)) = without_baseline(first, &version("0.1.0"), in_ci)
            else {
                panic!("the first release has no earlier one");
            };
            assert!(notice.starts_with("no earlier release"), "{notice}");
        }
        let next = "## Unreleased\n\n## 0.2.0 - 2031-03-04\n\n## 0.1.0 - 2031-02-03\n";
        let of = |in_ci| without_baseline(next, &version("0.2.0"), in_ci);
        assert!(matches!(of(false), Ok(Finished::Notice(_))));
        let error = of(true).unwrap_err();
        assert!(error.starts_with("CHANGELOG.md has 0.1.0, but"), "{error}");
    }

    #[test]
    fn only_crates_of_the_tag_are_compared() {
        let arguments = arguments("v0.1.0", &["dlbridge-sys".to_owned(), "dlbridge".to_owned()]);
        let expected =
            "semver-checks --baseline-rev v0.1.0 --package dlbridge-sys --package dlbridge";
        assert_eq!(arguments.join(" "), expected);
    }
}
