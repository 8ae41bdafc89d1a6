//! The dependencies: their licences, sources, known vulnerabilities, and versions. `deny.toml` has the rules.

use std::process::Command;

use super::tools::installed;
use crate::steps::{Finished, Steps, in_ci};
use crate::{Result, Workplace, pins, process};

/// The crate with everything that the Python package contains.
const PACKAGE: &str = "crates/dlbridge-python/Cargo.toml";

/// Runs the steps. `tools` is where the tool is installed.
pub(crate) fn run(steps: &mut Steps, clone: &Workplace, tools: &Workplace) {
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
