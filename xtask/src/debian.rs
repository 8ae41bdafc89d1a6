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
    let apt = |arguments: &[&str]| process::run(workplace.command("apt-get").args(arguments));
    apt(&["update", "--quiet"])?;
    apt(&[&["install", "--quiet", "--yes", "--no-install-recommends"], packages].concat())?;
    match is_there() {
        true => Ok(()),
        false => Err(format!("the packages {} did not install what is needed", packages.join(" "))),
    }
}
