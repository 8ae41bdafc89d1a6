//! `cargo xtask test --all`: all steps, with every library and tool that the tests need. Those that CI leaves out on a
//! slow machine come last.

use std::env;
use std::path::Path;

use crate::common::{self, ARGUMENTS, OPERATORS};
use crate::python::{self, Venv, Version};
use crate::python_tests::{self, pytest};
use crate::seeded_faults::KIT;
use crate::steps::{Begun, Finished, Independent, Steps, in_ci};
use crate::workplace::names;
use crate::{
    Result, Workplace, bench, book, build_cost, c_examples, compare, crates, debian, discard, gpu,
    lint, nightly, operators, pins, platforms, process, stable_abi, toolchains, walkthrough,
    wording,
};

/// The tests of the conformance kit, which wait for processes most of the time.
const KIT_TESTS: &str = "conformance/tests";

/// The examples that tests of other folders use: those of operators, and those of borrows, which need a second
/// extension.
const USED_BY_TESTS: &[&str] = &["examples/operators", "examples/image_pipeline"];

/// Runs all steps. Returns `None` if a step failed that later steps need.
pub(crate) fn run(steps: &mut Steps, workplace: &Workplace) -> Option<()> {
    let beside = nightly::begin(steps, workplace);
    let done = one_after_another(steps, workplace);
    beside.into_iter().for_each(|begun| steps.end(begun));
    done
}

/// Runs all steps except those of `cargo xtask test --nightly`.
pub(crate) fn rest(steps: &mut Steps, workplace: &Workplace) -> Option<()> {
    one_after_another(steps, workplace)
}

/// Runs only the tests of the conformance kit.
pub(crate) fn kit(steps: &mut Steps, workplace: &Workplace) -> Option<()> {
    let mut venv = Venv::of(workplace);
    steps.need(".venv", || venv.ready())?;
    python_tests::run(steps, workplace, &venv, KIT_TESTS);
    Some(())
}

/// Runs only the tests of the package with one Python, and the newest libraries that support it, except those that only
/// `.venv` has.
pub(crate) fn package_with(
    steps: &mut Steps,
    workplace: &Workplace,
    version: Version,
) -> Option<()> {
    let wheels = Venv::of(workplace);
    let mut venv = Venv::of_python(workplace, version);
    steps.need(".venv", || venv.ready())?;
    let requirements: Vec<_> =
        common::requirements().into_iter().chain(pins::for_each_python()).collect();
    steps.need("Python requirements", || venv.install(&requirements))?;
    steps.need("the wheels", || {
        // The wheels that were built for `.venv`: they use the stable ABI.
        [".", KIT, OPERATORS]
            .iter()
            .try_for_each(|project| venv.install_wheel(&wheels.built(project)?))
    })?;
    steps.if_time(|steps| tests_with(steps, workplace, &venv))
}

/// Runs the tests of [`package_with`].
fn tests_with(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) -> Option<()> {
    python_tests::run_short(steps, workplace, venv);
    for file in ["test_jax.py", "test_jax_transforms.py"] {
        steps.run(&format!("{OPERATORS}/{file}"), || {
            process::run(&mut pytest(workplace, venv, &format!("{OPERATORS}/{file}"), true))
        });
    }
    discard::packages(steps, workplace, venv, pins::LARGE);
    let installed = steps.need("the oldest PyTorch", || venv.install(&[pins::OLDEST_TORCH]));
    if installed.is_none() && !steps.is_time_over() {
        return None;
    }
    let of_torch = |file: &String| file.starts_with("test_torch") && file.ends_with(".py");
    for file in names(&workplace.root.join(OPERATORS)).into_iter().filter(of_torch) {
        steps.run(&format!("the oldest PyTorch: {OPERATORS}/{file}"), || {
            process::run(&mut pytest(workplace, venv, &format!("{OPERATORS}/{file}"), true))
        });
    }
    Some(())
}

