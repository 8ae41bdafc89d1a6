//! `cargo xtask test`: everything that has to hold, as one list of steps.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python::Venv;
use crate::seeded_faults::KIT;
use crate::steps::{Begun, Finished, Steps, in_ci};
use crate::workplace::names;
use crate::{
    Result, Workplace, bench, c_examples, compare, crates, debian, gpu, nightly, pins, ports,
    process, seeded_faults, stable_abi, template, toolchains, unsafe_table, wording,
};

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Also the faults made on purpose, and the ports of other extensions.
    pub(crate) all: bool,
    /// Without Miri, sanitizers and fuzzing, and with no framework but numpy.
    pub(crate) quick: bool,
    /// Only what needs the nightly toolchain, and nothing of Python.
    pub(crate) nightly: bool,
    /// Only the tests of the conformance kit, with what is installed.
    pub(crate) kit: bool,
}

const PYTHON_TESTS: &str = "tests/python";

const KIT_SOURCES: &str = "conformance/src/dlbridge_conformance";

/// Its tests, which wait for processes most of the time.
const KIT_TESTS: &str = "conformance/tests";

/// An extension with a function for each kind of typed argument, and its tests.
const ARGUMENTS: &str = "tests/arguments";

/// Runs all steps, prints the summary, and returns whether none failed.
pub(crate) fn run(workplace: &Workplace, options: &Options) -> bool {
    let mut steps = Steps::default();
    if options.nightly {
        nightly::run(&mut steps, workplace);
    } else if options.kit {
        if let Some(venv) = steps.run(".venv", || Venv::ready(workplace)) {
            python_tests(&mut steps, workplace, &venv, options, KIT_TESTS);
        }
    } else {
        if contributors(&mut steps, workplace, options).is_none() {
            println!("\nThe remaining steps need the one that failed, and were not run.");
        }
        if options.all {
            beyond(&mut steps, workplace);
        }
    }
    if options.quick {
        let left_out: Vec<_> = pins::FRAMEWORKS.iter().map(|f| f.name).collect();
        println!("\nLeft out by --quick: Miri, sanitizers, fuzzing, {}", left_out.join(", "));
    }
    steps.summary()
}

/// The steps that `--all` adds. Both build what they need, so they also run if an earlier step failed.
fn beyond(steps: &mut Steps, workplace: &Workplace) {
    steps.run("seeded faults", || match seeded_faults::check(workplace)? {
        true => Ok(()),
        false => Err("the kit missed a fault, or a fault could not be tried".to_owned()),
    });
    let options = ports::Options { check: true, ..Default::default() };
    steps.run("ports of other extensions", || ports::run(workplace, &options));
}

/// The steps for every change. `None` if a step failed that the ones after it cannot do without.
fn contributors(steps: &mut Steps, workplace: &Workplace, options: &Options) -> Option<()> {
    let beside = if options.quick { None } else { nightly::begin(steps, workplace) };
    let done = one_after_another(steps, workplace, options);
    if let Some(beside) = beside {
        steps.end(beside);
    }
    done
}

fn one_after_another(steps: &mut Steps, workplace: &Workplace, options: &Options) -> Option<()> {
    steps.run("formatting", || process::run(&mut workplace.cargo(&["fmt", "--all", "--check"])));
    steps.run("the table of unsafe code", || unsafe_table::check(&workplace.root));
    crates::lint_core(steps, workplace);
    let venv = steps.run(".venv", || Venv::ready(workplace))?;
    crates::lint_and_document(steps, &venv);
    stable_abi::lint(steps, &venv);
    steps.try_run("the oldest Rust", || toolchains::oldest_rust(workplace, &venv));
    steps.run("no_std", || toolchains::without_std(workplace));
    crates::rust_tests(steps, workplace, &venv);
    for example in examples(workplace, c_examples::MAIN) {
        c_examples::test(steps, workplace, &venv, &example);
    }
    if !options.quick {
        nightly::with_python(steps, workplace, &venv);
    }
    with_python(steps, workplace, &venv, options)
}

