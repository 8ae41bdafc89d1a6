//! The smallest extensions: for the stable ABI of Python 3.9 and 3.10, which lacks the buffer protocol, and without
//! default features.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python::{Venv, Version, of_pyenv};
use crate::steps::{Finished, Steps};
use crate::{Result, Workplace, process};

const ARGUMENTS: &str = "tests/arguments";

const SMALL: &str = "examples/small_wheel";

/// The tests whose result depends on the ABI.
const TESTS: &[&str] =
    &["stable_abi", "arguments", "read_only", "results", "sequences", "casts", "times", "columns"];

/// The Pythons that only such an extension supports.
const PYTHONS: &[Version] = &[(3, 9), (3, 10)];

/// Runs clippy for the crate with each default feature alone and none, and for each stable ABI below that of the wheel.
pub(crate) fn lint(steps: &mut Steps, venv: &Venv<'_>) {
    for features in ["", "gpu", "fast-copies", "tensor-class", "arrow", "array-interface", "buffer"]
    {
        steps.run(&format!("clippy: dlbridge-pyo3, only [{features}]"), || {
            let head = ["clippy", "--package", "dlbridge-pyo3", "--no-default-features"];
            let tail = ["--features", features, "--", "-D", "warnings"];
            process::run(&mut venv.cargo(&[&head[..], &tail].concat()))
        });
    }
    for (major, minor) in PYTHONS {
        let feature = format!("pyo3/abi3-py{major}{minor}");
        steps.run(
            &format!("clippy: dlbridge-pyo3, the stable ABI of Python {major}.{minor}"),
            || {
                let mut clippy =
                    venv.cargo(&["clippy", "--package", "dlbridge-pyo3", "--features"]);
                process::run(clippy.arg(&feature).args(["--", "-D", "warnings"]))
            },
        );
    }
}

/// Builds the tests of arguments for the stable ABI of Python 3.9 without default features. Runs them with the Python
/// of `.venv`, and with Python 3.9 and 3.10 if this machine has them.
pub(crate) fn test(workplace: &Workplace, venv: &Venv<'_>) -> Result<Finished> {
    let wheel = venv.build_example_with(ARGUMENTS, "abi3-py39")?;
    let folder = unpacked(workplace, venv, &wheel)?;
    let run = |mut python: Command, tests: &[&str]| {
        python.env("PYTHONPATH", &folder).env("DLBRIDGE_REQUIRE", "1");
        python.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]);
        python.args(tests.iter().map(|name| format!("{ARGUMENTS}/test_{name}.py")));
        process::run(&mut python)
    };
    run(venv.python(), TESTS)?;
    let mut missing = Vec::new();
    for version in PYTHONS {
        match find(workplace, *version) {
            Some(python) => run(with_numpy(workplace, *version, &python)?, &TESTS[..1])?,
            None => missing.push(format!("{}.{}", version.0, version.1)),
        }
    }
    if missing.is_empty() {
        return Ok(Finished::Passed);
    }
    Ok(Finished::Notice(format!(
        "Python {} is not installed, so the extension was not tried with it",
        missing.join(" and ")
    )))
}

/// Builds the small example with each additional protocol in turn, and tests it.
pub(crate) fn test_protocols(workplace: &Workplace, venv: &Venv) -> Result<()> {
    for feature in ["arrow", "array-interface", "buffer"] {
        let wheel = venv.build_example_with(SMALL, &format!("dlbridge-pyo3/{feature}"))?;
        let folder = unpacked(workplace, venv, &wheel)?;
        let mut python = venv.python();
        python.env("PYTHONPATH", &folder).env("SMALL_WHEEL_FEATURES", feature);
        python.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]);
        process::run(python.arg(format!("{SMALL}/tests")))?;
    }
    Ok(())
}

/// Unpacks a wheel into a folder for `PYTHONPATH`, which comes before installed packages.
fn unpacked(workplace: &Workplace, venv: &Venv, wheel: &Path) -> Result<PathBuf> {
    let folder = workplace.target.join("stable_abi");
    let _ = fs::remove_dir_all(&folder);
    let mut unpack = venv.python();
    process::run(unpack.args(["-m", "zipfile", "-e"]).arg(wheel).arg(&folder))?;
    Ok(folder)
}

/// Returns a Python of this version that can make environments, by its name or from pyenv.
fn find(workplace: &Workplace, version: Version) -> Option<PathBuf> {
    let named = PathBuf::from(format!("python{}.{}", version.0, version.1));
    [named].into_iter().chain(of_pyenv(version)).find(|python| {
        process::succeeds(workplace.command(python).args(["-c", "import venv, ensurepip"]))
    })
}

/// Returns the Python of an environment with pytest and the newest NumPy for it.
fn with_numpy(workplace: &Workplace, version: Version, python: &Path) -> Result<Command> {
    let folder = workplace.target.join(format!("python{}.{}", version.0, version.1));
    let own = folder.join("bin/python");
    if !process::succeeds(workplace.command(&own).args(["-c", "import numpy, pytest"])) {
        process::run(workplace.command(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
        let mut install = workplace.command(&own);
        process::run(install.args(["-m", "pip", "install", "--quiet", "numpy", "pytest"]))?;
    }
    Ok(workplace.command(&own))
}
