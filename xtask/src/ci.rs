//! `cargo xtask ci`: README's test, the checks of the sources, and all other steps that a change must pass. A fixed list,
//! for Linux.

use std::path::Path;
use std::process::Command;

use crate::python::{self, Venv, answer, for_pyo3};
use crate::site::CORE_FEATURES;
use crate::step::{Report, Result, Step};
use crate::test::{self, LEFT_OUT_OF_CI, adapters, on_site, pytest};
use crate::tool;

/// The adapters that every change is tested with. `cargo xtask nightly` tests all.
const ADAPTERS: &[&str] = &["arrow", "polars", "candle", "ort", "cuda"];

/// The fuzz targets that need no Python.
pub(crate) const FUZZ_TARGETS: &[&str] =
    &["checkpoint", "gguf", "import", "layout", "npy", "npz", "safetensors"];

/// The crates that Miri runs, which a test program can link.
const MIRI: &str =
    "--lib --tests --package dlbridge --package dlbridge-borrow --package dlbridge-files";

/// Runs all steps.
pub(crate) fn run(root: &Path, report: &Report) -> Result<()> {
    report.run(test::formatting(root));
    test::run(root, report)?;
    let lint = Venv::new(root, "lint")?;
    let venv = Venv::new(root, "ci")?;
    let mut rust = vec![nightly_toolchain()];
    rust.push(miri("Miri", &format!("{MIRI} --features {CORE_FEATURES}")));
    let layout = "cargo test --package dlbridge-sys --lib --tests -- --include-ignored";
    rust.push(with_header(Step::new("the layout of dlpack.h", layout), &venv));
    rust.extend(fuzz(root, &venv, 30));
    rust.extend(adapters(&venv, ADAPTERS));
    rust.extend(address_sanitizer(root, &venv));
    rust.extend([test::clippy(&venv, "--workspace"), documentation(&venv)]);
    rust.extend(book(root, &lint));
    let mut python = package(root, &venv)?;
    for example in ["operators", "image_pipeline"] {
        python.extend(venv.installs(&format!("examples/{example}"), "--profile dev"));
    }
    python.extend(template(&venv));
    python.extend(operators(root, &venv));
    python.extend(beside_rust_numpy(root, &venv));
    python.extend(kit(&venv));
    python.extend(budgets(&venv));
    python.extend(test::types(root, &venv));
    python.extend(lint_steps(&lint));
    report.beside(vec![rust, python]);
    Ok(())
}

/// Runs the checks of the sources: formatting, clippy, documentation, workflows, links and imports.
pub(crate) fn lint(root: &Path, report: &Report) -> Result<()> {
    let venv = Venv::new(root, "lint")?;
    report.run(test::formatting(root));
    report.run([test::clippy(&venv, "--workspace"), documentation(&venv)]);
    report.run(lint_steps(&venv));
    Ok(())
}

fn lint_steps(venv: &Venv) -> Vec<Step> {
    let program = |name: &str, line: &str| Step::of(name, &venv.program(name), line);
    let schema = |name: &str, files: &str| {
        let check = format!(
            "'{}' --builtin-schema {name} {files}",
            venv.program("check-jsonschema").display()
        );
        Step::sh(format!("check-jsonschema: {name}"), &check)
    };
    vec![
        // Without the programs that some machines have.
        program("actionlint", "-shellcheck= -pyflakes="),
        program("zizmor", "--offline --no-progress --pedantic .github"),
        schema("vendor.github-workflows", ".github/workflows/*.yml"),
        schema("vendor.github-actions", ".github/actions/*/action.yml"),
        schema("vendor.dependabot", ".github/dependabot.yml"),
        Step::sh(
            "lychee",
            &format!(
                "'{}' --offline --include-fragments --no-progress *.md docs {{crates,adapters,examples,tests}}/*/README.md \
                {{conformance,examples}}/README.md",
                venv.program("lychee").display()
            ),
        ),
        program("lint-imports", "--no-cache").env("PYTHONPATH", "python:conformance/src"),
    ]
}

/// The documentation of all crates, without warnings.
fn documentation(venv: &Venv) -> Step {
    let doc = Step::new("documentation", "cargo doc --workspace --no-deps --all-features");
    for_pyo3(doc, venv).env("RUSTDOCFLAGS", "-D warnings")
}

