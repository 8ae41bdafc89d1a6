//! `cargo xtask compare`: builds the same functions written with dlbridge and with its peers, runs them on the same
//! inputs, and writes the tables of `docs/comparison.md`.

use std::path::PathBuf;

use crate::peers::Peers;
use crate::python::Venv;
use crate::{Result, Workplace, process};

/// The packages that Cargo builds; nanobind is C++.
const PACKAGES: &[&str] = &["dlbridge", "dlpark", "dlpk", "pyo3-dlpack", "rust-numpy"];

/// Installed beside numpy and the frameworks of the tests.
const INSTALLED: &[&str] = &["tensorflow-cpu", "paddlepaddle", "nanobind"];

pub(crate) fn run(workplace: &Workplace) -> Result<()> {
    let venv = Venv::made(workplace)?;
    let peers = peers(workplace)?;
    peers.ready_venv(&venv, INSTALLED, &[])?;
    for package in PACKAGES {
        peers.build(package, peers.python())?;
    }
    peers.compile_nanobind(&[])?;
    let mut tables = workplace.command(peers.python());
    tables.env("PYTHONPATH", peers.modules()).arg("peers/comparison/run.py");
    tables.args(["--page", "docs/comparison.md", "--evidence", "peers/comparison/evidence.json"]);
    process::run(&mut tables)
}

/// Builds the extension that uses rust-numpy, for tests of dlbridge beside it. Returns its folder.
pub(crate) fn rust_numpy(workplace: &Workplace, venv: &Venv) -> Result<PathBuf> {
    let peers = peers(workplace)?;
    peers.build("rust-numpy", venv.program("python"))?;
    Ok(peers.modules())
}

fn peers(workplace: &Workplace) -> Result<Peers<'_>> {
    Peers::new(workplace, "comparison")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::is_for;
    use crate::pins;

    #[test]
    fn every_requirement_is_pinned() {
        for project in INSTALLED {
            assert!(pins::interop().any(|r| is_for(r, project)), "{project}");
        }
    }
}
