//! Builds with the oldest supported Rust, and for a target without `std`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::crates::{CORE, LIBRARIES, USE_LIBRARIES, folders};
use crate::python::Venv;
use crate::steps::{Finished, Steps, in_ci};
use crate::{Result, Workplace, discard, process};

/// A target with `core` and `alloc` but without `std`, so that a hidden use of `std` does not compile.
const BARE_TARGET: &str = "x86_64-unknown-none";

/// Runs only the steps of this module. In CI, an oldest Rust that cannot be installed is a failure.
pub(crate) fn run(steps: &mut Steps, workplace: &Workplace) -> Option<()> {
    let mut venv = Venv::of(workplace);
    steps.need(".venv", || venv.ready())?;
    steps.try_run("the oldest Rust", || required_in_ci(oldest_rust(workplace, &venv)?));
    steps.run("no_std", || without_std(workplace));
    Some(())
}

/// Returns an error instead of a notice in CI, which installs each Rust.
pub(crate) fn required_in_ci(finished: Finished) -> Result<Finished> {
    match finished {
        Finished::Notice(missing) if in_ci() => Err(missing),
        finished => Ok(finished),
    }
}

/// Compiles the core and what is built on it with the oldest Rust of the workspace, without adapters, whose libraries
/// take most of the time of [`oldest_rust`].
pub(crate) fn oldest_rust_of_core(workplace: &Workplace, venv: &Venv<'_>) -> Result<Finished> {
    let oldest = declared_rust(&workplace.root.join("Cargo.toml")).ok_or("no rust-version")?;
    let before = process::answer(workplace.command("rustup").args(["toolchain", "list"]));
    let core: Vec<_> = CORE.iter().flat_map(|package| ["--package", package]).collect();
    let missing = check_with(workplace, venv, &oldest, &core)?;
    if !has_release(before.as_deref(), &oldest) {
        discard::toolchain(workplace, &oldest);
    }
    Ok(missing.map_or(Finished::Passed, Finished::Notice))
}

/// Compiles the workspace with its declared oldest Rust, and each crate that declares one of its own with that.
/// Excludes the adapters whose libraries take long to build and declare the oldest Rust themselves.
pub(crate) fn oldest_rust(workplace: &Workplace, venv: &Venv<'_>) -> Result<Finished> {
    let oldest = declared_rust(&workplace.root.join("Cargo.toml")).ok_or("no rust-version")?;
    let own: Vec<(String, String)> = folders(&workplace.root)
        .into_iter()
        .filter(|(name, _)| !LIBRARIES.contains(&name.as_str()))
        .filter_map(|(name, folder)| Some((name, declared_rust(&folder.join("Cargo.toml"))?)))
        .collect();
    let mut workspace = vec!["--workspace"];
    let others = own.iter().map(|(name, _)| name.as_str()).chain(LIBRARIES.iter().copied());
    workspace.extend(others.flat_map(|name| ["--exclude", name]));
    workspace.extend(USE_LIBRARIES.iter().flat_map(|name| ["--exclude", name]));
    let before = process::answer(workplace.command("rustup").args(["toolchain", "list"]));
    let mut missing = Vec::new();
    missing.extend(check_with(workplace, venv, &oldest, &workspace)?);
    for (name, declared) in &own {
        missing.extend(check_with(workplace, venv, declared, &["--package", name])?);
    }
    let tried: BTreeSet<_> = own.iter().map(|(_, rust)| rust).chain([&oldest]).collect();
    for rust in tried.into_iter().filter(|rust| !has_release(before.as_deref(), rust)) {
        discard::toolchain(workplace, rust);
    }
    if missing.is_empty() { Ok(Finished::Passed) } else { Ok(Finished::Notice(missing.join("; "))) }
}

