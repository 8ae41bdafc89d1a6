//! The steps of the Python package, the examples and the kit; a release.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::debian;
use crate::ci;
use crate::python::{self, Venv, answer, for_pyo3};
use crate::step::{Report, Result, Step};
use crate::test::{LEFT_OUT_OF_CI, on_site, pytest};

/// The package with each Python of this machine that `cargo xtask ci` does not test, and exits with daemon threads in typed
/// arguments and operators with all but the oldest.
pub(super) fn pythons(root: &Path, _: &Venv) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let newest = python::newest().map(|(version, _)| version);
    for version in &python::VERSIONS[1..] {
        let Some(python) = python::find(version) else { continue };
        let venv = Venv::of(root, &format!(".venv-{version}"), &python, "ci")?;
        let exits = "-m pytest --quiet -p no:cacheprovider -k daemon \
            tests/arguments/test_daemon_threads.py tests/operators/test_numpy.py";
        steps.push(on_site(root, venv.python(format!("Python {version}: daemon threads"), exits)));
        if newest == Some(*version) {
            continue;
        }
        steps.extend([".", "conformance"].map(|project| venv.installs_built(project)));
        let tests = pytest(root, &venv, "tests/python", &[], LEFT_OUT_OF_CI).into_iter();
        steps.extend(tests.map(|step| step.named(|name| format!("Python {version}: {name}"))));
    }
    if steps.is_empty() { Err("no other Python was found".into()) } else { Ok(steps) }
}

/// The operators with the oldest PyTorch that they support.
pub(super) fn oldest_torch(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let oldest = Venv::of(root, ".venv-oldest-torch", &venv.program("python"), "ci")?;
    let mut steps = vec![oldest.pip("torch==2.10.0")];
    for file in [
        "test_torch.py",
        "test_torch_gradients.py",
        "test_torch_loading.py",
        "test_torch_tracing.py",
    ] {
        let test = format!("-m pytest --quiet -p no:cacheprovider tests/operators/{file}");
        steps.push(on_site(root, oldest.python(format!("oldest PyTorch: {file}"), &test)));
    }
    Ok(steps)
}

/// The wheels for a Python without the GIL, and the tests of threads.
pub(super) fn free_threaded(root: &Path, _: &Venv) -> Result<Vec<Step>> {
    let path = "import sys; print(sys.executable)";
    let find = |name: &&str| answer(Command::new(name).args(["-c", path]));
    let python = ["python3.14t", "python3.15t"]
        .iter()
        .find_map(find)
        .ok_or("needs python3.14t or python3.15t")?;
    let venv = Venv::of(root, ".venv-free-threaded", python.trim().as_ref(), "demo")?;
    let mut steps = vec![venv.pip("ml_dtypes pandas pillow pyarrow pytest")];
    for (project, features) in
        [(".", "--features free-threaded"), ("conformance", ""), ("tests/arguments", "")]
    {
        steps.extend(venv.installs(project, &format!("--release {features}")));
    }
    for folder in ["tests/python", "tests/arguments"] {
        steps.push(
            venv.python(folder, &format!("-m pytest --quiet {folder}/test_free_threaded.py")),
        );
    }
    Ok(steps)
}

/// The suite for GPUs on the stand-in for CUDA's driver.
pub(super) fn gpu_stand_in(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    Ok(vec![
        ci::stand_in(),
        gpu_suite(venv, "driver").arg("--stand-in").arg("target/gpu/libcuda.so.1"),
    ])
}

/// The suite for GPUs with one library. A crash of its process fails one test.
fn gpu_suite(venv: &Venv, library: &str) -> Step {
    let tests = format!(
        "-m pytest -p no:cacheprovider -n 1 --timeout 900 tests/gpu --library {library} --junitxml target/gpu/{library}.xml"
    );
    // JAX would reserve most of a device's memory.
    venv.python(format!("gpu: {library}"), &tests).env("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
}

/// Runs the suite for GPUs on this machine, with the libraries that are in `.venv`.
pub(crate) fn gpu_test(root: &Path, report: &Report) -> Result<()> {
    let venv = Venv::new(root, "test")?;
    let wheels = [".", "conformance"].into_iter().flat_map(|it| venv.installs(it, "--release"));
    let mut steps: Vec<_> = wheels.collect();
    let find = "import ctypes; ctypes.CDLL('libcuda.so.1')";
    if answer(Command::new(venv.program("python")).args(["-c", find])).is_some() {
        steps.extend(["driver", "torch", "cupy", "numba", "jax"].map(|it| gpu_suite(&venv, it)));
        steps.push(venv.python("gpu: timings", "tests/gpu/timings.py"));
    } else {
        println!("no driver of CUDA was found: the suite runs on a stand-in, which is not a GPU");
        steps.extend(gpu_stand_in(root, &venv)?);
    }
    report.run(steps);
    Ok(())
}

/// The wheel and the tests of each example in Python; the template's stub; the source distribution.
pub(super) fn examples(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let entries = fs::read_dir(root.join("examples")).map_err(|e| e.to_string())?.flatten();
    let with_wheel = entries.filter(|entry| entry.path().join("pyproject.toml").exists());
    let mut names: Vec<_> = with_wheel.map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let folder = format!("examples/{}", name.display());
        steps.extend(venv.installs(&folder, "--profile dev"));
        let tests =
            format!("-m pytest --quiet -p no:cacheprovider -p examples.no_skips {folder}/tests");
        steps.push(venv.python(folder, &tests).env("DLBRIDGE_REQUIRE", "1"));
    }
    let maturin = format!("'{}'", venv.program("maturin").display());
    let stub = format!(
        "cd examples/template && {maturin} generate-stubs --features stubs --locked --out ../../target/stubs && \
        diff ../../target/stubs/template/__init__.pyi template.pyi"
    );
    steps.push(Step::sh("the template's stub", &stub).env("VIRTUAL_ENV", root.join(".venv")));
    let sdist = format!(
        "rm -rf target/sdist && {maturin} sdist --out target/sdist && .venv/bin/python -m ensurepip && \
        .venv/bin/python -m pip wheel --quiet --no-deps --wheel-dir target/sdist target/sdist/*.tar.gz"
    );
    let sdist =
        Step::sh("the source distribution", &sdist).env("MATURIN_PEP517_ARGS", "--profile dev");
    steps.push(sdist.env("CARGO_TARGET_DIR", root.join("target")));
    Ok(steps)
}

