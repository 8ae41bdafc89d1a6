//! `cargo xtask nightly`: everything that takes too long for each change, for Linux. `docs/nightly.md` has a row for each
//! step with its last result, which a run writes. Without names, the steps run that have not passed on this commit.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::ci::{self, adapters, fuzz};
use crate::python::{self, Venv, answer};
use crate::step::{Report, Result, Step};
use crate::test::{CORE_FEATURES, LEFT_OUT_OF_CI, for_pyo3, on_site, pytest};
use crate::{site, tool};

const PAGE: &str = "docs/nightly.md";

/// Returns the steps of a name, or the reason why they cannot run here.
type Steps = fn(&Path, &Venv) -> Result<Vec<Step>>;

/// The steps, in the order of the page.
const STEPS: &[(&str, Steps)] = &[
    ("features", features),
    ("oldest-rust", oldest_rust),
    ("oldest-dependencies", oldest_dependencies),
    ("compile-errors", compile_errors),
    ("miri-operators", miri_operators),
    ("miri-big-endian", miri_big_endian),
    ("miri-adapters", miri_adapters),
    ("address-sanitizer", address_sanitizer),
    ("thread-sanitizer", thread_sanitizer),
    ("loom", loom),
    ("valgrind", valgrind),
    ("fuzz", |root, venv| Ok(fuzz(root, venv, 300))),
    ("adapters", all_adapters),
    ("devices", devices),
    ("package", |root, venv| Ok(pytest(root, venv, "tests/python", &[], ""))),
    ("pythons", pythons),
    ("oldest-torch", oldest_torch),
    ("free-threaded", free_threaded),
    ("gpu-stand-in", gpu_stand_in),
    ("examples", examples),
    ("c-examples", c_examples),
    ("getting-started", getting_started),
    ("kit-tests", |root, venv| Ok(pytest(root, venv, "conformance/tests", &[], ""))),
    ("kit", kit),
    ("matrix", |_, venv| script(venv, "matrix", "-m dlbridge_conformance.matrix --quiet")),
    ("findings", |_, venv| script(venv, "findings", "conformance/reports/reproduce.py")),
    ("seeded-faults", |_, venv| script(venv, "seeded-faults", "xtask/seeded_faults.py")),
    ("bench-tests", |_, venv| script(venv, "bench-tests", "-m pytest --quiet bench")),
    ("sizes", |_, venv| script(venv, "sizes", "bench/run.py sizes")),
    ("speed", |_, venv| script(venv, "speed", "bench/run.py speed --quick")),
    ("compare", |_, venv| script(venv, "compare", "bench/run.py compare")),
    ("ports", |_, venv| script(venv, "ports", "bench/run.py ports")),
    ("operators-cost", |_, venv| script(venv, "operators-cost", "bench/run.py operators")),
    ("platforms", platforms),
    ("dependencies", dependencies),
    ("vulnerabilities", vulnerabilities),
    ("release", release),
];

/// Runs the named steps, or those that have not passed on this commit, and writes their rows.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<bool> {
    if let Some(unknown) = names.iter().find(|name| STEPS.iter().all(|(step, _)| step != *name)) {
        let known: Vec<_> = STEPS.iter().map(|(name, _)| *name).collect();
        return Err(format!("no step `{unknown}`; known: {}", known.join(", ")));
    }
    let venv = Venv::new(root, "nightly")?;
    let report = Report::new(root)?;
    // What most steps use.
    let mut begin = vec![ci::nightly_toolchain()];
    begin.extend([".", "conformance"].into_iter().flat_map(|it| venv.installs(it, "--release")));
    begin.extend(site::built(root, &venv));
    if !report.run(begin) {
        return Err("what the steps use could not be built".into());
    }
    let is_wanted = |name: &str| names.contains(&name) || (names.is_empty() && !is_done(name));
    let mut wanted: Vec<_> = STEPS.iter().filter(|(name, _)| is_wanted(name)).collect();
    // First those that did not pass the last time.
    wanted.sort_by_key(|(name, _)| result_of(name).1 == "passed");
    let mut all_ran = true;
    for (name, steps) in wanted {
        println!("\n{name}");
        let result = match steps(root, &venv) {
            Ok(steps) => (if report.run(steps) { "passed" } else { "failed" }).to_owned(),
            Err(reason) => format!("not run: {reason}"),
        };
        all_ran &= !result.starts_with("not run");
        println!("{name}: {result}");
        write_row(name, &result)?;
    }
    Ok(report.summary() && all_ran)
}

