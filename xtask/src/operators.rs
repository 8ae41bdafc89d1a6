//! `cargo xtask operators`: measures operators beside the same ones written with the headers of each framework.

use crate::common::OPERATORS;
use crate::peers::Peers;
use crate::python::Venv;
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
