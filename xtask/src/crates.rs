//! The lists of crates, their lints, their documentation and their tests in Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python::Venv;
use crate::steps::{Finished, Steps};
use crate::workplace::names;
use crate::{Result, Workplace, debian, devices, process};

/// The crates that need no Python, except `dlbridge`.
const RUST_ONLY: &[&str] = &[
    "dlbridge-sys",
    "dlbridge-borrow",
    "dlbridge-files",
    "dlbridge-fork",
    "dlbridge-gpu",
    "dlbridge-pyo3-macros",
    "dlbridge-ops-macros",
    "dlbridge-testing",
    "c_consumer",
    "c_producer",
    "xtask",
];

/// The adapters that are crates of their own, because their libraries take long to build.
const ADAPTERS: &[&str] = &[
    "dlbridge-cuda",
    "dlbridge-faer",
    "dlbridge-nalgebra",
    "dlbridge-opencl",
    "dlbridge-vulkan",
    "dlbridge-wgpu",
];

/// The adapter of matrices that has unsafe code. Miri and AddressSanitizer would take minutes to build its library.
const UNDER_VALGRIND: &str = "dlbridge-faer";

/// The adapters of libraries for computing, or for its data. They need the Rust that their library needs.
pub(crate) const LIBRARIES: &[&str] = &[
    "dlbridge-arrow",
    "dlbridge-burn",
    "dlbridge-candle",
    "dlbridge-kornia",
    "dlbridge-ort",
    "dlbridge-polars",
    "dlbridge-rten",
    "dlbridge-tract",
];

/// The examples that use one of [`LIBRARIES`].
pub(crate) const USE_LIBRARIES: &[&str] = &["crossing", "onnx_session"];

/// The crates of the Python package, and the tasks.
pub(crate) const CORE: &[&str] = &[
    "dlbridge-sys",
    "dlbridge",
    "dlbridge-borrow",
    "dlbridge-files",
    "dlbridge-fork",
    "dlbridge-gpu",
    "dlbridge-raise",
    "dlbridge-pyo3",
    "dlbridge-pyo3-macros",
    "dlbridge-ops",
    "dlbridge-ops-macros",
    "dlbridge-python",
    "xtask",
];

/// The core crates that use PyO3. They have only doc tests, because a Rust test binary lacks an interpreter.
const WITH_PYTHON: &[&str] =
    &["dlbridge-raise", "dlbridge-pyo3", "dlbridge-ops", "dlbridge-python"];

/// Cargo's arguments for the tests of operators in Rust, which need no interpreter.
pub(crate) const OPERATORS: &[&str] =
    &["--package", "dlbridge-ops", "--no-default-features", "--features", "half,num-complex"];

/// The name and the folder of each package in `crates/` and `adapters/`, where `adapters/arrow` has `dlbridge-arrow`.
pub(crate) fn folders(root: &Path) -> Vec<(String, PathBuf)> {
    let inside = |room: &str, prefix: &str| {
        let room = root.join(room);
        let named = |folder: String| (format!("{prefix}{folder}"), room.join(&folder));
        names(&room).into_iter().map(named).collect::<Vec<_>>()
    };
    [inside("crates", ""), inside("adapters", "dlbridge-")].concat()
}

/// The only feature of these adapters that a program enables.
const COMPLEX: &str = "dlbridge-tract/complex";

/// Returns Cargo's arguments for every other member of the workspace: those that use PyO3.
pub(crate) fn with_pyo3() -> impl Iterator<Item = &'static str> {
    let others = RUST_ONLY.iter().chain(ADAPTERS).chain(LIBRARIES).chain(&["dlbridge"]);
    ["--workspace"].into_iter().chain(others.flat_map(|package| ["--exclude", package]))
}

/// Returns the examples that have programs in Rust.
fn with_programs(root: &Path) -> Vec<String> {
    let examples = root.join("examples");
    let has_one = |example: &String| examples.join(example).join("src/bin").exists();
    names(&examples).into_iter().filter(has_one).collect()
}

