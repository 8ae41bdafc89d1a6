//! Cargo's further commands in their pinned versions, installed once in `target/tools`.

use std::path::PathBuf;
use std::process::Command;

use crate::{Result, Workplace, process};

/// Returns the command of a pinned tool (`cargo-deny@1.2.3`), after installing it if necessary.
pub(crate) fn installed(tools: &Workplace, pin: &str) -> Result<PathBuf> {
    let (name, version) = pin.split_once('@').ok_or_else(|| format!("`{pin}` lacks a version"))?;
    let root = tools.target.join("tools");
    let tool = root.join("bin").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let subcommand = name.trim_start_matches("cargo-");
    // Some need the subcommand before their options, as if Cargo called them.
    let has = process::answer(Command::new(&tool).args([subcommand, "--version"]));
    if has.is_none_or(|has| has.split_whitespace().last() != Some(version)) {
        // Fast enough unoptimised, and built in a fraction of the time.
        let mut install =
            tools.cargo(&["install", "--locked", "--quiet", "--debug", "--force", pin]);
        install.arg("--target-dir").arg(root.join("target"));
        process::run(install.arg("--root").arg(&root))?;
    }
    Ok(tool)
}