/// Returns true if a step passed on a commit that differs from the working tree in the page alone.
fn is_done(name: &str) -> bool {
    let (commit, result) = result_of(name);
    let mut diff = Command::new("git");
    diff.args(["diff", "--quiet", &commit, "--", ".", &format!(":!{PAGE}")]);
    result == "passed" && diff.status().is_ok_and(|status| status.success())
}

/// Returns the commit and the result in the row of a step.
fn result_of(name: &str) -> (String, String) {
    let page = fs::read_to_string(PAGE).unwrap_or_default();
    let start = format!("| {name} |");
    let row = page.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
    let cells: Vec<_> = row.split('|').map(str::trim).collect();
    let [_, _, _, commit, result, _] = cells[..] else { return Default::default() };
    (commit.to_owned(), result.to_owned())
}

/// Writes the page with the new row of a step. The other steps keep their rows.
fn write_row(name: &str, result: &str) -> Result<()> {
    let page = fs::read_to_string(PAGE).map_err(|e| format!("{PAGE}: {e}"))?;
    let head = page.lines().take_while(|line| !line.starts_with("| ---"));
    let mut lines: Vec<_> = head.map(str::to_owned).collect();
    lines.push("| --- | --- | --- | --- |".to_owned());
    for (step, _) in STEPS {
        let start = format!("| {step} |");
        let row = page.lines().find(|line| line.starts_with(&start)).map(str::to_owned);
        lines.push(match row {
            _ if *step == name => format!("{start} {} | {} | {result} |", today(), commit()),
            Some(row) => row,
            None => format!("{start} | | not run |"),
        });
    }
    fs::write(PAGE, lines.join("\n") + "\n").map_err(|e| format!("{PAGE}: {e}"))
}

fn today() -> String {
    let date = answer(Command::new("date").args(["-u", "+%F"])).unwrap_or_default();
    date.trim().to_owned()
}

fn commit() -> String {
    let commit = answer(Command::new("git").args(["rev-parse", "--short=8", "HEAD"]));
    commit.unwrap_or_default().trim().to_owned()
}

/// A step that may take hours.
fn script(venv: &Venv, name: &str, line: &str) -> Result<Vec<Step>> {
    Ok(vec![venv.python(name, line).minutes(360)])
}

/// The kit on all libraries. It ends with 1 because some of them break rules.
fn kit(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let python = venv.program("python");
    let run = "-m dlbridge_conformance --quiet --json target/reports/kit.json";
    let line = format!(
        "mkdir -p target/reports && rm -f target/reports/kit.json && ('{}' {run} || [ $? = 1 ]) && \
        test -s target/reports/kit.json",
        python.display()
    );
    Ok(vec![Step::sh("kit", &line).minutes(360)])
}

/// Installs Debian's packages, unless a command succeeds.
fn debian(unless: &str, packages: &str) -> Step {
    let install = "apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends";
    Step::sh(format!("Debian: {packages}"), &format!("{unless} || ({install} {packages})"))
}

/// Lets a step find the programs of `target/tools`.
fn with_tools(root: &Path, step: Step) -> Step {
    let path = std::env::var("PATH").unwrap_or_default();
    step.env("PATH", format!("{}:{path}", root.join("target/tools/bin").display()))
}

