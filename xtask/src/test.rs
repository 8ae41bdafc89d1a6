//! `cargo xtask test`: the core, the package and typed arguments. Also the steps for one crate.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::python::{Venv, answer, for_pyo3};
use crate::site::{self, CORE_FEATURES};
use crate::step::{Report, Result, Step};

/// The crates with tests in Rust.
const CRATES: &[&str] = &[
    "dlbridge-sys",
    "dlbridge",
    "dlbridge-borrow",
    "dlbridge-files",
    "dlbridge-gpu",
    "dlbridge-ops",
    "dlbridge-ops-macros",
    "c_consumer",
    "c_producer",
];

/// The workspaces, by their manifests.
const WORKSPACES: &[&str] = &[
    "Cargo.toml",
    "adapters/Cargo.toml",
    "bench/Cargo.toml",
    "bench/peers/dlpk/Cargo.toml",
    "bench/peers/pyo3-dlpack/Cargo.toml",
    "conformance/crafter/Cargo.toml",
    "fuzz/Cargo.toml",
];

/// The libraries that the group `test` of `pyproject.toml` lacks, by the names that the tests have for them.
const LEFT_OUT: &str = "tensorflow,paddle,mlx,warp,dpnp,onnxruntime,tvm_ffi,flatbuffers,\
    ray,distributed,dask,mpi4py,mpich,numkong,rust-numpy";

/// Those that the group `ci` lacks.
pub(crate) const LEFT_OUT_OF_CI: &str = "ray,distributed,dask,mpi4py,mpich,numkong";

/// The tests with many repeats, large copies or whole libraries to type-check, which only `cargo xtask ci` runs.
const LONG: &[&str] = &[
    "tests/arguments/test_daemon_threads.py",
    "tests/python/test_chains.py",
    "tests/python/test_daemon_threads.py",
    "tests/python/test_gpu_faults.py",
    "tests/python/test_large_copies.py",
    "tests/python/test_typing.py",
];

/// The tests of shared memory, which is written in Python: a change of the crates below the package need not run them.
const SHARED_MEMORY: &[&str] = &[
    "tests/python/test_engine_memory.py",
    "tests/python/test_processes.py",
    "tests/python/test_shared_memory.py",
    "tests/python/test_shared_owners.py",
    "tests/python/test_shared_scope.py",
    "tests/python/test_shared_threads.py",
    "tests/python/test_torch_loader.py",
];

/// Runs all steps.
pub(crate) fn run(root: &Path, report: &Report) -> Result<()> {
    let venv = Venv::new(root, "test")?;
    // Without the feature `python` of dlbridge-ops: a test program lacks an interpreter.
    let others = "dlbridge-files/npz,dlbridge-ops/half,dlbridge-ops/num-complex";
    let features = format!("--no-default-features --features {CORE_FEATURES},{others}");
    let doc = "--workspace --exclude dlbridge-python --exclude xtask";
    let mut rust = vec![rust_tests(CRATES, &features), doc_tests(&venv, doc)];
    // First, because a lane would wait for the other's build.
    report.run(site::built(root, &venv));
    let python = python_tests(root, &venv, &["tests/arguments", "tests/python"], &[], &mut rust);
    report.beside(vec![rust, python]);
    Ok(())
}

/// Runs the steps for one crate, given its name with or without `dlbridge-`.
pub(crate) fn package(root: &Path, report: &Report, name: &str) -> Result<()> {
    let short = name.trim_start_matches("dlbridge-");
    if root.join("adapters").join(short).exists() {
        report.run(adapters(&Venv::new(root, "ci")?, &[short]));
        return Ok(());
    }
    let names = [name.to_owned(), format!("dlbridge-{name}")];
    let known = names.iter().find(|name| root.join("crates").join(name).exists());
    let name = known.ok_or_else(|| format!("no crate `{name}` in crates/ or adapters/"))?.as_str();
    // Besides its own tests, those that assert its messages.
    let folders: &[&str] = match short {
        "ops" | "ops-macros" => &["tests/operators"],
        "python" | "files" | "gpu" => &["tests/python"],
        _ => &["tests/arguments"],
    };
    let venv = Venv::new(root, if folders == ["tests/operators"] { "ci" } else { "test" })?;
    report.run(formatting(root));
    let package = format!("--package {name}");
    let mut rust = vec![clippy(&venv, &package)];
    if CRATES.contains(&name) {
        let features = match name {
            "dlbridge-ops" => "--no-default-features --features half,num-complex",
            _ => "--all-features",
        };
        rust.push(rust_tests(&[name], features));
    }
    if !name.ends_with("-macros") && name != "dlbridge-python" {
        rust.push(doc_tests(&venv, &package));
    }
    if short == "python" {
        rust.extend(types(root, &venv));
    }
    if !root.join(site::FOLDER).exists() {
        println!("building the extension modules first, which takes about two minutes more");
    }
    report.run(site::built(root, &venv));
    let left_out = if short == "python" { &[] } else { SHARED_MEMORY };
    let python = python_tests(root, &venv, folders, left_out, &mut rust);
    report.beside(vec![rust, python]);
    Ok(())
}

