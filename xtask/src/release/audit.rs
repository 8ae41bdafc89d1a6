//! Checks of the finished Python distributions, with the tools that PyPI and its users run.

use super::artifacts::{self, PYTHON};
use super::wheels::{PLATFORMS, PROJECTS, Platform};
use crate::python::Venv;
use crate::steps::Steps;
use crate::workplace::names;
use crate::{Result, Workplace, process};

/// Files that every wheel has, by the ends of their names.
const CONTENTS: [&str; 4] =
    ["/py.typed", "/licenses/LICENSE-MIT", "/licenses/LICENSE-APACHE", ".cyclonedx.json"];

/// Runs the steps.
pub(super) fn run(steps: &mut Steps, clone: &Workplace, venv: &Venv<'_>) {
    steps.run("metadata of the distributions", || {
        let mut twine = clone.command(venv.program("twine"));
        process::run(twine.args(["check", "--strict"]).args(files(clone, "")?))
    });
    steps.run("only the stable ABI", || {
        let mut audit = clone.command(venv.program("abi3audit"));
        process::run(audit.args(["--strict", "--report"]).args(files(clone, ".whl")?))
    });
    steps.run("platforms of the wheels", || {
        each(clone, |platform, wheel| {
            let mut show = clone.command(venv.program("auditwheel"));
            // Without the libraries of this machine, which are those of another C library for musl.
            let none = clone.target.join("no-libraries");
            show.arg("show").arg("--ldpaths").arg(none).arg(wheel);
            let shown = process::answer(&mut show)
                .ok_or_else(|| format!("`auditwheel show {wheel}` failed"))?;
            let tag = format!("{}_{}", platform.library, platform.machine);
            println!("{tag}: {}", flat(&shown));
            // An older C library is better than promised.
            match is_at_most(&shown, platform) || links_only_musl(&shown, platform) {
                true => Ok(()),
                false => Err(format!("{wheel} is not a wheel for {tag}: {shown}")),
            }
        })
    });
    steps.run("contents of the wheels", || {
        each(clone, |_, wheel| {
            let list = process::answer(venv.python().args(["-m", "zipfile", "--list", wheel]))
                .ok_or_else(|| format!("{wheel} is not a zip archive"))?;
            let names: Vec<_> = list.lines().filter_map(|l| l.split_whitespace().next()).collect();
            match CONTENTS.iter().find(|end| !names.iter().any(|name| name.ends_with(**end))) {
                Some(missing) => Err(format!("{wheel} lacks a file `*{missing}`:\n{list}")),
                None => Ok(()),
            }
        })
    });
}

/// Returns the paths of the distributions whose names end so.
fn files(clone: &Workplace, end: &str) -> Result<Vec<String>> {
    let folder = artifacts::folder(clone).join(PYTHON);
    let named = names(&folder).into_iter().filter(|name| name.ends_with(end));
    let found: Vec<_> = named.map(|name| folder.join(name).display().to_string()).collect();
    match found.is_empty() {
        true => Err(format!("{} lacks a file `*{end}`", folder.display())),
        false => Ok(found),
    }
}

/// Runs a check for the wheel of each project on each platform.
fn each(clone: &Workplace, check: impl Fn(&Platform, &str) -> Result<()>) -> Result<()> {
    for platform in PLATFORMS {
        for (_, project) in PROJECTS {
            check(platform, &platform.wheel_of(clone, project)?.display().to_string())?;
        }
    }
    Ok(())
}

/// Returns whether `auditwheel show` names the platform's C library, or an older release of it.
fn is_at_most(shown: &str, platform: &Platform) -> bool {
    let release = |tag: &str| {
        let (kind, numbers) = tag.split_once('_')?;
        let (major, minor) = numbers.split_once('_')?;
        Some((kind.to_owned(), major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    };
    let Some((kind, major, minor)) = release(platform.library) else { return false };
    let end = format!("_{}", platform.machine);
    let tags = shown.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut found = tags.filter_map(|tag| release(tag.strip_suffix(&end)?));
    found.any(|found| found.0 == kind && (found.1, found.2) <= (major, minor))
}

/// Returns whether a wheel for musl links musl alone. auditwheel finds the version of musl only on a machine with musl;
/// maturin checks the symbols when it builds the wheel.
fn links_only_musl(shown: &str, platform: &Platform) -> bool {
    let tag = format!("'{}_{}'", platform.library, platform.machine);
    let shown = flat(shown);
    platform.library.starts_with("musllinux")
        && shown.contains(&tag)
        && shown.ends_with("dependencies will need to be eliminated: libc.so")
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_c_library_is_accepted_and_newer_refused() {
        let shown = |tag: &str| format!("x.whl is consistent with the platform tag:\n\"{tag}\".");
        let of = |library: &str| {
            PLATFORMS.iter().find(|p| p.library == library && p.machine == "x86_64").unwrap()
        };
        assert!(is_at_most(&shown("manylinux_2_17_x86_64"), of("manylinux_2_17")));
        assert!(is_at_most(&shown("manylinux_2_5_x86_64"), of("manylinux_2_17")));
        assert!(!is_at_most(&shown("manylinux_2_28_x86_64"), of("manylinux_2_17")));
        assert!(!is_at_most(&shown("manylinux_2_17_aarch64"), of("manylinux_2_17")));
        assert!(!is_at_most(&shown("musllinux_1_2_x86_64"), of("manylinux_2_17")));
        assert!(is_at_most(&shown("musllinux_1_1_x86_64"), of("musllinux_1_2")));
    }

    #[test]
    fn wheel_for_musl_links_nothing_else() {
        let platform = |library: &str| PLATFORMS.iter().find(|p| p.library == library).unwrap();
        let shown = "x.whl is consistent with the platform tag: \"linux_x86_64\". In order to achieve \
            the tag platform tag 'musllinux_1_2_x86_64' the following\nshared library dependencies \
            will need to be eliminated:\n\nlibc.so";
        assert!(links_only_musl(shown, platform("musllinux_1_2")));
        assert!(!links_only_musl(shown, platform("manylinux_2_17")));
        let other = format!("{shown}, libz.so.1");
        assert!(!links_only_musl(&other, platform("musllinux_1_2")));
    }
}