/// What needs the wheel. `None` if a step failed that the others cannot do without.
fn with_python(
    steps: &mut Steps,
    workplace: &Workplace,
    venv: &Venv<'_>,
    options: &Options,
) -> Option<()> {
    steps.run("Python requirements", || venv.install(&requirements(options)))?;
    steps.run("the wheel", || venv.install_project("."))?;
    steps.run("the wheel of the conformance kit", || venv.install_project(KIT))?;
    if !options.quick {
        steps.run("the source distribution", || venv.try_source_distribution());
    }
    for example in examples(workplace, "pyproject.toml").into_iter().chain([ARGUMENTS.to_owned()]) {
        steps.run(&format!("the wheel of {example}"), || venv.install_example(&example));
    }
    crates::test_libraries(steps, workplace, venv, options.quick);
    if !options.quick {
        nightly::with_onnx_runtime(steps, workplace, venv);
    }
    steps.run("the stub of the template", || venv.compare_stub("examples/template"));
    steps.run("the wording of compile errors", || wording::check(workplace, venv));
    steps.try_run("the template, outside", || template::build_outside(workplace, venv));
    type_checks(steps, workplace, venv);
    if in_ci() {
        steps.run("Chromium", || browser(workplace));
    }
    let kit = if options.quick { None } else { begin_kit(steps, workplace) };
    python_tests(steps, workplace, venv, options, PYTHON_TESTS);
    if options.quick {
        python_tests(steps, workplace, venv, options, KIT_TESTS);
    }
    steps.run("the page of the benchmarks", || {
        process::run(&mut pytest(workplace, venv, "benches/report", true)?)
    });
    steps.run("the edit scripts of ports", || {
        process::run(&mut pytest(workplace, venv, "peers/ports", true)?)
    });
    steps.run("the GPU suite's report", || {
        process::run(&mut pytest(workplace, venv, gpu::SUITE, true)?)
    });
    steps.try_run("GPU suite, on the stand-in", || gpu::on_stand_in(workplace, venv));
    if !options.quick {
        steps.try_run("instruction budgets", || bench::instructions(workplace, venv, false));
        steps.try_run("Python under valgrind", || under_valgrind(workplace, venv));
    }
    let rust_numpy = match options.quick {
        true => None,
        false => {
            steps.run("an extension built on rust-numpy", || compare::rust_numpy(workplace, venv))
        }
    };
    let of_examples = examples(workplace, "tests").into_iter().map(|e| format!("{e}/tests"));
    for folder in of_examples.chain([ARGUMENTS.to_owned()]) {
        steps.try_run(&folder, || {
            let mut tests = pytest(workplace, venv, &folder, !options.quick)?;
            if let Some(folder) = &rust_numpy {
                tests.env("DLBRIDGE_RUST_NUMPY", folder);
            }
            if !options.quick {
                tests.args(["-p", "examples.no_skips"]);
            }
            run_tests(&mut tests, !options.quick)
        });
    }
    if !options.quick {
        steps.try_run("the stable ABI of Python 3.9", || stable_abi::test(workplace, venv));
        steps.run("an extension with one protocol more", || {
            stable_abi::test_protocols(workplace, venv)
        });
    }
    if let Some(kit) = kit {
        steps.end(kit);
    }
    Some(())
}

/// Begins the tests of the conformance kit beside the others.
fn begin_kit(steps: &mut Steps, workplace: &Workplace) -> Option<Begun> {
    steps.begin("the conformance kit", || {
        let xtask = env::current_exe().map_err(|e| format!("xtask does not know itself: {e}"))?;
        let log = workplace.target.join("kit.txt");
        process::beside(workplace.command(xtask).args(["test", "--kit"]), log)
    })
}

fn requirements(options: &Options) -> Vec<&'static str> {
    let frameworks = pins::FRAMEWORKS.iter().filter(|_| !options.quick).map(|f| f.requirement);
    let tools = [pins::NUMPY, pins::MATURIN].into_iter().chain(pins::TEST_TOOLS.iter().copied());
    let interop = pins::INTEROP.iter().copied().filter(|_| !options.quick);
    tools.chain(frameworks).chain(interop).collect()
}

/// The examples that have a file or directory of this name, as paths from the root.
fn examples(workplace: &Workplace, having: &str) -> Vec<String> {
    let directory = workplace.root.join("examples");
    let examples =
        names(&directory).into_iter().filter(|n| directory.join(n).join(having).exists());
    examples.map(|name| format!("examples/{name}")).collect()
}

/// The stub against mypy's strictest rules, then against the extension module itself.
fn type_checks(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    steps.run("mypy", || {
        let mut mypy = venv.python();
        mypy.args(["-m", "mypy", "--strict", "--cache-dir"]).arg(workplace.target.join("mypy"));
        process::run(mypy.args([
            "--exclude",
            "/tests/python|/conformance/tests",
            "python/dlbridge",
            KIT_SOURCES,
            gpu::SUITE,
        ]))
    });
    steps.run("stubtest", || {
        let mut stubtest = venv.python();
        stubtest.args(["-m", "mypy.stubtest", "dlbridge._core"]);
        let allowed = "python/stubtest-allowlist.txt";
        if workplace.root.join(allowed).exists() {
            stubtest.args(["--allowlist", allowed]);
        }
        process::run(&mut stubtest)
    });
}

