//! The steps that most changes must pass, which take minutes. `whole` has everything.

use crate::python::Venv;
use crate::seeded_faults::KIT;
use crate::steps::Steps;
use crate::{
    Workplace, crates, layers, licences, links, pins, platforms, process, python_tests,
    unsafe_table,
};

/// An extension with a function for each kind of typed argument, and its tests.
pub(crate) const ARGUMENTS: &str = "tests/arguments";

/// An extension with an operator for each kind of parameter, and its tests.
pub(crate) const OPERATORS: &str = "tests/operators";

const TEMPLATE: &str = "examples/template";

/// Runs the steps. Returns `None` if a step failed that later steps need.
pub(crate) fn run(steps: &mut Steps, workplace: &Workplace) -> Option<()> {
    sources(steps, workplace);
    let mut venv = Venv::of(workplace);
    steps.need(".venv", || venv.ready())?;
    let venv = venv;
    steps.need("Python requirements", || venv.install(&requirements()))?;
    crates::test_core(steps, workplace, &venv);
    steps.need("the wheel", || venv.install_example("."))?;
    steps.need("the wheel of the conformance kit's tensors", || venv.install_example(KIT))?;
    for project in [ARGUMENTS, TEMPLATE] {
        steps.run(&format!("the wheel of {project}"), || venv.install_example(project));
    }
    // The longest first, so that no long step runs alone at the end.
    let mut checks: Vec<_> = python_tests::independent_type_checks(workplace, &venv).into();
    for folder in [ARGUMENTS, &format!("{TEMPLATE}/tests"), python_tests::PACKAGE] {
        checks.extend(python_tests::independent(workplace, &venv, folder));
    }
    steps.run_side_by_side(workplace, checks);
    Some(())
}

/// Checks of the sources, without a build.
pub(crate) fn sources(steps: &mut Steps, workplace: &Workplace) {
    steps.run("formatting", || {
        process::run(&mut workplace.cargo(&["fmt", "--all", "--check"]))?;
        let fuzz = ["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"];
        process::run(&mut workplace.cargo(&fuzz))
    });
    steps.run("licences of the libraries in the wheels", || licences::check(workplace));
    steps.run("the table of unsafe code", || unsafe_table::check(&workplace.root));
    steps.run("no circles among modules", || layers::check(workplace));
    steps.run("the table of platforms", || platforms::check(&workplace.root));
    steps.run("links of the pages", || links::check(&workplace.root));
}

/// Returns all requirements of the common tests.
pub(crate) fn requirements() -> Vec<&'static str> {
    let tools = [pins::NUMPY, pins::MATURIN].into_iter().chain(pins::TEST_TOOLS.iter().copied());
    let frameworks = pins::FRAMEWORKS.iter().map(|f| f.requirement);
    tools.chain(frameworks).chain(pins::SMALL.iter().copied()).collect()
}
