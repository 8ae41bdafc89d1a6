//! `cargo xtask test --package NAME`: one crate, and the tests that exist for it in Python.

use crate::common::{ARGUMENTS, OPERATORS};
use crate::crates;
use crate::python::Venv;
use crate::python_tests;
use crate::steps::Steps;
use crate::{Result, Workplace, common, operators, pins, process, whole};

/// The crates whose Python tests are those of typed arguments, in a separate extension.
const TYPED_ARGUMENTS: &[&str] = &["dlbridge-pyo3", "dlbridge-pyo3-macros", "dlbridge-raise"];

/// The crates whose Python tests are those of operators.
const OF_OPERATORS: &[&str] = &["dlbridge-ops", "dlbridge-ops-macros"];

/// The crate whose Python tests are those of the Python package.
const PACKAGE: &str = "dlbridge-python";

/// Returns the name of a crate, given that name (`dlbridge-arrow`) or the part after `dlbridge-` (`arrow`).
pub(crate) fn by_name(workplace: &Workplace, name: &str) -> Result<String> {
    let crates = crates::folders(&workplace.root);
    let full = format!("dlbridge-{name}");
    let found = crates.iter().find(|(of, _)| of == name || *of == full);
    found.map(|(of, _)| of.clone()).ok_or_else(|| {
        let names: Vec<_> = crates.iter().map(|(of, _)| of.as_str()).collect();
        format!("unknown crate `{name}`; known: {}", names.join(", "))
    })
}

/// Runs the steps for one crate. Returns `None` if a step failed that later steps need.
pub(crate) fn run(steps: &mut Steps, workplace: &Workplace, name: &str) -> Option<()> {
    common::sources(steps, workplace);
    let mut venv = Venv::of(workplace);
    steps.need(".venv", || venv.ready())?;
    let venv = venv;
    let needs_frameworks = crates::needs_frameworks(name);
    let extension = match name {
        PACKAGE => Some(("the wheel", ".", python_tests::PACKAGE)),
        _ if TYPED_ARGUMENTS.contains(&name) => {
            Some(("the wheel of tests/arguments", ARGUMENTS, ARGUMENTS))
        }
        _ if OF_OPERATORS.contains(&name) => {
            Some(("the wheel of tests/operators", OPERATORS, OPERATORS))
        }
        _ => None,
    };
    if extension.is_some() || needs_frameworks {
        let mut requirements =
            if needs_frameworks { whole::requirements() } else { common::requirements() };
        if OF_OPERATORS.contains(&name) {
            requirements.extend(pins::OPERATORS);
        }
        steps.need("Python requirements", || venv.install(&requirements))?;
    }
    steps.run(&format!("clippy: {name}"), || {
        let mut clippy = venv.cargo(&["clippy", "--all-targets", "--all-features"]);
        process::run(clippy.args(["--package", name, "--", "-D", "warnings"]))
    });
    steps.run(&format!("Rust tests: {name}"), || crates::test_one(workplace, &venv, name));
    let Some((wheel, project, tests)) = extension else { return Some(()) };
    // The tests of arguments compare with the package too.
    if project != "." {
        steps.need("the wheel", || venv.install_example("."))?;
    }
    steps.need(wheel, || venv.install_example(project))?;
    let mut tests = python_tests::independent(workplace, &venv, tests);
    if project == OPERATORS {
        let plain = steps.run("operators without Python", || operators::without_python(workplace));
        tests = operators::with_library(tests, plain.as_deref());
    }
    steps.run_side_by_side(workplace, tests);
    Some(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn crates_with_tests_in_python_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let crates = crates::folders(root);
        for name in TYPED_ARGUMENTS.iter().chain(OF_OPERATORS).chain([&PACKAGE]) {
            assert!(crates.iter().any(|(of, _)| of == name), "{name}");
        }
    }
}
