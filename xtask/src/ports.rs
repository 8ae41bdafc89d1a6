//! `cargo xtask ports`: ports third-party extensions from rust-numpy to dlbridge, tests them, and measures them beside
//! the originals.

use std::process::Command;

use crate::peers::Peers;
use crate::python::Venv;
use crate::{Result, Workplace, pins, process};

/// The script that does the work, and the folder of the edit scripts.
const SCRIPT: &str = "peers/ports/run.py";

/// Installed beside numpy, the frameworks of the tests, and the requirements of the extensions.
const INSTALLED: &[&str] = &["polars", "pandas"];

/// The command line of the task.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Only writes the page, from the stored results.
    pub(crate) render: bool,
    /// Does not change the page.
    pub(crate) check: bool,
    /// The extensions; all if empty. Only a run of all writes the page.
    pub(crate) only: Vec<String>,
}

pub(crate) fn run(workplace: &Workplace, options: &Options) -> Result<()> {
    let venv = Venv::made(workplace)?;
    let peers = Peers::new(workplace, "ports")?;
    if !options.render {
        let needed = process::answer(&mut script(venv.python(), &peers, &["--requirements"]))
            .ok_or("the extensions' requirements cannot be read")?;
        let tools = [pins::MATURIN, pins::TEST_TOOLS[0]];
        let more: Vec<&str> = needed.split_whitespace().chain(tools).collect();
        peers.ready_venv(&venv, INSTALLED, &more)?;
    }
    let mut work = match options.render {
        true => script(venv.python(), &peers, &["--render"]),
        false => script(workplace.command(peers.python()), &peers, &[]),
    };
    if options.check {
        work.arg("--check");
    }
    if !options.only.is_empty() {
        work.arg("--only").args(&options.only);
    }
    process::run(&mut work)
}

fn script(mut python: Command, peers: &Peers<'_>, arguments: &[&str]) -> Command {
    python.arg(SCRIPT).arg("--folder").arg(peers.directory()).args(arguments);
    python
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
        assert!(is_for(pins::TEST_TOOLS[0], "pytest"));
    }
}
