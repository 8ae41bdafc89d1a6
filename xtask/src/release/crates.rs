//! The crates: the rules for their dependencies, which `deny.toml` has, and their builds, each from its own package, with
//! the oldest Rust and the oldest dependencies that its manifest names.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use super::artifacts;
use super::metadata::published;
use crate::python::Venv;
use crate::steps::{Finished, Steps, in_ci};
use crate::{Result, Workplace, nightly, pins, process, toolchains};

/// Crates whose library needs a newer version of an optional dependency of the core, which the crate does not enable.
/// Cargo chooses a version all the same.
const RAISED: [(&str, &str, &str); 2] =
    [("dlbridge-burn", "bytes", "1.12.1"), ("dlbridge-polars", "bytes", "1.11.0")];

/// The crate with everything that the Python package contains.
const PACKAGE: &str = "crates/dlbridge-python/Cargo.toml";

/// Checks the licences, sources, known vulnerabilities, and versions of the dependencies. `tools` is where the tool is
/// installed.
pub(super) fn dependencies(steps: &mut Steps, clone: &Workplace, tools: &Workplace) {
    steps.run("licences and sources of dependencies", || {
        let mut deny = deny(clone, tools)?;
        deny.args(["--all-features", "check", "--hide-inclusion-graph", "--allow", "duplicate"]);
        process::run(deny.args(["licenses", "bans", "sources"]))
    });
    steps.run("no dependency of the Python package in two versions", || {
        let mut deny = deny(clone, tools)?;
        deny.args(["--exclude-dev", "--manifest-path", PACKAGE]);
        process::run(deny.args(["check", "bans"]))
    });
    steps.try_run("known vulnerabilities of dependencies", || advisories(clone, tools));
}

/// Builds the crates.
pub(super) fn build(steps: &mut Steps, clone: &Workplace, venv: &Venv<'_>) {
    steps.run("every crate builds from its package", || {
        artifacts::forget_crates(clone)?;
        packages(venv)?;
        artifacts::copy_crates(clone, published(&clone.root)?.len())
    });
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

fn deny(clone: &Workplace, tools: &Workplace) -> Result<Command> {
    let mut deny = clone.command(installed(tools, pins::CARGO_DENY)?);
    deny.arg("--locked");
    Ok(deny)
}

/// Compares the dependencies with RustSec's database. Returns a notice if the database cannot be fetched, except in CI.
fn advisories(clone: &Workplace, tools: &Workplace) -> Result<Finished> {
    if let Err(error) = process::run(deny(clone, tools)?.args(["fetch", "db"])) {
        let reason = format!(
            "no dependency was compared with RustSec's database, which could not be fetched: {error}"
        );
        return if in_ci() { Err(reason) } else { Ok(Finished::Notice(reason)) };
    }
    process::run(deny(clone, tools)?.args(["--all-features", "check", "advisories"]))?;
    Ok(Finished::Passed)
}

/// Returns the command of a pinned subcommand of Cargo (`cargo-deny@1.2.3`), after installing it if necessary.
pub(super) fn installed(tools: &Workplace, pin: &str) -> Result<PathBuf> {
    let (name, version) = pin.split_once('@').ok_or_else(|| format!("`{pin}` lacks a version"))?;
    let root = tools.target.join("tools");
    let tool = root.join("bin").join(name).with_extension(env::consts::EXE_EXTENSION);
    let subcommand = name.trim_start_matches("cargo-");
    // Some need the subcommand before their options, as if Cargo called them.
    let has = process::answer(Command::new(&tool).args([subcommand, "--version"]));
    if has.is_none_or(|has| has.split_whitespace().last() != Some(version)) {
        // Fast enough unoptimised, and built in a fraction of the time.
        let mut install =
            tools.cargo(&["install", "--locked", "--quiet", "--debug", "--force", pin]);
        install.env("CARGO_PROFILE_DEV_DEBUG", "0");
        install.arg("--target-dir").arg(root.join("target"));
        process::run_for_hours(install.arg("--root").arg(&root))?;
    }
    Ok(tool)
}