/// Each feature of the crates alone, and none.
fn features(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let mut steps = Vec::from(tool(root, "cargo-hack", "0.6.46"));
    let packages = "--package dlbridge --package dlbridge-pyo3 --package dlbridge-files --package dlbridge-ops";
    let hack = format!("cargo hack clippy --each-feature --no-dev-deps {packages} -- -D warnings");
    steps.push(for_pyo3(with_tools(root, Step::new("each feature", &hack)), venv).minutes(60));
    for (manifest, features) in [
        ("bench/Cargo.toml", "--features extension/dlbridge"),
        ("conformance/crafter/Cargo.toml", ""),
    ] {
        let clippy = format!(
            "cargo clippy --manifest-path {manifest} --workspace {features} --all-targets -- -D warnings"
        );
        steps.push(for_pyo3(Step::new(format!("clippy: {manifest}"), &clippy), venv));
    }
    let bare = "rustup target add thumbv7em-none-eabi && cargo check --package dlbridge --no-default-features \
        --target thumbv7em-none-eabi && cargo test --package dlbridge --no-default-features";
    steps.push(Step::sh("without std", bare));
    Ok(steps)
}

/// The crates with the oldest Rust that they declare.
fn oldest_rust(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let mut steps = Vec::from(tool(root, "cargo-hack", "0.6.46"));
    for manifest in ["Cargo.toml", "adapters/Cargo.toml"] {
        let check = format!(
            "cargo hack check --rust-version --locked --workspace --all-features --ignore-private \
            --manifest-path {manifest} --target-dir target/oldest"
        );
        let step = Step::new(format!("oldest Rust: {manifest}"), &check).minutes(60);
        steps.push(for_pyo3(with_tools(root, step), venv));
    }
    Ok(steps)
}

/// The core with the oldest dependencies that its manifest allows.
fn oldest_dependencies(root: &Path, _: &Venv) -> Result<Vec<Step>> {
    let mut steps = Vec::from(tool(root, "cargo-hack", "0.6.46"));
    steps.extend(tool(root, "cargo-minimal-versions", "0.1.38"));
    // The tool changes the lock.
    let check = "rm -rf target/minimal && git clone --quiet . target/minimal && cd target/minimal && \
        cargo minimal-versions check --direct --package dlbridge --features half,ndarray,image,bytes,memmap2";
    steps.push(with_tools(root, Step::sh("oldest dependencies", check)));
    Ok(steps)
}

/// Documentation that must not compile, with its error codes, and the messages of `docs/troubleshooting.md`.
fn compile_errors(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    // Only a nightly compiler compares the codes.
    let doc = "cargo +nightly test --doc --all-features --package dlbridge --package dlbridge-pyo3 \
        --package dlbridge-ops --target-dir target/compile-errors";
    Ok(vec![
        for_pyo3(Step::new("documentation that must not compile", doc), venv),
        for_pyo3(venv.python("messages of the compiler", "xtask/compile_errors.py"), venv),
    ])
}

/// A step with Miri.
fn miri(name: &str, arguments: &str, provenance: &str) -> Step {
    let flags = format!("-Zmiri-{provenance}-provenance");
    ci::miri(name, arguments).env("MIRIFLAGS", flags).minutes(180)
}

fn miri_operators(_: &Path, _: &Venv) -> Result<Vec<Step>> {
    let test =
        "--lib --tests --package dlbridge-ops --no-default-features --features half,num-complex";
    Ok(vec![miri("miri-operators", test, "strict")])
}

/// The tests of the core that depend on the order of bytes.
fn miri_big_endian(_: &Path, _: &Venv) -> Result<Vec<Step>> {
    let test = "--target s390x-unknown-linux-gnu --package dlbridge --test api --features half,num-complex -- \
        import:: elements:: subbyte:: unaligned:: views::";
    Ok(vec![miri("miri-big-endian", test, "strict")])
}

