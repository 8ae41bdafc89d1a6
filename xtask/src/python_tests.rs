//! The tests in Python, one process per file, and the type checks.

use std::ffi::OsStr;
use std::process::Command;

use crate::python::Venv;
use crate::steps::{Finished, Independent, Steps};
use crate::workplace::names;
use crate::{Result, Workplace, debian, gpu, pins, process};

/// The tests of the package.
pub(crate) const PACKAGE: &str = "tests/python";

const KIT_SOURCES: &str = "conformance/src/dlbridge_conformance";

/// Test files with many repeats or large copies, which take long with an unoptimised wheel.
pub(crate) const LONG: &[&str] = &["test_chains.py", "test_gpu_faults.py", "test_large_copies.py"];

/// Test files that only the Python of `.venv` runs: those of libraries that only it has, and two that take minutes.
const ONE_PYTHON: &[&str] =
    &["test_dask.py", "test_dpnp.py", "test_ray.py", "test_readme.py", "test_typing.py"];

/// The file with the tests of threads, in a folder of tests. Only a Python without the GIL runs it.
pub(crate) const FREE_THREADED: &str = "test_free_threaded.py";

/// The environment variable with the names of libraries that a Python lacks on purpose.
const LEFT_OUT: &str = "DLBRIDGE_LEFT_OUT";

/// The exit code of pytest if it could not try any test of a file.
const NO_TESTS: i32 = 5;

