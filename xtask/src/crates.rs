//! The crates: which there are, their lints, their documentation and their tests in Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python::Venv;
use crate::steps::Steps;
use crate::workplace::names;
use crate::{Result, Workplace, devices, process};

/// The crates that need no Python, `dlbridge` aside.
const RUST_ONLY: &[&str] = &[
    "dlbridge-sys",
    "dlbridge-borrow",
    "dlbridge-fork",
    "dlbridge-gpu",
    "dlbridge-pyo3-macros",
    "dlbridge-testing",
    "c_consumer",
    "c_producer",
    "xtask",
];

/// The adapters that are crates of their own, since their libraries take long to build.
const ADAPTERS: &[&str] = &[
    "dlbridge-cuda",
    "dlbridge-faer",
    "dlbridge-nalgebra",
    "dlbridge-opencl",
    "dlbridge-vulkan",
    "dlbridge-wgpu",
];

/// The adapters of libraries that compute, or hold what is computed. They need the Rust that their library needs.
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

/// The crates that the Python package is made of, and the tasks.
const CORE: &[&str] = &[
    "dlbridge-sys",
    "dlbridge",
    "dlbridge-borrow",
    "dlbridge-fork",
    "dlbridge-gpu",
    "dlbridge-raise",
    "dlbridge-pyo3",
    "dlbridge-pyo3-macros",
    "dlbridge-python",
    "xtask",
];

/// Those of them that use PyO3. They have no Rust tests but those in their documentation: there is no interpreter in a Rust test
/// binary.
const WITH_PYTHON: &[&str] = &["dlbridge-raise", "dlbridge-pyo3", "dlbridge-python"];

/// The name and the folder of each package in `crates/` and `adapters/`, where `adapters/arrow` has `dlbridge-arrow`.
pub(crate) fn folders(root: &Path) -> Vec<(String, PathBuf)> {
    let inside = |room: &str, prefix: &str| {
        let room = root.join(room);
        let named = |folder: String| (format!("{prefix}{folder}"), room.join(&folder));
        names(&room).into_iter().map(named).collect::<Vec<_>>()
    };
    [inside("crates", ""), inside("adapters", "dlbridge-")].concat()
}

/// The one feature of theirs that a program turns on.
const COMPLEX: &str = "dlbridge-tract/complex";

/// Cargo's words for every other member of the workspace: those that use PyO3.
pub(crate) fn with_pyo3() -> impl Iterator<Item = &'static str> {
    let others = RUST_ONLY.iter().chain(ADAPTERS).chain(LIBRARIES).chain(&["dlbridge"]);
    ["--workspace"].into_iter().chain(others.flat_map(|package| ["--exclude", package]))
}

/// Tells tests in Rust where the library of ONNX Runtime is, which is part of its Python package, and the Python that has
/// PyTorch: then they require both.
pub(crate) fn with_frameworks(test: &mut Command, venv: &Venv<'_>) -> Result<()> {
    const LIBRARY: &str = "import glob, onnxruntime, os; \
        print(*glob.glob(os.path.dirname(onnxruntime.__file__) + '/capi/libonnxruntime.so*'))";
    let library = process::answer(venv.python().args(["-c", LIBRARY]))
        .ok_or("the onnxruntime package cannot be imported")?;
    test.env("ORT_DYLIB_PATH", library.trim()).env("DLBRIDGE_REQUIRE", "1");
    test.env("DLBRIDGE_PYTHON", venv.program("python"));
    Ok(())
}

/// Clippy for the core: each set of features that can hide a mistake. All of them together are linted with the workspace.
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

/// Cargo's words for the adapters of libraries.
fn libraries() -> impl Iterator<Item = &'static str> {
    LIBRARIES.iter().flat_map(|package| ["--package", package])
}

/// The names in the `[features]` of a manifest, `default` aside.
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

/// All crates together, in one set of features for both steps: their dependencies take long.
pub(crate) fn lint_and_document(steps: &mut Steps, venv: &Venv<'_>) {
    steps.run("clippy: the workspace", || {
        let mut clippy = venv.cargo(&["clippy", "--workspace", "--all-targets", "--all-features"]);
        process::run(clippy.args(["--", "-D", "warnings"]))
    });
    steps.run("documentation", || {
        let mut doc = venv.cargo(&["doc", "--no-deps", "--workspace", "--all-features"]);
        process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    });
}

/// Clippy and tests of the crates that the Python package is made of, with all features.
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
}

/// The tests of `dlbridge-sys`. Those that need `dlpack.h` are ignored where it is not known to be.
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
        // Every order in which threads can run, under a mutex that loom watches.
        let mut loom = workplace.cargo(&["test", "--package", "dlbridge-borrow", "--release"]);
        loom.args(["--test", "loom", "--target-dir"]).arg(workplace.target.join("loom"));
        process::run(loom.env("RUSTFLAGS", "--cfg loom"))
    });
    steps.run("Rust tests: dlbridge-fork", || test(&["dlbridge-fork"]));
    steps.run("Rust tests: dlbridge-gpu", || test(&["dlbridge-gpu", "--doc"]));
    steps.run("Rust tests: dlbridge, no features", || test(&["dlbridge", "--no-default-features"]));
    steps.run("Rust tests: dlbridge, all features", || test(&["dlbridge", "--all-features"]));
    steps.run("Rust tests: the examples in dlbridge-pyo3 and dlbridge-numpy", || {
        let packages = ["--package", "dlbridge-pyo3", "--package", "dlbridge-numpy"];
        process::run(venv.cargo(&["test", "--doc", "--all-features"]).args(packages))
    });
    // Their libraries have no Rust tests: there is no interpreter in a Rust test binary.
    steps.run("Rust tests: programs beside the extensions", || {
        process::run(venv.cargo(&["test", "--bins"]).args(with_pyo3()))
    });
    for package in ADAPTERS {
        steps.run(&format!("Rust tests: {package}"), || test(&[package]));
    }
    devices::test(steps, workplace);
}

/// The tests of the adapters of libraries.
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
    fn features_of_the_core() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let features = features(&root.join("crates/dlbridge/Cargo.toml"));
        for name in ["std", "ndarray", "image"] {
            assert!(features.iter().any(|f| f == name), "{features:?}");
        }
        assert!(features.iter().all(|f| f != "default" && !f.contains(['#', ' '])), "{features:?}");
    }

    #[test]
    fn what_builds_by_default_has_no_adapter() {
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