/// Sets the path of the library of ONNX Runtime, which is part of its Python package, and the Python with PyTorch for
/// tests in Rust. The tests then require both.
pub(crate) fn with_frameworks(test: &mut Command, venv: &Venv<'_>) -> Result<()> {
    const LIBRARY: &str = "import glob, onnxruntime, os; \
        print(*glob.glob(os.path.dirname(onnxruntime.__file__) + '/capi/libonnxruntime.so*'))";
    let library = process::answer(venv.python().args(["-c", LIBRARY]))
        .ok_or("the onnxruntime package cannot be imported")?;
    test.env("ORT_DYLIB_PATH", library.trim()).env("DLBRIDGE_REQUIRE", "1");
    test.env("DLBRIDGE_PYTHON", venv.program("python"));
    Ok(())
}

/// Runs clippy for the core with each set of features that can hide a mistake. The workspace's lint has all of them
/// together.
pub(crate) fn lint_core(steps: &mut Steps, workplace: &Workplace) {
    let mut clippy = |name: &str, arguments: &[&str]| {
        let head = ["clippy", "--package", "dlbridge"];
        let arguments = [&head, arguments, &["--", "-D", "warnings"]].concat();
        steps.run(&format!("clippy: {name}"), || process::run(&mut workplace.cargo(&arguments)));
    };
    clippy("dlbridge", &["--all-targets"]);
    clippy("dlbridge, no features", &["--all-targets", "--no-default-features"]);
    // Without the tests: they are the same code for each set, and are compiled for none and for all features.
    for feature in features(&workplace.root.join("crates/dlbridge/Cargo.toml")) {
        let only = ["--no-default-features", "--features", &feature];
        clippy(&format!("dlbridge, only {feature}"), &only);
    }
}

/// Returns Cargo's arguments for the adapters of libraries.
fn libraries() -> impl Iterator<Item = &'static str> {
    LIBRARIES.iter().flat_map(|package| ["--package", package])
}

/// Returns the names in the `[features]` of a manifest, except `default`.
fn features(manifest: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(manifest).unwrap_or_default();
    let section = manifest.lines().skip_while(|l| l.trim() != "[features]").skip(1);
    section
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| Some(line.split_once('=')?.0.trim()))
        .filter(|name| !name.starts_with('#') && *name != "default")
        .map(str::to_owned)
        .collect()
}

/// Lints and documents all crates, except [`LIBRARIES`] and what uses them.
pub(crate) fn lint_and_document(steps: &mut Steps, venv: &Venv<'_>) {
    let excluded = LIBRARIES.iter().chain(USE_LIBRARIES);
    let packages: Vec<_> =
        ["--workspace"].into_iter().chain(excluded.flat_map(|name| ["--exclude", name])).collect();
    lint_and_document_with(steps, venv, "the workspace", &packages);
}

/// Lints and documents [`LIBRARIES`] and what uses them.
pub(crate) fn lint_and_document_libraries(steps: &mut Steps, venv: &Venv<'_>) {
    let examples = USE_LIBRARIES.iter().flat_map(|name| ["--package", name]);
    let packages: Vec<_> = libraries().chain(examples).collect();
    lint_and_document_with(steps, venv, "the adapters of libraries", &packages);
}

/// Lints and documents crates, with one set of features for both steps, because their dependencies take long.
fn lint_and_document_with(steps: &mut Steps, venv: &Venv<'_>, name: &str, packages: &[&str]) {
    steps.run(&format!("clippy: {name}"), || {
        let mut clippy = venv.cargo(&["clippy", "--all-targets", "--all-features"]);
        process::run(clippy.args(packages).args(["--", "-D", "warnings"]))
    });
    steps.run(&format!("documentation: {name}"), || {
        let mut doc = venv.cargo(&["doc", "--no-deps", "--all-features"]);
        process::run(doc.args(packages).env("RUSTDOCFLAGS", "-D warnings"))
    });
}

