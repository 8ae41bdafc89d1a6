//! The crates: each one builds from its own package, with the oldest Rust and the oldest dependencies that its manifest
//! names, and keeps the API of the earlier release.

use super::artifacts;
use super::metadata::published;
use super::places::declared;
use super::source;
use super::tools::installed;
use crate::python::Venv;
use crate::steps::{Finished, Steps};
use crate::{Result, Workplace, nightly, pins, process, toolchains};

/// Crates whose library needs a newer version of an optional dependency of the core, which the crate does not enable.
/// Cargo chooses a version all the same.
const RAISED: [(&str, &str, &str); 3] = [
    ("dlbridge-burn", "bytes", "1.12.1"),
    ("dlbridge-kornia", "rayon-core", "1.13.0"),
    ("dlbridge-polars", "bytes", "1.11.0"),
];

/// Runs the steps. `tools` is where tools are installed.
pub(crate) fn run(steps: &mut Steps, clone: &Workplace, tools: &Workplace, venv: &Venv<'_>) {
    steps.run("every crate builds from its package", || {
        artifacts::forget_crates(clone);
        packages(venv)?;
        artifacts::copy_crates(clone, published(&clone.root)?.len())
    });
    steps.try_run("the API of the earlier release", || api(clone, tools));
    steps.try_run("the oldest Rust: the adapters of libraries", || {
        toolchains::required_in_ci(toolchains::oldest_rust_of_libraries(clone, venv)?)
    });
    steps.try_run("the oldest Rust: the other crates", || {
        toolchains::required_in_ci(toolchains::oldest_rust(clone, venv)?)
    });
    steps.try_run("the oldest dependencies", || oldest_dependencies(clone, venv));
}

/// Packages all crates, each after its dependencies, and builds each package. A dependency inside
/// the workspace is its package too, because Cargo makes a registry of them.
fn packages(venv: &Venv<'_>) -> Result<()> {
    let mut publish = venv.cargo(&["publish", "--workspace", "--dry-run", "--locked"]);
    // A tenth of the disk space.
    process::run_for_hours(publish.env("CARGO_PROFILE_DEV_DEBUG", "0"))
}

/// Compares the API with that of the newest tag. Returns a notice before the first release.
fn api(clone: &Workplace, tools: &Workplace) -> Result<Finished> {
    let Some(tag) = source::earlier_tag(clone, &declared(&clone.root)?) else {
        return Ok(Finished::Notice(
            "found no tag of an earlier version, so the API was not compared".to_owned(),
        ));
    };
    let mut check = clone.command(installed(tools, pins::CARGO_SEMVER_CHECKS)?);
    check.args(["semver-checks", "--workspace", "--baseline-rev", &tag]);
    process::run(&mut check)?;
    Ok(Finished::Passed)
}

/// Checks each crate alone with the oldest versions of its dependencies. Together, the crates would need newer ones.
fn oldest_dependencies(clone: &Workplace, venv: &Venv<'_>) -> Result<Finished> {
    nightly::with(clone, &[], |clone| {
        let mut failed = Vec::new();
        for one in published(&clone.root)? {
            let folder = one.folder.to_string_lossy();
            let raised: Vec<_> = RAISED
                .iter()
                .filter(|(of, ..)| *of == one.name)
                .map(|(_, name, version)| (*name, *version))
                .collect();
            let cargo = |arguments: &[&str]| venv.cargo(arguments);
            if let Err(error) =
                nightly::minimal_versions_of(clone, &one.name, &folder, &raised, cargo)
            {
                println!("{error}");
                failed.push(one.name);
            }
        }
        match failed.is_empty() {
            true => Ok(()),
            false => Err(format!("do not compile: {}", failed.join(", "))),
        }
    })
}
