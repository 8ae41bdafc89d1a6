//! Checks of the finished Python distributions, with the tools that PyPI and its users run.

use std::path::Path;

use super::artifacts::{self, PYTHON};
use super::distributions::PROJECTS;
use super::wheels::{PLATFORMS, Platform};
use crate::python::Venv;
use crate::steps::Steps;
use crate::workplace::names;
use crate::{Result, Workplace, process};

/// A check of the distributions in a folder.
type Check = fn(&Workplace, &Venv<'_>, &Path) -> Result<()>;

/// The checks that distributions for any system must pass, with the tools in [`pins::AUDIT_TOOLS`](crate::pins).
const CHECKS: [(&str, Check); 3] = [
    ("metadata of the distributions", metadata),
    ("only the stable ABI", stable_abi),
    ("contents of the wheels", contents),
];

/// Files that every wheel has, by the ends of their names.
const CONTENTS: [&str; 5] = [
    "/py.typed",
    "/licenses/LICENSE-MIT",
    "/licenses/LICENSE-APACHE",
    "/licenses/LICENSE-THIRD-PARTY",
    ".cyclonedx.json",
];

/// The name of musl's C library in a wheel that zig links. musl's loader takes each name that starts with `libc.` for
/// itself. auditwheel only knows the name that Alpine Linux gives it.
const MUSL_OF_ZIG: &str = "libc.so";

/// Runs the steps.
pub(super) fn run(steps: &mut Steps, clone: &Workplace, venv: &Venv<'_>) {
    let folder = artifacts::folder(clone).join(PYTHON);
    for (name, check) in CHECKS {
        steps.run(name, || check(clone, venv, &folder));
    }
    steps.run("platforms of the wheels", || {
        for platform in PLATFORMS {
            for (_, project) in PROJECTS {
                platform_of(clone, venv, &platform.wheel_of(clone, project)?, platform)?;
            }
        }
        Ok(())
    });
}

/// Checks the wheel of the package for a Python without the GIL, which `abi3audit` does not know.
pub(super) fn check_free_threaded(
    clone: &Workplace,
    venv: &Venv<'_>,
    wheel: &Path,
    platform: &Platform,
) -> Result<()> {
    metadata(clone, venv, wheel.parent().unwrap_or(wheel))?;
    contents_of(venv, &wheel.display().to_string())?;
    platform_of(clone, venv, wheel, platform)
}

/// Checks that a wheel needs no more than the C library that its name promises.
fn platform_of(
    clone: &Workplace,
    venv: &Venv<'_>,
    wheel: &Path,
    platform: &Platform,
) -> Result<()> {
    let mut show = clone.command(venv.program("auditwheel"));
    // Without the libraries of this machine, which are those of another C library for musl.
    let none = clone.target.join("no-libraries");
    show.args(["show", "--json", "--ldpaths"]).arg(none).arg(wheel);
    let shown = process::answer(&mut show)
        .ok_or_else(|| format!("`auditwheel show {}` failed", wheel.display()))?;
    let needs = needs_at_most(&shown, platform)
        .map_err(|reason| format!("{}: {reason}", wheel.display()))?;
    println!("{} needs {needs}", wheel.file_name().unwrap_or_default().display());
    Ok(())
}

/// Checks the distributions in a folder, whatever system they are for.
pub(crate) fn check_any(workplace: &Workplace, venv: &Venv<'_>, folder: &Path) -> Result<()> {
    CHECKS.iter().try_for_each(|(name, check)| {
        println!("{name}:");
        check(workplace, venv, folder)
    })
}

fn metadata(workplace: &Workplace, venv: &Venv<'_>, folder: &Path) -> Result<()> {
    let mut twine = workplace.command(venv.program("twine"));
    process::run(twine.args(["check", "--strict"]).args(files(folder, "")?))
}

fn stable_abi(workplace: &Workplace, venv: &Venv<'_>, folder: &Path) -> Result<()> {
    let mut audit = workplace.command(venv.program("abi3audit"));
    process::run(audit.args(["--strict", "--report"]).args(files(folder, ".whl")?))
}

fn contents(_: &Workplace, venv: &Venv<'_>, folder: &Path) -> Result<()> {
    let wheels = files(folder, ".whl")?;
    for (_, project) in PROJECTS {
        let wheel = folder.join(format!("{project}-")).display().to_string();
        if !wheels.iter().any(|name| name.starts_with(&wheel)) {
            return Err(format!("{} lacks a wheel of {project}", folder.display()));
        }
    }
    wheels.iter().try_for_each(|wheel| contents_of(venv, wheel))
}

fn contents_of(venv: &Venv<'_>, wheel: &str) -> Result<()> {
    let list = process::answer(venv.python().args(["-m", "zipfile", "--list", wheel]))
        .ok_or_else(|| format!("{wheel} is not a zip archive"))?;
    match missing(&list) {
        Some(missing) => Err(format!("{wheel} lacks a file `*{missing}`:\n{list}")),
        None => Ok(()),
    }
}

/// Returns the first of [`CONTENTS`] that a list by Python's `zipfile` lacks.
fn missing(list: &str) -> Option<&'static str> {
    let names: Vec<_> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    CONTENTS.into_iter().find(|end| !names.iter().any(|name| name.ends_with(end)))
}

