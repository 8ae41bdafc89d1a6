//! `cargo xtask lint`: the checks of the sources, and clippy with each set of features. Those of the adapters of libraries
//! are in `crates`, because their libraries take minutes to compile; the task runs them after this list.

use crate::python::Venv;
use crate::steps::Steps;
use crate::{Workplace, common, crates, process, stable_abi};

/// Runs the steps. Returns the environment that the lints of crates with PyO3 use, or `None` if it could not be made.
pub(crate) fn run<'a>(steps: &mut Steps, workplace: &'a Workplace) -> Option<Venv<'a>> {
    common::sources(steps, workplace);
    crates::lint_core(steps, workplace);
    let mut venv = Venv::of(workplace);
    steps.need(".venv", || venv.ready())?;
    let venv = venv;
    steps.run("the workflows", || {
        // A process, because the check needs the command line, whose module imports those of all tasks.
        process::run(&mut workplace.cargo(&["xtask", "workflows"]))
    });
    crates::lint_and_document(steps, &venv);
    stable_abi::lint(steps, &venv);
    Some(venv)
}