/// Begins the tests of the package with the oldest and the newest Python of this machine, other than that of `.venv`.
fn begin_with_other_pythons(
    steps: &mut Steps,
    workplace: &Workplace,
    venv: &Venv<'_>,
) -> Vec<Begun> {
    let others = python::others(venv);
    let newest = pins::PYTHONS[pins::PYTHONS.len() - 1];
    let tried = |version| version == venv.version() || others.contains(&version);
    for (major, minor) in [pins::PYTHONS[0], newest].into_iter().filter(|v| !tried(*v)) {
        steps.try_run(&format!("the package with Python {major}.{minor}"), || {
            let reason = format!("Python {major}.{minor} is not installed");
            // CI must have a Python that is newer than the oldest.
            match in_ci() && venv.version() == pins::PYTHONS[0] && others.is_empty() {
                true => Err(format!(
                    "{reason}, and neither is another that is newer than that of .venv"
                )),
                false => Ok(Finished::Notice(reason)),
            }
        });
    }
    let begin = |steps: &mut Steps, (major, minor): &(u32, u32)| {
        let version = format!("{major}.{minor}");
        steps.begin(&format!("the package with Python {version}"), || {
            let xtask =
                env::current_exe().map_err(|e| format!("the path of xtask is unknown: {e}"))?;
            let log = workplace.target.join(format!("python-{version}.txt"));
            let arguments = ["test", "--python", &version];
            process::beside(workplace.command(xtask).args(arguments), log)
        })
    };
    steps.if_time(|steps| others.iter().filter_map(|version| begin(steps, version)).collect())
}

fn one_after_another(steps: &mut Steps, workplace: &Workplace) -> Option<()> {
    let venv = lint::run(steps, workplace)?;
    steps.run("no_std", || toolchains::without_std(workplace));
    crates::rust_tests(steps, workplace, &venv);
    discard::folder(steps, workplace, "loom");
    discard::tests(steps, workplace, "debug");
    for example in examples(workplace, c_examples::MAIN) {
        c_examples::test(steps, workplace, &venv, &example);
    }
    nightly::with_python(steps, workplace, &venv);
    with_python(steps, workplace, &venv)
}

/// Returns all requirements of the tests.
pub(crate) fn requirements() -> Vec<&'static str> {
    [common::requirements(), pins::RARE.to_vec()].concat()
}

/// Runs the steps that need the wheel. Returns `None` if a step failed that later steps need.
fn with_python(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) -> Option<()> {
    steps.need("Python requirements", || venv.install(&requirements()))?;
    steps.need("the wheel", || venv.install_project("."))?;
    steps.need("the wheel of the conformance kit", || venv.install_project(KIT))?;
    steps.need("the wheel of tests/operators", || venv.install_example(OPERATORS))?;
    let plain = steps.run("operators without Python", || operators::without_python(workplace));
    if in_ci() {
        steps.run("Chromium", || browser(workplace));
    }
    // Its tests wait for other processes most of the time, and are independent of the steps below.
    let kit = begin_kit(steps, workplace);
    steps.run("the source distribution", || venv.try_source_distribution());
    for project in [&[ARGUMENTS], USED_BY_TESTS].concat() {
        steps.run(&format!("the wheel of {project}"), || venv.install_example(project));
    }
    steps.run("the stub of the template", || venv.compare_stub("examples/template"));
    steps.run("the wording of compile errors", || wording::check(workplace, venv));
    python_tests::type_checks(steps, workplace, venv);
    let package = python_tests::all_independent(workplace, venv, python_tests::PACKAGE);
    let is_long =
        |step: &Independent| python_tests::LONG.iter().any(|file| step.name.ends_with(file));
    let (long, short) = package.into_iter().partition(is_long);
    steps.run_side_by_side(workplace, short);
    let pages = [
        ("the page of the benchmarks", "benches/report"),
        ("the edit scripts of ports", "peers/ports"),
        ("the GPU suite's report", gpu::SUITE),
    ];
    for (name, folder) in pages {
        steps.run(name, || process::run(&mut pytest(workplace, venv, folder, true)));
    }
    steps.try_run("GPU suite, on the stand-in", || gpu::on_stand_in(workplace, venv));
    steps.try_run("instruction budgets", || bench::instructions(workplace, venv, false));
    let rust_numpy =
        steps.run("an extension built on rust-numpy", || compare::rust_numpy(workplace, venv));
    let test = |folder: String| without_skips(workplace, venv, folder, rust_numpy.as_deref());
    // The longest first, so that it does not run alone at the end.
    let arguments = test(ARGUMENTS.to_owned());
    let of_operators = python_tests::all_independent(workplace, venv, OPERATORS);
    let of_operators = operators::with_library(of_operators, plain.as_deref());
    steps.run_side_by_side(workplace, [arguments].into_iter().chain(of_operators).collect());
    let other_pythons = begin_with_other_pythons(steps, workplace, venv);
    steps.if_time(|steps| {
        with_libraries(steps, workplace, venv);
        steps.run_side_by_side(workplace, long);
        for example in examples(workplace, "pyproject.toml") {
            if !USED_BY_TESTS.contains(&example.as_str()) {
                steps.run(&format!("the wheel of {example}"), || venv.install_example(&example));
            }
        }
        let of_examples = examples(workplace, "tests").into_iter().map(|e| format!("{e}/tests"));
        steps.run_side_by_side(workplace, of_examples.map(test).collect());
        steps.try_run("Python under valgrind", || python_tests::under_valgrind(workplace, venv));
        smallest_extensions(steps, workplace, venv);
        for page in walkthrough::PAGES {
            steps.try_run(&format!("{}, outside", page.1), || {
                walkthrough::follow(workplace, venv, *page)
            });
        }
        platforms::cheap(steps, workplace, venv);
        discard::folder(steps, workplace, "platforms");
        steps.try_run("the oldest Rust", || toolchains::oldest_rust_of_core(workplace, venv));
        discard::folder(steps, workplace, "oldest");
        steps.run("the book", || book::run(workplace));
    });
    other_pythons.into_iter().chain(kit).for_each(|begun| steps.end(begun));
    Some(())
}