/// Returns the paths of the distributions whose names end so.
fn files(folder: &Path, end: &str) -> Result<Vec<String>> {
    let named = names(folder).into_iter().filter(|name| name.ends_with(end));
    let found: Vec<_> = named.map(|name| folder.join(name).display().to_string()).collect();
    match found.is_empty() {
        true => Err(format!("{} lacks a file `*{end}`", folder.display())),
        false => Ok(found),
    }
}

/// Checks that `auditwheel show --json` finds the platform's C library, or an older release of it, and no other library.
/// Returns what it finds.
fn needs_at_most(shown: &str, platform: &Platform) -> Result<String> {
    let promised = format!("{}_{}", platform.library, platform.machine);
    let overall = value(shown, "overall_tag")?;
    if is_at_most(overall, platform) {
        return Ok(overall.to_owned());
    }
    match links_only_musl_of_zig(shown, platform)? {
        true => Ok(format!("{MUSL_OF_ZIG} of {promised}")),
        false => Err(format!("needs {overall}, but its name promises {promised}: {shown}")),
    }
}

/// Returns whether a tag is that of the platform, or of an older release of its C library.
fn is_at_most(tag: &str, platform: &Platform) -> bool {
    let release = |tag: &str| {
        let (kind, numbers) = tag.split_once('_')?;
        let (major, minor) = numbers.split_once('_')?;
        Some((kind.to_owned(), major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    };
    let Some(promised) = release(platform.library) else { return false };
    let found = tag.strip_suffix(&format!("_{}", platform.machine)).and_then(release);
    found.is_some_and(|found| {
        found.0 == promised.0 && (found.1, found.2) <= (promised.1, promised.2)
    })
}

/// Returns whether the name of musl's library is the only reason why auditwheel refuses the platform's tag.
fn links_only_musl_of_zig(shown: &str, platform: &Platform) -> Result<bool> {
    let refused = value(shown, "overall_tag")? == format!("linux_{}", platform.machine);
    let symbols = is_at_most(value(shown, "sym_tag")?, platform);
    let mut otherwise_right = platform.library.starts_with("musllinux_") && refused && symbols;
    for fault in ["pyfpe", "ucs2", "unsupported_isa"] {
        otherwise_right &= value(shown, fault)? == "false";
    }
    // A wheel for musl has no versioned symbols, which those of glibc are, and no forbidden ones.
    otherwise_right &= keys(shown, "versioned_symbols")?.is_empty();
    otherwise_right &= !shown.contains("\"blacklisted_symbols\"");
    Ok(otherwise_right && keys(shown, "external_libs")? == [MUSL_OF_ZIG])
}

/// Returns the value of a field in auditwheel's JSON, which has one field a line.
fn value<'a>(shown: &'a str, field: &str) -> Result<&'a str> {
    let start = format!("    \"{field}\": ");
    let found = shown.lines().find_map(|line| line.strip_prefix(&start));
    let found = found.ok_or_else(|| format!("auditwheel did not print `{field}`: {shown}"))?;
    Ok(found.trim_end_matches(',').trim_matches('"'))
}