/// Without `ort`, whose library is not Rust. The libraries of the second list convert integers to pointers.
fn miri_adapters(_: &Path, _: &Venv) -> Result<Vec<Step>> {
    let test = |names: &[&str]| {
        let packages: String =
            names.iter().map(|name| format!(" --package dlbridge-{name}")).collect();
        format!("--manifest-path adapters/Cargo.toml --lib --tests{packages}")
    };
    let strict = test(&["arrow", "kornia", "rten", "polars", "tract"]);
    let permissive = test(&["burn", "candle"]);
    Ok(vec![
        miri("miri-adapters: strict", &strict, "strict"),
        miri("miri-adapters: permissive", &permissive, "permissive"),
    ])
}

const HOST: &str = "x86_64-unknown-linux-gnu";

/// The core, and the adapter of ONNX Runtime, which Miri cannot run.
fn address_sanitizer(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let test =
        format!("cargo +nightly test --lib --tests --target {HOST} --target-dir target/asan-tests");
    let core = Step::new(
        "AddressSanitizer: the core",
        &format!("{test} --package dlbridge --features {CORE_FEATURES}"),
    );
    let ort = format!("{test} --manifest-path adapters/Cargo.toml --package dlbridge-ort");
    let ort = ci::with_frameworks(Step::new("AddressSanitizer: ort", &ort), venv);
    let sanitized = |step: Step| {
        let options = "detect_leaks=1:allocator_may_return_null=1";
        step.env("RUSTFLAGS", "-Zsanitizer=address").env("ASAN_OPTIONS", options)
    };
    Ok([core, ort].map(sanitized).into())
}

/// The tests of the core that use several threads.
fn thread_sanitizer(_: &Path, _: &Venv) -> Result<Vec<Step>> {
    let test = format!(
        "cargo +nightly test -Zbuild-std --target {HOST} --target-dir target/tsan --package dlbridge --lib --test api \
        --features bytes -- threads:: export:: owners:: bytes:: shared:: tensor_ref:: chains:: large_copies:: fork::"
    );
    Ok(vec![Step::new("ThreadSanitizer", &test).env("RUSTFLAGS", "-Zsanitizer=thread").minutes(60)])
}

/// All possible orders of the threads in the registry of borrows.
fn loom(_: &Path, _: &Venv) -> Result<Vec<Step>> {
    let test =
        "cargo test --package dlbridge-borrow --release --test loom --target-dir target/loom";
    let step = Step::new("loom", test).env("RUSTFLAGS", "--cfg loom");
    Ok(vec![
        step.env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ])
}

/// The package without frameworks, and the adapter of matrices, whose library the sanitizers build slowly.
fn valgrind(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let files = ["array_interface", "array_struct", "buffer_export", "import", "import_options"];
    let files: String = files.iter().map(|name| format!(" tests/python/test_{name}.py")).collect();
    let package = format!(
        "valgrind --quiet --error-exitcode=9 --undef-value-errors=no --suppressions=xtask/valgrind.supp \
        {} -m pytest --quiet -p no:cacheprovider{files}",
        venv.program("python").display()
    );
    let runner = "valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect \
        --errors-for-leak-kinds=definite,indirect";
    let adapter = "cargo test --manifest-path adapters/Cargo.toml --package dlbridge-faer --tests";
    Ok(vec![
        debian("command -v valgrind", "valgrind"),
        on_site(root, Step::new("valgrind: the package", &package))
            .env("PYTHONMALLOC", "malloc")
            .minutes(120),
        Step::new("valgrind: faer", adapter)
            .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner)
            .minutes(60),
    ])
}

/// The adapters of libraries.
fn all_adapters(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let names = [
        "arrow", "burn", "candle", "cuda", "faer", "kornia", "nalgebra", "ort", "polars", "rten",
        "tract",
    ];
    let mut steps = adapters(venv, &names);
    let complex = "cargo test --manifest-path adapters/Cargo.toml --package dlbridge-tract --features complex";
    steps.push(Step::new("adapters: tract with complex numbers", complex));
    let doc = "cargo doc --manifest-path adapters/Cargo.toml --workspace --no-deps --all-features";
    steps.push(
        for_pyo3(Step::new("adapters: documentation", doc), venv)
            .env("RUSTDOCFLAGS", "-D warnings"),
    );
    Ok(steps)
}