/// The examples in C by the commands of their README, under the sanitizers and under valgrind; and they and the program for
/// newcomers with an older `dlpack.h`, which TensorFlow has.
pub(super) fn c_examples(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let mut steps = vec![debian("command -v valgrind", "valgrind")];
    for name in ["c_consumer", "c_producer"] {
        let compile = format!(
            "-std=c11 -Wall -Wextra -Werror -pedantic -g -I $DLPACK_INCLUDE examples/{name}/main.c \
            target/debug/lib{name}.a -lpthread -ldl -lm -o target/{name}"
        );
        let script = format!(
            "sed -n 's/^\\$ //p' examples/{name}/README.md > target/{name}.sh && \
            test -s target/{name}.sh && bash -e target/{name}.sh && \
            cc -fsanitize=address,undefined -fno-sanitize-recover=all {compile} && target/{name} && \
            cc {compile} && valgrind --quiet --error-exitcode=1 --leak-check=full target/{name}"
        );
        steps.push(Step::sh(name, &script).env("CARGO_TARGET_DIR", "target"));
    }
    let older = "sed -n '/^```c$/,/^```$/{//!p}' docs/getting-started/c.md > target/page.c && test -s target/page.c && \
        cc -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only examples/c_*/main.c target/page.c \
        -I \"$(echo .venv/lib/python3*/site-packages/tensorflow/include/external/dlpack/include)\"";
    steps.push(Step::sh("an older dlpack.h", older));
    Ok(steps.into_iter().map(|step| ci::with_header(step, venv)).collect())
}

/// The pages for newcomers, each followed in an empty folder.
pub(super) fn getting_started(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let pages =
        ["python", "rust", "pyo3", "c"].map(|name| format!("docs/getting-started/{name}.md"));
    let pages = pages.into_iter().chain(["examples/template/README.md".to_owned()]);
    Ok(pages
        .map(|page| venv.python(page.clone(), &format!("xtask/walkthrough.py {page}")))
        .collect())
}

/// The kit on all libraries. It ends with 1 because some of them break rules.
pub(super) fn kit(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let python = venv.program("python");
    let run = "-m dlbridge_conformance --quiet --json target/reports/kit.json";
    let line = format!(
        "mkdir -p target/reports && rm -f target/reports/kit.json && ('{}' {run} || [ $? = 1 ]) && \
        test -s target/reports/kit.json",
        python.display()
    );
    Ok(vec![Step::sh("kit", &line).minutes(360)])
}

/// What a release does, without the uploads.
pub(super) fn release(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let tools = Venv::of(root, ".venv-release", &venv.program("python"), "release")?;
    let program = |name: &str| format!("'{}'", tools.program(name).display());
    let publish = "cargo publish --workspace --dry-run --locked --target-dir target/publish";
    let mut steps = vec![for_pyo3(Step::new("the crates", publish), venv).minutes(90)];
    steps.push(Step::sh("an empty folder", "rm -rf target/release-wheels"));
    for (project, out) in
        [(".", "target/release-wheels"), ("conformance", "../target/release-wheels")]
    {
        let maturin = format!("'{}'", venv.program("maturin").display());
        let sdist = format!("cd {project} && {maturin} sdist --out {out}");
        steps.push(Step::sh(format!("source distribution: {project}"), &sdist));
        // All, because the workflow of a release uploads what this step leaves.
        for (target, library) in [
            ("x86_64-unknown-linux-gnu", "manylinux_2_17"),
            ("aarch64-unknown-linux-gnu", "manylinux_2_17"),
            ("x86_64-unknown-linux-musl", "musllinux_1_2"),
            ("aarch64-unknown-linux-musl", "musllinux_1_2"),
        ] {
            let build = format!(
                "rustup target add {target} && cd {project} && {maturin} build --release --locked --zig \
                --target {target} --compatibility {library} --out {out}"
            );
            let path = std::env::var("PATH").unwrap_or_default();
            let path = format!("{}:{path}", root.join(".venv-release/bin").display());
            let step =
                Step::sh(format!("wheel of {project} for {target}"), &build).env("PATH", path);
            steps.push(step.minutes(60));
        }
    }
    let (twine, abi3audit) = (program("twine"), program("abi3audit"));
    let files = "target/release-wheels";
    let check =
        format!("{twine} check --strict {files}/* && {abi3audit} --strict --report {files}/*.whl");
    steps.push(Step::sh("the wheels", &check));
    Ok(steps)
}
