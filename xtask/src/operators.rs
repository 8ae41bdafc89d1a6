//! `cargo xtask operators`: measures operators beside the same ones written with the headers of each framework. Also
//! the tests of operators, which need a library without Python's C API.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

use crate::common::OPERATORS;
use crate::peers::Peers;
use crate::python::Venv;
use crate::steps::Independent;
use crate::{Result, Workplace, pins, process};

const SCRIPT: &str = "peers/operators/measure.py";

const PAGE: &str = "docs/operators-cost.md";

/// Installed beside numpy and the frameworks of the tests.
const INSTALLED: &[&str] = &["apache-tvm-ffi"];

pub(crate) fn run(workplace: &Workplace) -> Result<()> {
    let venv = Venv::made(workplace)?;
    venv.install(&[pins::MATURIN])?;
    let peers = Peers::new(workplace, "operators")?;
    peers.ready_venv(&venv, INSTALLED, &[])?;
    let wheel = venv.build_project(OPERATORS)?;
    let wheel = ["--no-deps".as_ref(), "--force-reinstall".as_ref(), wheel.as_os_str()];
    peers.install(&venv, &wheel)?;
    let mut measure = workplace.command(peers.python());
    measure.arg(SCRIPT).arg("--built").arg(peers.directory().join("cpp"));
    process::run(measure.arg("--write").arg(workplace.root.join(PAGE)))
}

/// Builds the library of the tests' operators without Python's C API, and returns its path.
pub(crate) fn without_python(workplace: &Workplace) -> Result<PathBuf> {
    // A directory of its own, because the extension module has the same file name.
    let directory = workplace.target.join("plain-operators");
    let mut build = workplace.cargo(&["build", "--package", "operators", "--no-default-features"]);
    process::run(build.arg("--target-dir").arg(&directory))?;
    Ok(directory.join("debug").join(format!("{DLL_PREFIX}operators{DLL_SUFFIX}")))
}

/// Passes the path of the library without Python to the tests, if it was built.
pub(crate) fn with_library(
    mut tests: Vec<Independent>,
    library: Option<&Path>,
) -> Vec<Independent> {
    for (test, library) in tests.iter_mut().flat_map(|test| library.map(|library| (test, library)))
    {
        test.command.env("DLBRIDGE_PLAIN_OPERATORS", library);
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::is_for;

    #[test]
    fn installed_projects_are_pinned() {
        for project in INSTALLED {
            assert!(pins::interop().any(|r| is_for(r, project)), "{project}");
        }
    }
}