/// The book, by mdBook. A chapter without a paragraph fails, and a link that leads nowhere.
pub(crate) fn book(root: &Path, lint: &Venv) -> Vec<Step> {
    let mut steps =
        Vec::from(tool(root, "mdbook", "0.5.4 --no-default-features --features search"));
    let empty = "empty=$(grep -rLE '^[^#[:space:]]' docs --include='*.md' || true); test -z \"$empty\" || \
        { echo \"chapters without text: $empty\"; exit 1; }";
    steps.push(Step::sh("the chapters of the book", empty));
    steps.push(Step::new("the book", "target/tools/bin/mdbook build").needed());
    let links = "--offline --include-fragments --no-progress target/book";
    let lychee = lint.program("lychee");
    steps.push(Step::of("the links of the book", &lychee, links));
    steps
}

/// The nightly toolchain with what Miri and the sanitizers need.
pub(crate) fn nightly_toolchain() -> Step {
    let install = "rustup run nightly rustc --version || rustup toolchain install nightly --profile minimal; \
        rustup component add --toolchain nightly miri rust-src";
    Step::sh("nightly toolchain", install).needed()
}

/// Tests under Miri.
pub(crate) fn miri(name: &str, arguments: &str) -> Step {
    let test = format!("cargo +nightly miri test --target-dir target/miri {arguments}");
    Step::new(name, &test).env("MIRIFLAGS", "-Zmiri-strict-provenance").minutes(60)
}