/// Runs clippy and tests of the crates of the Python package, with all features.
pub(crate) fn test_core(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    let packages = || CORE.iter().flat_map(|package| ["--package", package]);
    steps.run("clippy: the core", || {
        let mut clippy = venv.cargo(&["clippy", "--all-targets", "--all-features"]);
        process::run(clippy.args(packages()).args(["--", "-D", "warnings"]))
    });
    steps.run("Rust tests: the core", || {
        let without_python = |package: &&str| !WITH_PYTHON.contains(package);
        let tested = CORE.iter().filter(|p| without_python(p)).flat_map(|p| ["--package", p]);
        process::run(workplace.cargo(&["test", "--all-features"]).args(tested))
    });
    steps.run("Rust tests: the layout of dlpack.h", || with_header(workplace, venv));
    steps.run("Rust tests: the examples in dlbridge-pyo3", || {
        let arguments = ["test", "--doc", "--all-features", "--package", "dlbridge-pyo3"];
        process::run(&mut venv.cargo(&arguments))
    });
    steps.run("Rust tests: dlbridge-ops", || test_operators(workplace));
}

/// Runs the tests of operators in Rust, without Python.
fn test_operators(workplace: &Workplace) -> Result<()> {
    process::run(workplace.cargo(&["test"]).args(OPERATORS))
}

/// Runs the tests of `dlbridge-sys`, including those that need `dlpack.h`, which are ignored by default.
fn with_header(workplace: &Workplace, venv: &Venv<'_>) -> Result<()> {
    let mut all = workplace.cargo(&["test", "--package", "dlbridge-sys", "--lib", "--tests"]);
    all.env("DLPACK_INCLUDE", venv.dlpack_include()?);
    process::run(all.args(["--", "--include-ignored"]))
}

pub(crate) fn rust_tests(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    let test = |arguments: &[&str]| {
        process::run(&mut workplace.cargo(&[&["test", "--package"], arguments].concat()))
    };
    steps.run("Rust tests: xtask", || test(&["xtask"]));
    steps.run("Rust tests: dlbridge-sys", || {
        with_header(workplace, venv)?;
        test(&["dlbridge-sys", "--doc"])
    });
    steps.run("Rust tests: c_producer", || test(&["c_producer"]));
    steps.run("Rust tests: dlbridge-borrow", || {
        test(&["dlbridge-borrow"])?;
        // All possible orders of the threads, with loom's mutex and atomics.
        let mut loom = workplace.cargo(&["test", "--package", "dlbridge-borrow", "--release"]);
        loom.args(["--test", "loom", "--target-dir"]).arg(workplace.target.join("loom"));
        // Optimised, but without the link-time optimisation of wheels, which takes longer than the test.
        loom.env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        process::run(loom.env("RUSTFLAGS", "--cfg loom"))
    });
    steps.run("Rust tests: dlbridge-files", || test(&["dlbridge-files", "--all-features"]));
    steps.run("Rust tests: dlbridge-fork", || test(&["dlbridge-fork"]));
    steps.run("Rust tests: dlbridge-gpu", || test(&["dlbridge-gpu", "--doc"]));
    steps.run("Rust tests: dlbridge, no features", || test(&["dlbridge", "--no-default-features"]));
    steps.run("Rust tests: dlbridge, all features", || test(&["dlbridge", "--all-features"]));
    steps.run("Rust tests: dlbridge-ops", || test_operators(workplace));
    steps.run("Rust tests: the examples in dlbridge-pyo3, -ops and -numpy", || {
        let packages = ["dlbridge-pyo3", "dlbridge-ops", "dlbridge-numpy"];
        let packages = packages.into_iter().flat_map(|name| ["--package", name]);
        process::run(venv.cargo(&["test", "--doc", "--all-features"]).args(packages))
    });
    // Libraries with PyO3 lack Rust tests, because a Rust test binary lacks an interpreter.
    steps.run("Rust tests: programs beside the extensions", || {
        let programs = with_programs(&workplace.root);
        let programs = programs.iter().flat_map(|example| ["--package", example]);
        process::run(venv.cargo(&["test", "--bins"]).args(programs))
    });
    for package in ADAPTERS {
        steps.run(&format!("Rust tests: {package}"), || test(&[package]));
    }
    steps.try_run(&format!("Rust tests under valgrind: {UNDER_VALGRIND}"), || {
        under_valgrind(workplace)
    });
    devices::test(steps, workplace);
}

