//! Programs and drivers that come from Debian's packages.

use crate::{Result, Workplace, process};

/// Installs packages, unless what they bring is there.
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
        false => Err(format!("{} brought not what is needed", packages.join(" "))),
    }
}
