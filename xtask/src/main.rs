//! The project's tasks, run as `cargo xtask TASK`.
//!
//! | module | |
//! | --- | --- |
//! | `test` | README's test, and the steps for one crate |
//! | `ci` | all that a change must pass |
//! | `nightly` | everything else, with a page of the last results |
//! | `site` | the extension modules that the tests import |
//! | `python` | the Pythons of this machine, and their environments |
//! | `step` | named commands, their output and their summary |

mod ci;
mod nightly;
mod python;
mod site;
mod step;
mod test;

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

use python::{Venv, ran};
use step::{Report, Result, Step};

const USAGE: &str = "\
cargo xtask demo [--out FOLDER]          a picture through Rust and NumPy without a copy
cargo xtask test [--package NAME]        the core, the package and typed arguments; or one crate
cargo xtask lint                         the checks of the sources
cargo xtask ci                           all that a change must pass
cargo xtask nightly [STEP ...]           everything else, or some of it; docs/nightly.md lists the steps
cargo xtask book                         the book of docs/, in target/book
cargo xtask bench [ARGUMENT ...]         measures; without arguments, shows what
cargo xtask gpu-test                     the suite of tests/gpu on this machine's GPU, or on a stand-in";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root").to_owned();
    if let Err(error) = env::set_current_dir(&root) {
        eprintln!("xtask: {}: {error}", root.display());
        return ExitCode::FAILURE;
    }
    let done = match words[..] {
        ["demo", ref rest @ ..] => demo(&root, rest).map(|()| true),
        ["test"] => reported(&root, |report| test::run(&root, report)),
        ["test", "--package", name] => reported(&root, |report| test::package(&root, report, name)),
        ["lint"] => reported(&root, |report| ci::lint(&root, report)),
        ["ci"] => reported(&root, |report| ci::run(&root, report)),
        ["nightly", ref names @ ..] => nightly::run(&root, names),
        ["book"] => reported(&root, |report| {
            report.run(ci::book(&root, &Venv::new(&root, "lint")?));
            Ok(())
        }),
        ["bench", ref rest @ ..] => bench(&root, rest).map(|()| true),
        ["gpu-test"] => reported(&root, |report| nightly::gpu_test(&root, report)),
        // A step of the tests.
        ["site"] => site::lay_out(&root).map(|()| true),
        _ => {
            println!("{USAGE}");
            let is_asked = matches!(words[..], [] | ["help" | "--help" | "-h"]);
            return if is_asked { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs steps and prints their summary.
fn reported(root: &Path, run: impl FnOnce(&Report) -> Result<()>) -> Result<bool> {
    let report = Report::new(root)?;
    run(&report)?;
    Ok(report.summary())
}

/// Builds quickly, installs and runs the pipeline of `examples/image_pipeline`.
fn demo(root: &Path, rest: &[&str]) -> Result<()> {
    let venv = Venv::new(root, "demo")?;
    let report = Report::new(root)?;
    let wheels =
        [".", "examples/image_pipeline"].map(|project| venv.installs(project, "--profile demo"));
    if !report.run(wheels.into_iter().flatten()) {
        return Err("the demo could not be built".into());
    }
    ran(Command::new(venv.program("python")).arg("examples/image_pipeline/run.py").args(rest))
}

/// Measures with the wheel of the release.
fn bench(root: &Path, rest: &[&str]) -> Result<()> {
    let venv = Venv::new(root, "nightly")?;
    let report = Report::new(root)?;
    if !rest.is_empty() && !report.run(venv.installs(".", "--release")) {
        return Err("the wheel could not be built".into());
    }
    ran(Command::new(venv.program("python")).arg("bench/run.py").args(rest))
}

/// Returns the step that installs a tool into `target/tools`, unless this version of it is there.
fn tool(root: &Path, name: &str, version: &str) -> [Step; 1] {
    let tools = root.join("target/tools");
    // These tools start other programs, so they need no optimisation.
    let install = format!("cargo install --quiet --locked --debug {name}@{version} --root");
    let step = Step::new(format!("tool: {name}"), &install).arg(&tools).needed();
    [step.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_TARGET_DIR", tools.join("target"))]
}