/// Returns the test files of a folder. For the tests of the package, adds the file of each framework, so that a missing
/// file fails.
fn files(workplace: &Workplace, folder: &str) -> Vec<String> {
    let mut files = names(&workplace.root.join(folder));
    files.retain(|name| name.starts_with("test_") && name.ends_with(".py"));
    // `cargo xtask free-threaded` runs it, with another Python.
    files.retain(|name| name != FREE_THREADED);
    let frameworks = ["numpy"].into_iter().chain(pins::FRAMEWORKS.iter().map(|f| f.name));
    for name in frameworks.filter(|_| folder == PACKAGE) {
        let file = format!("test_{name}.py");
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// Returns the test files of a folder without the longest.
fn short_files(workplace: &Workplace, folder: &str) -> Vec<String> {
    let mut files = files(workplace, folder);
    files.retain(|file| !LONG.contains(&file.as_str()));
    files
}

/// Runs the test files of a folder, one process each, so that each framework is alone with the extension module. A
/// framework that is not installed is a failure.
pub(crate) fn run(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>, folder: &str) {
    for file in files(workplace, folder) {
        let path = format!("{folder}/{file}");
        steps.run(&name(folder, &file), || process::run(&mut pytest(workplace, venv, &path, true)));
    }
}

/// Runs the tests of the package like [`run`], without the longest, and without the files and libraries that only one
/// Python is tested with.
pub(crate) fn run_short(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    if !steps.counting() {
        let left_out = [LONG, ONE_PYTHON, pins::ONE_PYTHON].concat();
        println!("\nLeft out: {}", left_out.join(", "));
    }
    for file in short_files(workplace, PACKAGE) {
        if ONE_PYTHON.contains(&file.as_str()) {
            continue;
        }
        let mut test = pytest(workplace, venv, &format!("{PACKAGE}/{file}"), true);
        test.env(LEFT_OUT, pins::ONE_PYTHON.join(","));
        steps.run(&name(PACKAGE, &file), || process::run(&mut test));
    }
}

/// Returns all test files of a folder, as steps that run side by side. A framework that is not installed is a failure.
pub(crate) fn all_independent(
    workplace: &Workplace,
    venv: &Venv<'_>,
    folder: &str,
) -> Vec<Independent> {
    let step = |file: String| Independent {
        name: name(folder, &file),
        command: pytest(workplace, venv, &format!("{folder}/{file}"), true),
        notice: None,
    };
    files(workplace, folder).into_iter().map(step).collect()
}

/// Returns the name of the step for a test file.
fn name(folder: &str, file: &str) -> String {
    match folder {
        PACKAGE => format!("Python: {file}"),
        _ => format!("{folder}/{file}"),
    }
}

/// Returns the test files of a folder, without the longest, as steps that run side by side. A test whose framework is
/// not installed is skipped, except in the files of the frameworks that are always installed.
pub(crate) fn independent(
    workplace: &Workplace,
    venv: &Venv<'_>,
    folder: &str,
) -> Vec<Independent> {
    let step = |file: String| {
        let required =
            pins::FRAMEWORKS.iter().any(|f| is_about(&file, f.name)) || is_about(&file, "numpy");
        let path = format!("{folder}/{file}");
        let notice =
            (NO_TESTS, "the tested library is not installed, so nothing was tried".to_owned());
        Independent {
            name: name(folder, &file),
            command: pytest(workplace, venv, &path, required),
            notice: (!required).then_some(notice),
        }
    };
    short_files(workplace, folder).into_iter().map(step).collect()
}

/// Returns whether a test file is about a framework: `test_torch.py`, `test_torch_storage.py`.
fn is_about(file: &str, framework: &str) -> bool {
    let rest = file.strip_prefix("test_").and_then(|rest| rest.strip_prefix(framework));
    rest.is_some_and(|rest| rest.starts_with(['.', '_']))
}

/// Returns the pytest command for a file or directory. `required`: a test that lacks a framework fails instead of being
/// skipped.
pub(crate) fn pytest(
    workplace: &Workplace,
    venv: &Venv<'_>,
    path: &str,
    required: bool,
) -> Command {
    let cache = workplace.target.join("pytest");
    let mut pytest = venv.python();
    pytest.args(["-m", "pytest", "--quiet", path]);
    pytest.args([OsStr::new("-o"), format!("cache_dir={}", cache.display()).as_ref()]);
    if !path.ends_with(".py") {
        pytest.args(["--ignore", &format!("{path}/{FREE_THREADED}")]);
    }
    // It prints the traceback of a crash. The values are set here, so that those of the user do not matter.
    pytest.env("PYTHONFAULTHANDLER", "1").env_remove(LEFT_OUT);
    if required {
        pytest.env("DLBRIDGE_REQUIRE", "1");
    }
    pytest
}

/// Checks the stub with mypy's strictest rules, then against the extension module itself.
pub(crate) fn type_checks(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    for Independent { name, mut command, .. } in independent_type_checks(workplace, venv) {
        steps.run(&name, || process::run(&mut command));
    }
}

/// Returns [`type_checks`] as steps that run side by side.
pub(crate) fn independent_type_checks(workplace: &Workplace, venv: &Venv<'_>) -> [Independent; 2] {
    let mut mypy = venv.python();
    // The cache that the tests share through pytest: mypy reads the types of NumPy and PyTorch once.
    let cache = workplace.target.join("pytest").join("d").join("mypy");
    mypy.args(["-m", "mypy", "--strict", "--cache-dir"]).arg(cache);
    mypy.args(["--exclude", "/tests/python|/conformance/tests"]);
    mypy.args(["python/dlbridge", KIT_SOURCES, gpu::SUITE]);
    let mut stubtest = venv.python();
    stubtest.args(["-m", "mypy.stubtest", "dlbridge._core"]);
    let allowed = "python/stubtest-allowlist.txt";
    if workplace.root.join(allowed).exists() {
        stubtest.args(["--allowlist", allowed]);
    }
    let step = |name: &str, command| Independent { name: name.to_owned(), command, notice: None };
    [step("stubtest", stubtest), step("mypy", mypy)]
}

/// Tests of crafted tensors and own buffers, without frameworks that would fill valgrind's output.
const UNDER_VALGRIND: &[&str] =
    &["array_interface", "array_struct", "buffer_export", "import", "import_options"];

/// Checks under valgrind that the extension module accesses only valid memory. Does not check for reads of
/// uninitialised memory, because Python itself has many.
pub(crate) fn under_valgrind(workplace: &Workplace, venv: &Venv<'_>) -> Result<Finished> {
    let mut valgrind = workplace.command("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9", "--undef-value-errors=no", "--num-callers=30"]);
    valgrind.arg("--suppressions=xtask/valgrind.supp");
    valgrind.arg(venv.python().get_program());
    valgrind.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]);
    valgrind.args(UNDER_VALGRIND.iter().map(|name| format!("{PACKAGE}/test_{name}.py")));
    valgrind.env("PYTHONMALLOC", "malloc");
    let unchecked = "the memory accesses of the extension module were not checked";
    debian::with_valgrind(workplace, unchecked, || process::run(&mut valgrind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_file_is_matched_to_its_framework() {
        assert!(is_about("test_torch.py", "torch"));
        assert!(is_about("test_torch_storage.py", "torch"));
        assert!(!is_about("test_torchaudio.py", "torch"));
        assert!(!is_about("test_tensor.py", "torch"));
    }
}