/// Returns the keys of an object in auditwheel's JSON.
fn keys<'a>(shown: &'a str, field: &str) -> Result<Vec<&'a str>> {
    if value(shown, field)? == "{}" {
        return Ok(Vec::new());
    }
    let start = format!("    \"{field}\": {{");
    let inside = shown.lines().skip_while(|line| *line != start).skip(1);
    let inside = inside.take_while(|line| !line.starts_with("    }"));
    let names = inside.filter_map(|line| line.strip_prefix("        \"")?.split('"').next());
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of auditwheel 6.8.2 for a wheel of glibc 2.34 with the name of another platform.
    const TOO_NEW: &str = r#"{
    "version": 1,
    "wheel": "dlbridge-0.1.0-cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "pure": false,
    "overall_tag": "manylinux_2_34_x86_64",
    "sym_tag": "manylinux_2_34_x86_64",
    "pyfpe": false,
    "ucs2": false,
    "unsupported_isa": false,
    "versioned_symbols": {
        "libc.so.6": [
            "GLIBC_2.2.5",
            "GLIBC_2.34"
        ],
        "libgcc_s.so.1": [
            "GCC_3.0"
        ]
    },
    "external_libs": {},
    "policy_upgrades": {}
}"#;

    /// The same for an extension that needs `libc.so`, as zig links it.
    const MUSL: &str = r#"{
    "version": 1,
    "wheel": "markupsafe-3.0.4-cp311-cp311-musllinux_1_2_x86_64.whl",
    "pure": false,
    "overall_tag": "linux_x86_64",
    "sym_tag": "musllinux_1_2_x86_64",
    "pyfpe": false,
    "ucs2": false,
    "unsupported_isa": false,
    "versioned_symbols": {},
    "external_libs": {
        "libc.so": null
    },
    "policy_upgrades": {
        "musllinux_1_2_x86_64": {
            "libs_to_eliminate": [
                "libc.so"
            ]
        }
    }
}"#;

    fn platform(library: &str) -> &'static Platform {
        PLATFORMS.iter().find(|p| p.library == library && p.machine == "x86_64").unwrap()
    }

    #[test]
    fn wheel_that_needs_more_than_its_name_promises_is_refused() {
        for library in ["manylinux_2_17", "manylinux_2_28"] {
            // The name of the file, which the output repeats, has the promised tag.
            let shown = TOO_NEW.replace("manylinux_2_17", library);
            let error = needs_at_most(&shown, platform(library)).unwrap_err();
            assert!(error.starts_with("needs manylinux_2_34_x86_64, but its name"), "{error}");
            // auditwheel ends without an error for a wheel that fits no other machine.
            let shown = shown.replace("\"manylinux_2_34_x86_64\"", "\"linux_x86_64\"");
            assert!(needs_at_most(&shown, platform(library)).is_err());
            let shown = shown.replace("\"linux_x86_64\"", &format!("\"{library}_x86_64\""));
            assert_eq!(needs_at_most(&shown, platform(library)), Ok(format!("{library}_x86_64")));
        }
        let error = needs_at_most("{}", platform("manylinux_2_17")).unwrap_err();
        assert!(error.starts_with("auditwheel did not print `overall_tag`"), "{error}");
    }

    #[test]
    fn older_c_library_is_accepted_and_newer_refused() {
        let manylinux = platform("manylinux_2_17");
        assert!(is_at_most("manylinux_2_17_x86_64", manylinux));
        assert!(is_at_most("manylinux_2_5_x86_64", manylinux));
        for other in [
            "manylinux_2_28_x86_64",
            "manylinux_2_17_aarch64",
            "musllinux_1_2_x86_64",
            "linux_x86_64",
        ] {
            assert!(!is_at_most(other, manylinux), "{other}");
        }
        assert!(is_at_most("musllinux_1_1_x86_64", platform("musllinux_1_2")));
        assert!(!is_at_most("musllinux_1_3_x86_64", platform("musllinux_1_2")));
    }

    #[test]
    fn wheel_for_musl_links_nothing_else() {
        let musl = platform("musllinux_1_2");
        assert_eq!(needs_at_most(MUSL, musl), Ok("libc.so of musllinux_1_2_x86_64".into()));
        // With the name that Alpine Linux gives it.
        let alpine = MUSL.replace("\"linux_x86_64\"", "\"musllinux_1_2_x86_64\"");
        assert_eq!(needs_at_most(&alpine, musl), Ok("musllinux_1_2_x86_64".into()));
        assert!(needs_at_most(MUSL, platform("manylinux_2_17")).is_err());
        for (right, wrong) in [
            ("\"libc.so\": null", "\"libc.so\": null,\n        \"libz.so.1\": null"),
            ("\"libc.so\": null", "\"libc.so.6\": null"),
            ("\"external_libs\": {\n        \"libc.so\": null\n    }", "\"external_libs\": {}"),
            ("\"sym_tag\": \"musllinux_1_2", "\"sym_tag\": \"musllinux_1_3"),
            ("\"unsupported_isa\": false", "\"unsupported_isa\": true"),
            ("\"versioned_symbols\": {}", "\"versioned_symbols\": {\n        \"x\": []\n    }"),
            ("\"libs_to_eliminate\"", "\"blacklisted_symbols\""),
        ] {
            assert!(MUSL.contains(right));
            let error = needs_at_most(&MUSL.replace(right, wrong), musl).unwrap_err();
            assert!(error.starts_with("needs linux_x86_64, but its name promises"), "{error}");
        }
    }

    #[test]
    fn file_that_a_wheel_lacks_is_named() {
        let list = "File Name     Modified      Size\n\
            dlbridge/py.typed   1980-01-01 00:00:00    0\n\
            dlbridge-0.1.0.dist-info/licenses/LICENSE-MIT   1980-01-01 00:00:00    1080\n\
            dlbridge-0.1.0.dist-info/licenses/LICENSE-APACHE   1980-01-01 00:00:00    11358\n\
            dlbridge-0.1.0.dist-info/licenses/LICENSE-THIRD-PARTY   1980-01-01 00:00:00    8397\n\
            dlbridge-0.1.0.dist-info/sboms/dlbridge-python.cyclonedx.json   1980-01-01 00:00:00  9\n";
        assert_eq!(missing(list), None);
        for end in CONTENTS {
            assert_eq!(missing(&list.replace(end, "/other")), Some(end));
        }
    }
}