/// The fuzz targets, each for so many seconds after its corpus.
pub(crate) fn fuzz(root: &Path, venv: &Venv, seconds: u32) -> Vec<Step> {
    let mut steps = Vec::from(tool(root, "cargo-fuzz", "0.13.1"));
    let one = |target: &str, features: &str| {
        let found = format!("target/fuzz-found/{target}");
        // An optimised build runs five times as fast, but takes longer to build.
        let dev = if seconds <= 60 { "--dev" } else { "" };
        let fuzz = format!(
            "mkdir -p {found} && cargo +nightly fuzz run {dev} --no-default-features --features {features} \
            --target-dir target/fuzz {target} {found} fuzz/corpus/{target} -- -max_total_time={seconds}"
        );
        let path = format!(
            "{}:{}",
            root.join("target/tools/bin").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let step = Step::sh(format!("fuzz: {target}"), &fuzz).env("PATH", path);
        step.env("PYO3_PYTHON", venv.program("python")).minutes(u64::from(seconds) / 60 + 15)
    };
    steps.extend(FUZZ_TARGETS.iter().map(|target| one(target, "files")));
    steps.push(one("arrow", "python"));
    steps
}

/// Lets a step find `dlpack.h`, which tvm-ffi's Python package has.
pub(crate) fn with_header(step: Step, venv: &Venv) -> Step {
    let find = "import os, tvm_ffi; print(os.path.dirname(tvm_ffi.__file__))";
    let folder = answer(Command::new(venv.program("python")).args(["-c", find]));
    step.env("DLPACK_INCLUDE", Path::new(folder.unwrap_or_default().trim()).join("include"))
}

/// The wheels of the release, and their tests with the newest Python and all frameworks.
fn package(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for project in [".", "conformance"] {
        steps.extend(venv.installs(project, "--release"));
    }
    let (version, python) = python::newest()
        .ok_or("no Python from 3.11 to 3.13 was found, for which the frameworks have wheels")?;
    let newest = Venv::of(root, &format!(".venv-{version}"), &python, "ci")?;
    steps.extend([".", "conformance"].map(|project| newest.installs_built(project)));
    steps.extend(pytest(root, &newest, "tests/python", &[], LEFT_OUT_OF_CI));
    Ok(steps)
}

/// The extension that users copy.
fn template(venv: &Venv) -> Vec<Step> {
    let tests = "-m pytest --quiet -p no:cacheprovider examples/template/tests";
    let tests = venv.python("examples/template", tests).env("DLBRIDGE_REQUIRE", "1");
    venv.installs("examples/template", "--profile dev").into_iter().chain([tests]).collect()
}

/// The operators in each framework, and those of a library without Python.
fn operators(root: &Path, venv: &Venv) -> Vec<Step> {
    let plain = "cargo build --package operators --no-default-features --target-dir target/plain";
    let mut steps = vec![Step::new("operators without Python", plain)];
    let library = root.join("target/plain/debug/liboperators.so");
    let tests = pytest(root, venv, "tests/operators", &[], LEFT_OUT_OF_CI);
    steps.extend(
        tests.into_iter().map(|step| on_site(root, step).env("DLBRIDGE_PLAIN_OPERATORS", &library)),
    );
    steps
}

/// Typed arguments beside an extension built on rust-numpy, which has the same registry of borrows.
fn beside_rust_numpy(root: &Path, venv: &Venv) -> [Step; 2] {
    let tests = "-m pytest --quiet -p no:cacheprovider tests/arguments/test_beside_rust_numpy.py \
        tests/arguments/test_rust_numpy.py tests/arguments/test_fork.py tests/arguments/test_borrows.py \
        tests/arguments/test_exporting_class.py tests/arguments/test_daemon_threads.py -p examples.no_skips";
    let tests = on_site(root, venv.python("beside rust-numpy", tests)).env("DLBRIDGE_REQUIRE", "1");
    let modules = root.join("target/bench/modules");
    [
        venv.python("an extension built on rust-numpy", "bench/run.py build rust-numpy").needed(),
        tests.env("DLBRIDGE_RUST_NUMPY", modules),
    ]
}

/// The conformance kit on dlbridge, which must break no rule, and on NumPy.
fn kit(venv: &Venv) -> [Step; 2] {
    let on = |name: &str, known: &str| {
        venv.python(
            format!("kit: {name}"),
            &format!("-m dlbridge_conformance {name} --quiet{known}"),
        )
    };
    [on("dlbridge", ""), on("numpy", " --known-failures conformance/numpy-known-failures.txt")]
}

/// The instructions of frequent calls, which callgrind counts, and the sizes of extensions.
fn budgets(venv: &Venv) -> [Step; 2] {
    let valgrind =
        "command -v valgrind || (apt-get update --quiet && apt-get install --quiet --yes valgrind)";
    [
        Step::sh("valgrind", valgrind),
        venv.python("instruction budgets", "bench/run.py instructions"),
    ]
}

/// Five files of tests under AddressSanitizer. The night runs all.
fn address_sanitizer(root: &Path, venv: &Venv) -> Vec<Step> {
    let tests = "-m pytest --quiet -p no:cacheprovider tests/arguments/test_arguments.py \
        tests/arguments/test_borrows.py tests/arguments/test_results.py tests/operators/test_numpy.py \
        tests/operators/test_torch.py";
    let run = on_sanitized_site(root, venv.python("AddressSanitizer", tests));
    sanitized_site(venv).into_iter().chain([run]).collect()
}

/// Builds `target/asan-site`: `target/site` with the extension modules under AddressSanitizer.
pub(crate) fn sanitized_site(venv: &Venv) -> [Step; 3] {
    let target = "x86_64-unknown-linux-gnu";
    // In two builds, as for `site`.
    let build = |packages: &str| {
        let build =
            format!("cargo +nightly build --target {target} --target-dir target/asan {packages}");
        for_pyo3(Step::new(format!("AddressSanitizer: {packages}"), &build), venv)
            .env("RUSTFLAGS", "-Zsanitizer=address -Zexternal-clangrt")
            .needed()
    };
    let site = format!(
        "rm -rf target/asan-site && cp -r target/site target/asan-site && cd target/asan/{target}/debug && \
        cp lib_core.so ../../../asan-site/dlbridge/_core.abi3.so && \
        cp libtyped_arguments.so ../../../asan-site/typed_arguments/_native.abi3.so && \
        cp liboperators.so ../../../asan-site/operators.abi3.so"
    );
    [
        build("--package dlbridge-python"),
        build("--package typed_arguments --package operators"),
        Step::sh("AddressSanitizer: target/asan-site", &site).needed(),
    ]
}

/// Lets tests use `target/asan-site`, with the runtime of AddressSanitizer in Python.
pub(crate) fn on_sanitized_site(root: &Path, tests: Step) -> Step {
    let library = |name: &str| {
        answer(Command::new("gcc").arg(format!("-print-file-name={name}"))).unwrap_or_default()
    };
    let (asan, cpp) = (library("libasan.so"), library("libstdc++.so.6"));
    // Otherwise pytest keeps the report of an error that ends the process.
    tests
        .arg("--capture=sys")
        .env("LD_PRELOAD", format!("{} {}", asan.trim(), cpp.trim()))
        .env("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1")
        .env("PYTHONPATH", root.join("target/asan-site"))
}

/// The stand-in for the driver of CUDA, which the suite for GPUs uses if the machine has none.
pub(crate) fn stand_in() -> Step {
    let compile = "mkdir -p target/gpu && cc -shared -fPIC -pthread -Wl,-soname,libcuda.so.1 \
        -o target/gpu/libcuda.so.1 tests/python/cuda_driver.c";
    Step::sh("stand-in for CUDA", compile)
}
