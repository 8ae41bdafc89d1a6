//! `cargo xtask bench --build`: the cost of building an extension, beside those of peers, in the page on sizes. Also
//! compares the stored sizes, for `cargo xtask test`.

use std::process::Command;

use crate::peers::{Peers, SOURCES};
use crate::python::Venv;
use crate::steps::Finished;
use crate::{Result, Workplace, process};

const SCRIPT: &str = "benches/report/build.py";

const PAGE: &str = "docs/wheel-size.md";

const RESULTS: &str = "benches/build.json";

const SIZES: &str = "benches/sizes.json";

/// Folders in `peers` with the same extension written with each library.
const EXTENSIONS: [&str; 2] = ["template", "typed_arguments"];

/// The libraries of these extensions that Cargo builds; nanobind is C++.
const LIBRARIES: [&str; 2] = ["dlbridge", "rust-numpy"];

/// Measures the builds, and writes the table of the page.
pub(crate) fn run(workplace: &Workplace, venv: &Venv) -> Result<()> {
    let peers = Peers::new(workplace, "benches")?;
    peers.ready_venv(venv, &["nanobind"], &[])?;
    let mut measure = script(workplace, workplace.command(peers.python()))?;
    process::run(measure.args(["--page", PAGE, "--results", RESULTS]))
}

/// Compares the sizes of dlbridge's extensions with the stored ones, or stores them.
pub(crate) fn sizes(workplace: &Workplace, venv: &Venv, write: bool) -> Result<Finished> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Ok(Finished::Notice(
            "the sizes of extensions are stored for Linux on x86-64 alone, and were not compared"
                .into(),
        ));
    }
    let mut compare = script(workplace, venv.python())?;
    process::run(compare.args(["--sizes", SIZES]).args(write.then_some("--write")))?;
    Ok(Finished::Passed)
}

/// Returns the command of the script, after a check of the format of the extensions.
fn script(workplace: &Workplace, mut python: Command) -> Result<Command> {
    for package in packages() {
        let mut format = workplace.cargo(&["fmt", "--check", "--manifest-path"]);
        process::run(format.arg(format!("{SOURCES}/{package}/Cargo.toml")))?;
    }
    python.arg(SCRIPT).arg("--scratch").arg(workplace.target.join("build-cost"));
    Ok(python)
}

/// Returns the folders of the packages that Cargo builds, from `peers`.
fn packages() -> impl Iterator<Item = String> {
    EXTENSIONS.iter().flat_map(|e| LIBRARIES.iter().map(move |library| format!("{e}/{library}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::workplace::names;

    #[test]
    fn every_package_is_formatted() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(SOURCES);
        let folders = EXTENSIONS.iter().flat_map(|extension| {
            names(&root.join(extension)).into_iter().map(move |n| format!("{extension}/{n}"))
        });
        let found = folders.filter(|folder| root.join(folder).join("Cargo.toml").exists());
        assert_eq!(found.collect::<BTreeSet<_>>(), packages().collect());
    }
}
