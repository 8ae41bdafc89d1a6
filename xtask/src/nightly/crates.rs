//! The steps of the crates: features, compilers, sanitizers, platforms, dependencies.

use std::path::Path;
use std::process::Command;

use super::{debian, with_tools};
use crate::ci;
use crate::python::{Venv, answer, for_pyo3};
use crate::site::CORE_FEATURES;
use crate::step::{Result, Step};
use crate::test::{adapters, on_site, pytest, with_frameworks};
use crate::tool;

/// Each feature of the crates alone, and none.
pub(super) fn features(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
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
pub(super) fn oldest_rust(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
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
pub(super) fn oldest_dependencies(root: &Path, _: &Venv) -> Result<Vec<Step>> {
    let mut steps = Vec::from(tool(root, "cargo-hack", "0.6.46"));
    steps.extend(tool(root, "cargo-minimal-versions", "0.1.38"));
    // The tool changes the lock.
    let check = "rm -rf target/minimal && git clone --quiet . target/minimal && cd target/minimal && \
        cargo minimal-versions check --direct --package dlbridge --features half,ndarray,image,bytes,memmap2";
    steps.push(with_tools(root, Step::sh("oldest dependencies", check)));
    Ok(steps)
}

/// Documentation that must not compile, with its error codes, and the messages of `docs/troubleshooting.md`.
pub(super) fn compile_errors(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    // Only a nightly compiler compares the codes.
    let doc = "cargo +nightly test --doc --all-features --package dlbridge --package dlbridge-pyo3 \
        --package dlbridge-ops --target-dir target/compile-errors";
    Ok(vec![
        for_pyo3(Step::new("documentation that must not compile", doc), venv),
        for_pyo3(venv.python("messages of the compiler", "xtask/compile_errors.py"), venv),
    ])
}

/// A step with Miri.
pub(super) fn miri(name: &str, arguments: &str, provenance: &str) -> Step {
    let flags = format!("-Zmiri-{provenance}-provenance");
    ci::miri(name, arguments).env("MIRIFLAGS", flags).minutes(180)
}

pub(super) fn miri_operators(_: &Path, _: &Venv) -> Result<Vec<Step>> {
    let test =
        "--lib --tests --package dlbridge-ops --no-default-features --features half,num-complex";
    Ok(vec![miri("miri-operators", test, "strict")])
}

/// The tests of the core that depend on the order of bytes.
pub(super) fn miri_big_endian(_: &Path, _: &Venv) -> Result<Vec<Step>> {
    let test = "--target s390x-unknown-linux-gnu --package dlbridge --test api --features half,num-complex -- \
        import:: elements:: subbyte:: unaligned:: views::";
    Ok(vec![miri("miri-big-endian", test, "strict")])
}

/// Without `ort`, `cuda` and the other devices, whose libraries are not Rust: Miri loads none. `faer` runs under valgrind. The
/// libraries of the second list convert integers to pointers.
pub(super) fn miri_adapters(_: &Path, _: &Venv) -> Result<Vec<Step>> {
    let test = |names: &[&str]| {
        let packages: String =
            names.iter().map(|name| format!(" --package dlbridge-{name}")).collect();
        format!("--manifest-path adapters/Cargo.toml --lib --tests{packages}")
    };
    let strict = test(&["arrow", "kornia", "nalgebra", "rten", "polars", "tract"]);
    let permissive = test(&["burn", "candle"]);
    Ok(vec![
        miri("miri-adapters: strict", &strict, "strict"),
        miri("miri-adapters: permissive", &permissive, "permissive"),
    ])
}

const HOST: &str = "x86_64-unknown-linux-gnu";

/// The core; the adapter of ONNX Runtime, which Miri cannot run; and the extensions of the tests, inside of the frameworks.
pub(super) fn address_sanitizer(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let test =
        format!("cargo +nightly test --lib --tests --target {HOST} --target-dir target/asan-tests");
    let core = Step::new(
        "AddressSanitizer: the core",
        &format!("{test} --package dlbridge --features {CORE_FEATURES}"),
    );
    let ort = format!("{test} --manifest-path adapters/Cargo.toml --package dlbridge-ort");
    let ort = with_frameworks(Step::new("AddressSanitizer: ort", &ort), venv);
    let sanitized = |step: Step| {
        let options = "detect_leaks=1:allocator_may_return_null=1";
        step.env("RUSTFLAGS", "-Zsanitizer=address").env("ASAN_OPTIONS", options)
    };
    let mut steps = Vec::from([core, ort].map(sanitized));
    steps.extend(ci::sanitized_site(venv));
    // The first measures memory, which the sanitizer keeps for a while; the others load libraries that are built without it.
    let ignored = ["leaks", "plain", "two_extensions"];
    let ignored = ignored.map(|name| format!("tests/operators/test_{name}.py"));
    let ignored = ignored.each_ref().map(String::as_str);
    for folder in ["tests/arguments", "tests/operators"] {
        let tests = pytest(root, venv, folder, &ignored, "rust-numpy");
        let named =
            tests.into_iter().map(|step| step.named(|name| format!("AddressSanitizer: {name}")));
        steps.extend(named.map(|step| ci::on_sanitized_site(root, step)));
    }
    Ok(steps)
}

/// The tests of the core that use several threads.
pub(super) fn thread_sanitizer(_: &Path, _: &Venv) -> Result<Vec<Step>> {
    let test = format!(
        "cargo +nightly test -Zbuild-std --target {HOST} --target-dir target/tsan --package dlbridge --lib --test api \
        --features bytes -- threads:: export:: owners:: bytes:: shared:: tensor_ref:: chains:: large_copies:: fork::"
    );
    Ok(vec![Step::new("ThreadSanitizer", &test).env("RUSTFLAGS", "-Zsanitizer=thread").minutes(60)])
}

/// All possible orders of the threads in the registry of borrows.
pub(super) fn loom(_: &Path, _: &Venv) -> Result<Vec<Step>> {
    let test = "cargo test --package dlbridge-borrow --release --lib --target-dir target/loom";
    let step = Step::new("loom", test).env("RUSTFLAGS", "--cfg loom");
    Ok(vec![
        step.env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ])
}

/// The package without frameworks, and the adapter of matrices, whose library the sanitizers build slowly.
pub(super) fn valgrind(root: &Path, venv: &Venv) -> Result<Vec<Step>> {
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
pub(super) fn all_adapters(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
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
pub(super) fn devices(_: &Path, venv: &Venv) -> Result<Vec<Step>> {
    let drivers = "pocl-opencl-icd ocl-icd-libopencl1 mesa-vulkan-drivers libvulkan1";
    let mut steps =
        vec![debian("ls /etc/OpenCL/vendors/*.icd /usr/share/vulkan/icd.d/lvp_icd*", drivers)];
    steps.extend(adapters(venv, &["opencl", "vulkan", "wgpu"]));
    Ok(steps)
}

/// The core on other processors and systems: tested where this machine or an emulator runs it, otherwise compiled.
pub(super) fn platforms(_: &Path, _: &Venv) -> Result<Vec<Step>> {
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
        // The first start thousands of threads, and QEMU keeps memory of each that has ended: 22 GB in the end. The second
        // fork while threads run, which ends QEMU at times by an assertion of its own.
        let skipped = match emulator.starts_with("qemu") {
            true => "-- --skip copy::strided::tests --skip listed::",
            false => "",
        };
        let test = format!(
            "rustup target add {target} && cargo test --target {target} --lib --tests {core} --features {CORE_FEATURES} {skipped}"
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
pub(super) fn dependencies(root: &Path, _: &Venv) -> Result<Vec<Step>> {
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
pub(super) fn vulnerabilities(root: &Path, _: &Venv) -> Result<Vec<Step>> {
    let database = "https://github.com/RustSec/advisory-db";
    answer(Command::new("git").args(["ls-remote", database, "HEAD"]))
        .ok_or_else(|| format!("{database} cannot be reached"))?;
    let mut steps = Vec::from(tool(root, "cargo-deny", "0.20.2"));
    for manifest in ["Cargo.toml", "adapters/Cargo.toml"] {
        let deny = format!("cargo deny --manifest-path {manifest} --all-features check advisories");
        steps.push(with_tools(root, Step::new(format!("vulnerabilities: {manifest}"), &deny)));
    }
    Ok(steps)
}