/// Runs the tests of an adapter, which were built before, under valgrind.
fn under_valgrind(workplace: &Workplace) -> Result<Finished> {
    // The condition is true for every host. The handles of running threads are possibly lost when a program ends.
    const RUNNER: &str = "target.'cfg(all())'.runner = 'valgrind --quiet --error-exitcode=9 \
        --leak-check=full --show-leak-kinds=definite,indirect \
        --errors-for-leak-kinds=definite,indirect'";
    let test = ["test", "--config", RUNNER, "--package", UNDER_VALGRIND, "--tests"];
    let unchecked = format!("the memory accesses of {UNDER_VALGRIND} were not checked");
    debian::with_valgrind(workplace, &unchecked, || process::run(&mut workplace.cargo(&test)))
}

/// Returns true if the tests of a crate need packages of Python.
pub(crate) fn needs_frameworks(name: &str) -> bool {
    LIBRARIES.contains(&name)
}

/// The Rust tests of one crate, and its examples.
pub(crate) fn test_one(workplace: &Workplace, venv: &Venv<'_>, name: &str) -> Result<()> {
    if with_pyo3().any(|excluded| excluded == name) {
        let mut test = workplace.cargo(&["test", "--package", name]);
        match name {
            "dlbridge-sys" => with_header(workplace, venv)?,
            "dlbridge" | "dlbridge-files" => _ = test.arg("--all-features"),
            _ if needs_frameworks(name) => with_frameworks(&mut test, venv)?,
            _ => {}
        }
        return process::run(&mut test);
    }
    if OPERATORS.contains(&name) {
        test_operators(workplace)?;
    }
    // Such a crate has only doc tests, because a Rust test binary lacks an interpreter.
    process::run(&mut venv.cargo(&["test", "--doc", "--all-features", "--package", name]))
}

/// Runs the tests of the adapters of libraries.
pub(crate) fn test_libraries(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    steps.run("Rust tests: the adapters of libraries", || {
        let mut test = workplace.cargo(&["test"]);
        with_frameworks(&mut test, venv)?;
        process::run(test.args(libraries()))?;
        process::run(&mut workplace.cargo(&[
            "test",
            "--package",
            "dlbridge-tract",
            "--features",
            COMPLEX,
        ]))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_from_the_manifest_of_the_core() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let features = features(&root.join("crates/dlbridge/Cargo.toml"));
        for name in ["std", "ndarray", "image"] {
            assert!(features.iter().any(|f| f == name), "{features:?}");
        }
        assert!(features.iter().all(|f| f != "default" && !f.contains(['#', ' '])), "{features:?}");
    }

    #[test]
    fn default_members_exclude_adapters() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let (_, list) = manifest.split_once("default-members = [").unwrap();
        let (list, _) = list.split_once(']').unwrap();
        assert!(list.contains("\"crates/dlbridge\""), "{list}");
        for name in ADAPTERS.iter().chain(LIBRARIES) {
            assert!(!list.contains(&format!("crates/{name}\"")), "{name}");
            let folder = name.strip_prefix("dlbridge-").unwrap_or(name);
            assert!(!list.contains(&format!("adapters/{folder}\"")), "{name}");
        }
    }

    #[test]
    fn programs_of_examples_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(with_programs(root), ["image_pipeline"]);
        // No extension has a program elsewhere.
        for folder in ["crates", "adapters", "examples", "tests"] {
            for name in names(&root.join(folder)) {
                assert!(!root.join(folder).join(&name).join("src/main.rs").exists(), "{name}");
            }
        }
    }

    #[test]
    fn examples_that_use_libraries_are_listed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples");
        let uses_one = |example: &String| {
            let manifest = fs::read_to_string(root.join(example).join("Cargo.toml"));
            manifest.is_ok_and(|text| LIBRARIES.iter().any(|name| text.contains(name)))
        };
        let found: Vec<_> = names(&root).into_iter().filter(uses_one).collect();
        assert_eq!(found, USE_LIBRARIES);
    }

    #[test]
    fn every_crate_is_in_one_list() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let crates = folders(root);
        let mut adapters = ADAPTERS.iter().chain(LIBRARIES);
        assert!(adapters.all(|name| crates.iter().any(|(c, _)| c == name)), "{crates:?}");
        let excluded: Vec<_> = with_pyo3().collect();
        for (name, folder) in &crates {
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
            let uses_pyo3 = manifest.lines().any(|line| line.starts_with("pyo3"));
            assert_eq!(excluded.contains(&name.as_str()), !uses_pyo3, "{name}");
        }
    }
}