/// The browser that the pages of the conformance kit are tried in, from Debian's packages where it is
/// missing. Without it the tests of the pages fail.
fn browser(workplace: &Workplace) -> Result<()> {
    debian::install(workplace, &["chromium"], || {
        Path::new("/usr/bin/chromium").exists() || env::var_os("CHROMIUM").is_some()
    })
}

/// One process for each test file, so that each framework is alone with the extension module.
fn python_tests(
    steps: &mut Steps,
    workplace: &Workplace,
    venv: &Venv<'_>,
    options: &Options,
    folder: &str,
) {
    let mut files = names(&workplace.root.join(folder));
    files.retain(|name| name.starts_with("test_") && name.ends_with(".py"));
    // A framework whose tests are not there is a failure of theirs.
    let frameworks = ["numpy"].into_iter().chain(pins::FRAMEWORKS.iter().map(|f| f.name));
    for name in frameworks.filter(|_| folder == PYTHON_TESTS) {
        let file = format!("test_{name}.py");
        if !files.contains(&file) {
            files.push(file);
        }
    }
    for file in files {
        let framework = pins::FRAMEWORKS.iter().find(|f| is_about(&file, f.name));
        if options.quick && framework.is_some() {
            continue;
        }
        // What is installed is required; --quick installs numpy alone.
        let required = !options.quick || is_about(&file, "numpy");
        let path = format!("{folder}/{file}");
        steps.try_run(&format!("Python: {file}"), || {
            run_tests(&mut pytest(workplace, venv, &path, required)?, required)
        });
    }
}

/// Whether a test file is about a framework: `test_torch.py`, `test_torch_streams.py`.
fn is_about(file: &str, framework: &str) -> bool {
    let rest = file.strip_prefix("test_").and_then(|rest| rest.strip_prefix(framework));
    rest.is_some_and(|rest| rest.starts_with(['.', '_']))
}

/// Runs pytest on a file or directory. `required`: a test that lacks a framework fails instead of
/// being skipped.
fn pytest(workplace: &Workplace, venv: &Venv<'_>, path: &str, required: bool) -> Result<Command> {
    let cache: PathBuf = workplace.target.join("pytest");
    let mut pytest = venv.python();
    pytest.args(["-m", "pytest", "--quiet", path]);
    pytest.args([OsStr::new("-o"), format!("cache_dir={}", cache.display()).as_ref()]);
    // It prints the traceback of a crash, and users may have set it.
    pytest.env("PYTHONFAULTHANDLER", "1");
    if required {
        pytest.env("DLBRIDGE_REQUIRE", "1");
    }
    Ok(pytest)
}

/// Runs tests. Where none of them could be tried, and need not be, that is said and no pass.
fn run_tests(pytest: &mut Command, required: bool) -> Result<Finished> {
    const NO_TESTS: i32 = 5;
    let accepted: &[i32] = if required { &[] } else { &[NO_TESTS] };
    Ok(match process::run_or(pytest, accepted)? {
        NO_TESTS => Finished::Notice("the framework is not installed, so nothing was tried".into()),
        _ => Finished::Passed,
    })
}

/// Tests whose frameworks do not drown what valgrind says: of crafted tensors and own buffers.
const UNDER_VALGRIND: &[&str] =
    &["array_interface", "array_struct", "buffer_export", "import", "wanted"];

/// Whether the extension module touches memory that is not its own, or no more. Python's own reads of
/// uninitialised memory are many, so those are not looked for.
fn under_valgrind(workplace: &Workplace, venv: &Venv<'_>) -> Result<Finished> {
    if !process::succeeds(workplace.command("valgrind").arg("--version")) {
        return Ok(Finished::Notice(
            "valgrind is not installed, so what the extension module does with memory was not \
             checked"
                .into(),
        ));
    }
    let mut valgrind = workplace.command("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9", "--undef-value-errors=no", "--num-callers=30"]);
    valgrind.arg("--suppressions=xtask/valgrind.supp");
    valgrind.arg(venv.python().get_program());
    valgrind.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]);
    valgrind.args(UNDER_VALGRIND.iter().map(|name| format!("{PYTHON_TESTS}/test_{name}.py")));
    process::run(valgrind.env("PYTHONMALLOC", "malloc"))?;
    Ok(Finished::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_frameworks() {
        assert!(is_about("test_torch.py", "torch"));
        assert!(is_about("test_torch_streams.py", "torch"));
        assert!(!is_about("test_torchaudio.py", "torch"));
        assert!(!is_about("test_tensor.py", "torch"));
    }
}