/// Runs the checks of the adapters of libraries.
fn with_libraries(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    crates::lint_and_document_libraries(steps, venv);
    crates::test_libraries(steps, workplace, venv);
    discard::tests(steps, workplace, "debug");
    nightly::with_onnx_runtime(steps, workplace, venv);
}

/// Runs the checks of extensions with fewer features, and of their sizes.
fn smallest_extensions(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    steps.try_run("the stable ABI of Python 3.9", || stable_abi::test(workplace, venv));
    steps
        .run("an extension with one protocol more", || stable_abi::test_protocols(workplace, venv));
    steps.try_run("sizes of extensions", || build_cost::sizes(workplace, venv, false));
}

/// Returns the tests in a folder as a step in which a skipped test is a failure.
fn without_skips(
    workplace: &Workplace,
    venv: &Venv<'_>,
    folder: String,
    rust_numpy: Option<&Path>,
) -> Independent {
    let mut command = pytest(workplace, venv, &folder, true);
    if let Some(rust_numpy) = rust_numpy {
        command.env("DLBRIDGE_RUST_NUMPY", rust_numpy);
    }
    command.args(["-p", "examples.no_skips"]);
    Independent { name: folder, command, notice: None }
}

/// Begins the tests of the conformance kit beside the others.
fn begin_kit(steps: &mut Steps, workplace: &Workplace) -> Option<Begun> {
    steps.begin("the conformance kit", || {
        let xtask = env::current_exe().map_err(|e| format!("the path of xtask is unknown: {e}"))?;
        let log = workplace.target.join("kit.txt");
        process::beside(workplace.command(xtask).args(["test", "--kit"]), log)
    })
}

/// Returns the examples with a file or directory of this name, as paths from the root.
fn examples(workplace: &Workplace, having: &str) -> Vec<String> {
    let directory = workplace.root.join("examples");
    let examples =
        names(&directory).into_iter().filter(|n| directory.join(n).join(having).exists());
    examples.map(|name| format!("examples/{name}")).collect()
}

/// Installs the browser for the tests of the conformance kit's pages from Debian's packages, if it is missing. Without
/// it these tests fail.
fn browser(workplace: &Workplace) -> Result<()> {
    debian::install(workplace, &["chromium"], || {
        Path::new("/usr/bin/chromium").exists() || env::var_os("CHROMIUM").is_some()
    })
}