/// Compiles each adapter that [`oldest_rust`] excludes with the oldest Rust that it declares, or that of the workspace.
pub(crate) fn oldest_rust_of_libraries(workplace: &Workplace, venv: &Venv<'_>) -> Result<Finished> {
    let oldest = declared_rust(&workplace.root.join("Cargo.toml")).ok_or("no rust-version")?;
    let mut missing = Vec::new();
    let mut failed = Vec::new();
    let adapters = folders(&workplace.root).into_iter();
    for (name, folder) in adapters.filter(|(name, _)| LIBRARIES.contains(&name.as_str())) {
        let declared = declared_rust(&folder.join("Cargo.toml"));
        let declared = declared.as_ref().unwrap_or(&oldest);
        match check_with(workplace, venv, declared, &["--package", &name]) {
            Ok(notice) => missing.extend(notice),
            Err(error) => failed.push(format!("{name} with Rust {declared}: {error}")),
        }
    }
    match (failed.is_empty(), missing.is_empty()) {
        (true, true) => Ok(Finished::Passed),
        (true, false) => Ok(Finished::Notice(missing.join("; "))),
        (false, _) => Err(failed.join("; ")),
    }
}

/// Returns whether rustup's list of toolchains has a release, or is unknown.
fn has_release(list: Option<&str>, rust: &str) -> bool {
    let starts = |line: &str| line.strip_prefix(rust).is_some_and(|rest| rest.starts_with('-'));
    list.is_none_or(|list| list.lines().any(starts))
}

/// Returns the `rust-version` in a manifest.
fn declared_rust(manifest: &Path) -> Option<String> {
    let manifest = fs::read_to_string(manifest).ok()?;
    let declared = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "))?;
    Some(declared.trim_matches('"').to_owned())
}

/// Compiles some packages with a Rust. Returns a notice if that Rust is not installed.
fn check_with(
    workplace: &Workplace,
    venv: &Venv<'_>,
    rust: &str,
    packages: &[&str],
) -> Result<Option<String>> {
    let toolchain = format!("+{rust}");
    let has_it = || process::succeeds(&mut workplace.cargo(&[&toolchain, "--version"]));
    let add = ["toolchain", "install", rust, "--profile", "minimal", "--no-self-update"];
    if !has_it() && in_ci() {
        // The notice below reports a failure.
        let _ = process::run(workplace.command("rustup").args(add));
    }
    if !has_it() {
        return Ok(Some(format!(
            "Rust {rust} is not installed, so nothing was compiled with it; `rustup {}` adds it",
            add.join(" ")
        )));
    }
    // In a directory of its own: two compilers in one directory would rebuild everything each time.
    let target = workplace.target.join("oldest").join(rust);
    let mut check = venv.cargo(&[&toolchain, "check", "--locked", "--all-features"]);
    process::run(check.args(packages).arg("--target-dir").arg(target))?;
    Ok(None)
}

pub(crate) fn without_std(workplace: &Workplace) -> Result<()> {
    let has_target = || {
        let mut list = workplace.command("rustup");
        let list = process::answer(list.args(["target", "list", "--installed"]));
        list.is_some_and(|list| list.lines().any(|line| line == BARE_TARGET))
    };
    if in_ci() && !has_target() {
        // Without this target, the weaker check below still runs.
        let _ = process::run(workplace.command("rustup").args(["target", "add", BARE_TARGET]));
    }
    let mut check = workplace.cargo(&["check", "--package", "dlbridge", "--no-default-features"]);
    if has_target() {
        check.args(["--target", BARE_TARGET]);
    } else {
        println!(
            "(This target has std. The strict check needs `rustup target add {BARE_TARGET}`.)"
        );
    }
    process::run(&mut check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_is_found_in_the_list_of_toolchains() {
        let list =
            "stable-x86_64-unknown-linux-gnu (active, default)\n1.88-x86_64-unknown-linux-gnu";
        assert!(has_release(Some(list), "1.88"));
        assert!(!has_release(Some(list), "1.8"));
        assert!(!has_release(Some(list), "1.89"));
        assert!(has_release(None, "1.89"), "nothing is removed if the list is unknown");
    }

    #[test]
    fn declared_rust_is_read_from_manifests() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let declared = |path: &str| declared_rust(&root.join(path));
        assert_eq!(declared("Cargo.toml").as_deref(), Some(env!("CARGO_PKG_RUST_VERSION")));
        assert_eq!(declared("adapters/nalgebra/Cargo.toml").as_deref(), Some("1.89"));
        assert_eq!(declared("crates/dlbridge/Cargo.toml"), None, "the workspace's");
    }
}
