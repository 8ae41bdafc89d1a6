//! Programs and drivers from Debian's packages.

use crate::steps::{Finished, in_ci};
use crate::{Result, Workplace, process};

/// Runs a step that uses valgrind, which CI installs. `unchecked` says what was not checked without it.
pub(crate) fn with_valgrind(
    workplace: &Workplace,
    unchecked: &str,
    step: impl FnOnce() -> Result<()>,
) -> Result<Finished> {
    let is_there = || process::succeeds(workplace.command("valgrind").arg("--version"));
    if in_ci() {
        install(workplace, &["valgrind"], is_there)?;
    }
    if !is_there() {
        return Ok(Finished::Notice(format!("valgrind is not installed, so {unchecked}")));
    }
    step().map(|()| Finished::Passed)
}

/// Installs packages, unless their programs or drivers are already installed.
pub(crate) fn install(
    workplace: &Workplace,
    packages: &[&str],
    is_there: impl Fn() -> bool,
) -> Result<()> {
    if is_there() {
        return Ok(());
    }
    // Machines of CI run the task as a user that may become root.
    let is_root = process::answer(workplace.command("id").arg("-u")).is_some_and(|id| id == "0");
    let as_root: &[&str] = if is_root { &["apt-get"] } else { &["sudo", "apt-get"] };
    let apt = |arguments: &[&str]| {
        process::run(workplace.command(as_root[0]).args(&as_root[1..]).args(arguments))
    };
    apt(&["update", "--quiet"])?;
    apt(&[&["install", "--quiet", "--yes", "--no-install-recommends"], packages].concat())?;
    match is_there() {
        true => Ok(()),
        false => Err(format!("the packages {} did not install what is needed", packages.join(" "))),
    }
}