/// The formatting of all workspaces.
pub(crate) fn formatting(root: &Path) -> Vec<Step> {
    let here = WORKSPACES.iter().filter(|manifest| root.join(manifest).exists());
    let fmt = |manifest: &&str| {
        Step::new(format!("formatting: {manifest}"), "cargo fmt --all --check --manifest-path")
            .arg(manifest)
    };
    here.map(fmt).collect()
}

/// Clippy with all features.
pub(crate) fn clippy(venv: &Venv, packages: &str) -> Step {
    let clippy = format!("cargo clippy --all-targets --all-features {packages} -- -D warnings");
    for_pyo3(Step::new("clippy", &clippy), venv)
}

/// Clippy and the tests of adapters, with the libraries of the environment.
pub(crate) fn adapters(venv: &Venv, names: &[&str]) -> Vec<Step> {
    let packages: String = names.iter().map(|name| format!(" --package dlbridge-{name}")).collect();
    let manifest = "--manifest-path adapters/Cargo.toml";
    let clippy =
        format!("cargo clippy {manifest} --all-targets --all-features{packages} -- -D warnings");
    let test = format!("cargo test {manifest}{packages}");
    let test = with_frameworks(Step::new("adapters: tests", &test), venv);
    vec![for_pyo3(Step::new("adapters: clippy", &clippy), venv), for_pyo3(test, venv)]
}

/// Lets tests in Rust use ONNX Runtime, which is part of its Python package, and PyTorch.
pub(crate) fn with_frameworks(step: Step, venv: &Venv) -> Step {
    let find = "import glob, onnxruntime, os; \
        print(*glob.glob(os.path.dirname(onnxruntime.__file__) + '/capi/libonnxruntime.so*'))";
    let python = venv.program("python");
    let library = answer(Command::new(&python).args(["-c", find])).unwrap_or_default();
    step.env("ORT_DYLIB_PATH", library.trim())
        .env("DLBRIDGE_PYTHON", python)
        .env("DLBRIDGE_REQUIRE", "1")
}

/// The unit and integration tests of some crates.
fn rust_tests(crates: &[&str], features: &str) -> Step {
    let packages: String = crates.iter().map(|name| format!(" --package {name}")).collect();
    Step::new("Rust tests", &format!("cargo test --lib --bins --tests{packages} {features}"))
}

/// The documentation tests. Those of crates with PyO3 are only compiled.
fn doc_tests(venv: &Venv, packages: &str) -> Step {
    let test = format!("cargo test --doc --all-features {packages}");
    for_pyo3(Step::new("documentation tests", &test), venv)
}

/// mypy's strictest rules, and the stub beside the extension module.
pub(crate) fn types(root: &Path, venv: &Venv) -> [Step; 2] {
    let mypy = "-m mypy --strict --exclude /tests/python|/conformance/tests \
        python/dlbridge conformance/src/dlbridge_conformance tests/gpu";
    let stubtest = "-m mypy.stubtest dlbridge._core --allowlist python/stubtest-allowlist.txt";
    [venv.python("mypy", mypy), on_site(root, venv.python("stubtest", stubtest))]
}

/// Lets a step import the extension modules of [`site`].
pub(crate) fn on_site(root: &Path, step: Step) -> Step {
    step.env("PYTHONPATH", root.join(site::FOLDER))
}

/// The tests of some folders on [`site`], without the longest. The files that run alone go to the list of the Rust tests,
/// because they use one core, which that list leaves free at its end.
fn python_tests(
    root: &Path,
    venv: &Venv,
    folders: &[&str],
    ignored: &[&str],
    rust: &mut Vec<Step>,
) -> Vec<Step> {
    let mut python = Vec::new();
    for folder in folders {
        let tests = pytest(root, venv, folder, &[LONG, ignored].concat(), LEFT_OUT);
        let mut steps = tests.into_iter().map(|step| on_site(root, step));
        python.extend(steps.next());
        rust.extend(steps);
    }
    python
}

/// The tests in Python of a folder: one run over the cores, and a run for each file marked `alone`. A missing library
/// fails, except those in `left_out`.
pub(crate) fn pytest(
    root: &Path,
    venv: &Venv,
    folder: &str,
    ignored: &[&str],
    left_out: &str,
) -> Vec<Step> {
    let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let mut paths: Vec<_> =
        entries.map(|entry| format!("{folder}/{}", entry.file_name().display())).collect();
    paths.sort();
    paths.retain(|path| !ignored.contains(&path.as_str()));
    paths.retain(|path| {
        fs::read_to_string(root.join(path)).is_ok_and(|text| text.contains("pytest.mark.alone"))
    });
    let ignored = ignored.iter().copied().chain(paths.iter().map(String::as_str));
    let ignored: String = ignored.map(|path| format!(" --ignore {path}")).collect();
    // Only a Python without the GIL runs the tests of threads.
    let group = format!(
        "{folder} -n auto --dist loadfile --ignore {folder}/test_free_threaded.py{ignored}"
    );
    let test = |name: &str, what: &str| {
        let pytest = format!("-m pytest --quiet --timeout 600 -p no:cacheprovider {what}");
        venv.python(name, &pytest)
            .env("DLBRIDGE_REQUIRE", "1")
            .env("DLBRIDGE_LEFT_OUT", left_out)
            .env("PYTHONFAULTHANDLER", "1")
            .minutes(60)
    };
    let alone = paths.iter().map(|path| test(path, path));
    [test(folder, &group)].into_iter().chain(alone).collect()
}