/// The adapters of devices, on drivers that compute on the CPU.
fn devices(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let drivers = "pocl-opencl-icd ocl-icd-libopencl1 mesa-vulkan-drivers libvulkan1";
    let mut steps =
        vec![debian("ls /etc/OpenCL/vendors/*.icd /usr/share/vulkan/icd.d/lvp_icd*", drivers)];
    steps.extend(adapters(venv, &["opencl", "vulkan", "wgpu"]));
    Ok(steps)
}

/// The package with each Python of this machine that `cargo xtask ci` does not test.
fn pythons(root: &Path, _: &Venv) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let newest = python::newest().map(|(version, _)| version);
    for version in &python::VERSIONS[1..] {
        if newest == Some(*version) {
            continue;
        }
        let Some(python) = python::find(version) else { continue };
        let venv = Venv::of(root, &format!(".venv-{version}"), &python, "ci")?;
        steps.extend([".", "conformance"].map(|project| venv.installs_built(project)));
        let tests = pytest(root, &venv, "tests/python", &[], LEFT_OUT_OF_CI).into_iter();
        steps.extend(tests.map(|step| step.named(|name| format!("Python {version}: {name}"))));
    }
    if steps.is_empty() { Err("no other Python was found".into()) } else { Ok(steps) }
}

/// The operators with the oldest PyTorch that they support.
fn oldest_torch(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
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
fn free_threaded(root: &Path, _: &Venv) -> Result<Vec<Step>> {
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
fn gpu_stand_in(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
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
fn examples(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
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

/// The examples in C by the commands of their README, with an older `dlpack.h`, which TensorFlow has, under the sanitizers
/// and under valgrind.
fn c_examples(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let mut steps = vec![debian("command -v valgrind", "valgrind")];
    for name in ["c_consumer", "c_producer"] {
        let compile = format!(
            "-std=c11 -Wall -Wextra -Werror -pedantic -g -I $DLPACK_INCLUDE examples/{name}/main.c \
            target/debug/lib{name}.a -lpthread -ldl -lm -o target/{name}"
        );
        let script = format!(
            "sed -n 's/^\\$ //p' examples/{name}/README.md > target/{name}.sh && \
            test -s target/{name}.sh && bash -e target/{name}.sh && \
            cc -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only examples/{name}/main.c \
            -I \"$(echo .venv/lib/python3*/site-packages/tensorflow/include/external/dlpack/include)\" && \
            cc -fsanitize=address,undefined -fno-sanitize-recover=all {compile} && target/{name} && \
            cc {compile} && valgrind --quiet --error-exitcode=1 --leak-check=full target/{name}"
        );
        steps.push(Step::sh(name, &script).env("CARGO_TARGET_DIR", "target"));
    }
    Ok(steps.into_iter().map(|step| ci::with_header(step, venv)).collect())
}

/// The pages for newcomers, each followed in an empty folder.
fn getting_started(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let pages =
        ["python", "rust", "pyo3", "c"].map(|name| format!("docs/getting-started/{name}.md"));
    let pages = pages.into_iter().chain(["examples/template/README.md".to_owned()]);
    Ok(pages
        .map(|page| venv.python(page.clone(), &format!("xtask/walkthrough.py {page}")))
        .collect())
}

/// The core on other processors and systems: tested where this machine or an emulator runs it, otherwise compiled.
fn platforms(_: &Path, _: &Venv) -> Result<Vec<Step>> {
    let core = "--package dlbridge-sys --package dlbridge --package dlbridge-borrow --package dlbridge-files";
    let packages = "gcc-i686-linux-gnu libc6-dev-i386-cross gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
        gcc-riscv64-linux-gnu libc6-dev-riscv64-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user \
        gcc-mingw-w64-x86-64";
    let mut steps = vec![debian("command -v s390x-linux-gnu-gcc qemu-s390x", packages)];
    for (target, system, emulator) in [
        (
            "i686-unknown-linux-gnu",
            "i686-linux-gnu",
            "/usr/i686-linux-gnu/lib/ld-linux.so.2 --library-path",
        ),
        ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu", "qemu-aarch64 -L"),
        ("riscv64gc-unknown-linux-gnu", "riscv64-linux-gnu", "qemu-riscv64 -L"),
        ("s390x-unknown-linux-gnu", "s390x-linux-gnu", "qemu-s390x -L"),
    ] {
        let folder = if emulator.ends_with("path") {
            format!("/usr/{system}/lib")
        } else {
            format!("/usr/{system}")
        };
        let variable =
            |what: &str| format!("CARGO_TARGET_{}_{what}", target.to_uppercase().replace('-', "_"));
        let test = format!(
            "rustup target add {target} && cargo test --target {target} --lib --tests {core} --features {CORE_FEATURES}"
        );
        let step = Step::sh(target, &test).env("CARGO_TARGET_DIR", "target/platforms").minutes(120);
        let step = step.env(&variable("LINKER"), format!("{system}-gcc"));
        steps.push(
            step.env(&variable("RUNNER"), format!("{emulator} {folder}"))
                .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1"),
        );
    }
    for target in [
        "x86_64-pc-windows-gnu",
        "x86_64-pc-windows-msvc",
        "aarch64-apple-darwin",
        "x86_64-apple-darwin",
        "aarch64-linux-android",
        "armv7-unknown-linux-gnueabihf",
        "wasm32-unknown-unknown",
        "wasm32-wasip1",
    ] {
        let check = format!("rustup target add {target} && cargo check --target {target} {core}");
        steps.push(Step::sh(target, &check).env("CARGO_TARGET_DIR", "target/platforms"));
    }
    Ok(steps)
}

/// The licences, sources and versions of the dependencies, and the licences in the wheels.
fn dependencies(root: &Path, _: &Venv) -> Result<Vec<Step>> {
    let mut steps = Vec::from(tool(root, "cargo-deny", "0.20.2"));
    // It compares texts, which takes minutes without optimisation.
    let about = tool(root, "cargo-about", "0.9.3 --features cli").into_iter();
    steps.extend(about.map(|step| step.env("CARGO_PROFILE_DEV_OPT_LEVEL", "2")));
    // Libraries of the tests and the adapters need different versions of the same crates; the package must not.
    for (manifest, check) in [
        ("Cargo.toml", "licenses sources"),
        ("adapters/Cargo.toml", "licenses sources"),
        ("crates/dlbridge-python/Cargo.toml --exclude-dev", "bans"),
    ] {
        let deny = format!(
            "cargo deny --manifest-path {manifest} --all-features check --hide-inclusion-graph {check}"
        );
        steps.push(with_tools(root, Step::new(format!("cargo-deny: {check}: {manifest}"), &deny)));
    }
    let about = "cargo about generate --locked --manifest-path crates/dlbridge-python/Cargo.toml --config xtask/about.toml \
        xtask/about.hbs > target/LICENSE-THIRD-PARTY && diff target/LICENSE-THIRD-PARTY LICENSE-THIRD-PARTY";
    steps.push(with_tools(root, Step::sh("cargo-about", about)));
    Ok(steps)
}

/// Known vulnerabilities of the dependencies, by a database on GitHub.
fn vulnerabilities(root: &Path, _: &Venv) -> Result<Vec<Step>> {
    let mut steps = Vec::from(tool(root, "cargo-deny", "0.20.2"));
    for manifest in ["Cargo.toml", "adapters/Cargo.toml"] {
        let deny = format!("cargo deny --manifest-path {manifest} --all-features check advisories");
        steps.push(with_tools(root, Step::new(format!("vulnerabilities: {manifest}"), &deny)));
    }
    Ok(steps)
}

/// What a release does, without the uploads.
fn release(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
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
        // Each processor and each C library once; the workflow of a release builds all.
        for (target, library) in [
            ("x86_64-unknown-linux-gnu", "manylinux_2_17"),
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
