//! Programs and drivers from Debian's packages.

use crate::{Result, Workplace, process};

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
