//! What needs the nightly toolchain: Rust tests where mistakes show themselves, under Miri and the sanitizers; a compiler that
//! compares error codes; the oldest versions of dependencies; fuzzing.

use std::env;
use std::process::Command;

use crate::python::Venv;
use crate::steps::{Begun, Finished, Steps, in_ci};
use crate::{Result, Workplace, crates, pins, process, workplace};

/// The target that this machine runs natively and that has sanitizers.
const HOST: &str = "x86_64-unknown-linux-gnu";

/// A machine with the other byte order, for Miri.
const BIG_ENDIAN: &str = "s390x-unknown-linux-gnu";

/// The subjects of the core's tests that depend on the byte order.
const BYTE_ORDER_TESTS: &[&str] =
    &["import::", "elements::", "subbyte::", "unaligned::", "safetensors::", "views::"];

/// Those with tensors that several threads use.
const THREAD_TESTS: &[&str] = &["threads::", "export::", "owners::", "bytes::"];

/// The adapter of matrices that has unsafe code, under AddressSanitizer. Miri would take minutes to build faer.
const ADAPTERS: &[&str] = &["dlbridge-faer"];

/// The adapters of libraries under Miri, with pointers that must keep where they come from. ONNX Runtime is not Rust.
const STRICT: &[&str] =
    &["dlbridge-arrow", "dlbridge-kornia", "dlbridge-polars", "dlbridge-rten", "dlbridge-tract"];

/// Those whose libraries make pointers of integers themselves.
const PERMISSIVE: &[&str] = &["dlbridge-burn", "dlbridge-candle"];

/// The fuzz target that runs Python inside.
const FUZZED_WITH_PYTHON: &str = "arrow";

/// How long a fuzz target looks for something new, in seconds.
const FUZZ_SECONDS: &str = "20";

/// Begins what needs the nightly toolchain and nothing of Python, in a process beside all else.
pub(crate) fn begin(steps: &mut Steps, workplace: &Workplace) -> Option<Begun> {
    let mut ready = false;
    steps.try_run("the nightly toolchain", || {
        with(workplace, &[], |_| Ok(()))
            .inspect(|finished| ready = matches!(finished, Finished::Passed))
    });
    if !ready && !steps.counting() {
        return None;
    }
    // Said here too, so that what is left out beside stands in the summary.
    steps.try_run("Miri and the sources of std", || {
        with(workplace, &["miri", "rust-src"], |_| Ok(()))
    });
    steps.begin("with the nightly toolchain", || {
        let xtask = env::current_exe().map_err(|e| format!("xtask does not know itself: {e}"))?;
        let log = workplace.target.join("nightly.txt");
        process::beside(workplace.command(xtask).args(["test", "--nightly"]), log)
    })
}

/// All of it that needs no Python.
pub(crate) fn run(steps: &mut Steps, workplace: &Workplace) {
    let miri_parts = ["miri", "rust-src"];
    steps.try_run("Miri", || with(workplace, &miri_parts, miri));
    steps.try_run("Miri, big-endian", || with(workplace, &miri_parts, miri_big_endian));
    steps
        .try_run("Miri: the adapters of libraries", || with(workplace, &miri_parts, miri_adapters));
    steps.try_run("AddressSanitizer", || with(workplace, &[], address_sanitizer));
    steps.try_run("ThreadSanitizer", || with(workplace, &["rust-src"], thread_sanitizer));
    steps.try_run("what must not compile", || with(workplace, &[], compile_fail));
    steps.try_run("minimal versions", || with(workplace, &[], minimal_versions));
    for target in fuzz_targets(workplace) {
        steps.try_run(&format!("fuzzing: {target}"), || {
            with(workplace, &[], |workplace| fuzz(workplace, &target, None))
        });
    }
}

/// What needs Python too.
pub(crate) fn with_python(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    steps.try_run("what must not compile with PyO3", || {
        with(workplace, &[], |workplace| compile_fail_with_pyo3(workplace, venv))
    });
    steps.try_run(&format!("fuzzing: {FUZZED_WITH_PYTHON}"), || {
        const HAS_LIBRARY: &str = "import os, sysconfig; \
            assert os.path.exists(os.path.join(*map(sysconfig.get_config_var, ('LIBDIR', 'LDLIBRARY'))))";
        if !in_ci() && !process::succeeds(venv.python().args(["-c", HAS_LIBRARY])) {
            return Ok(Finished::Notice(
                "Python's own library, which the target links, is not there; on Debian and Ubuntu the package libpython3-dev has it"
                    .to_owned(),
            ));
        }
        with(workplace, &[], |workplace| fuzz(workplace, FUZZED_WITH_PYTHON, Some(venv)))
    });
}

/// The adapter of ONNX Runtime, which Miri cannot run.
pub(crate) fn with_onnx_runtime(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    steps.try_run("AddressSanitizer: dlbridge-ort", || {
        with(workplace, &[], |workplace| {
            let test = |what: &[&str]| {
                let mut test = workplace.cargo(&["+nightly", "test", "--package", "dlbridge-ort"]);
                test.args(["--target", HOST, "--target-dir"]).arg(workplace.target.join("asan"));
                test.env("RUSTFLAGS", "-Zsanitizer=address")
                    .env("RUSTDOCFLAGS", "-Zsanitizer=address")
                    .env("ASAN_OPTIONS", "detect_leaks=1:allocator_may_return_null=1");
                crates::with_frameworks(&mut test, venv)?;
                process::run(test.args(what))
            };
            test(&["--lib", "--tests"])?;
            // Only this compiler compares the error codes.
            test(&["--doc", "must_not_compile"])
        })
    });
}

/// Runs a step if the nightly toolchain has what it needs; in CI it is made to have it.
fn with(
    workplace: &Workplace,
    components: &[&str],
    step: impl Fn(&Workplace) -> Result<()>,
) -> Result<Finished> {
    let installed = || {
        let mut list = workplace.command("rustup");
        list.args(["component", "list", "--toolchain", "nightly", "--installed"]);
        process::answer(&mut list)
    };
    let missing = || {
        let Some(installed) = installed() else { return true };
        components.iter().any(|wanted| !installed.lines().any(|line| line.starts_with(wanted)))
    };
    if missing() && in_ci() {
        let mut add = workplace.command("rustup");
        add.args(["component", "add", "--toolchain", "nightly"]);
        if components.is_empty() {
            return Err("there is no nightly toolchain".into());
        }
        process::run(add.args(components))?;
    } else if missing() {
        let of_components = components.iter().map(|name| format!(" --component {name}"));
        return Ok(Finished::Notice(format!(
            "the nightly toolchain is not there, or lacks something; `rustup toolchain install nightly{}` adds it",
            of_components.collect::<String>()
        )));
    }
    step(workplace)?;
    Ok(Finished::Passed)
}

/// The tests of the core under a nightly `cargo`, in a directory of their own.
fn nightly(workplace: &Workplace, directory: &str, arguments: &[&str]) -> Command {
    let mut cargo = workplace.cargo(&["+nightly"]);
    cargo.args(arguments).args(["--package", "dlbridge", "--all-features"]);
    cargo.arg("--target-dir").arg(workplace.target.join(directory));
    cargo
}

/// The core and its CPU adapters, the registry of borrows, and the locks that are safe over forks, with pointers that must keep where
/// they come from.
fn miri(workplace: &Workplace) -> Result<()> {
    let mut test = nightly(workplace, "miri", &["miri", "test", "--lib", "--tests"]);
    test.args(["--package", "dlbridge-borrow", "--package", "dlbridge-fork"]);
    process::run(test.env("MIRIFLAGS", "-Zmiri-strict-provenance"))
}

fn miri_adapters(workplace: &Workplace) -> Result<()> {
    let test = |packages: &[&str], flags| {
        let mut cargo = workplace.cargo(&["+nightly", "miri", "test", "--lib", "--tests"]);
        cargo.args(packages.iter().flat_map(|package| ["--package", package]));
        cargo.arg("--target-dir").arg(workplace.target.join("miri-adapters"));
        process::run(cargo.env("MIRIFLAGS", flags))
    };
    test(STRICT, "-Zmiri-strict-provenance")?;
    test(PERMISSIVE, "-Zmiri-permissive-provenance")
}

fn miri_big_endian(workplace: &Workplace) -> Result<()> {
    let arguments = ["miri", "test", "--test", "api", "--target", BIG_ENDIAN];
    let mut test = nightly(workplace, "miri", &arguments);
    test.arg("--").args(BYTE_ORDER_TESTS);
    process::run(test.env("MIRIFLAGS", "-Zmiri-strict-provenance"))
}

fn address_sanitizer(workplace: &Workplace) -> Result<()> {
    let arguments = ["test", "--lib", "--tests", "--target", HOST];
    let mut test = nightly(workplace, "asan", &arguments);
    test.args(ADAPTERS.iter().flat_map(|name| ["--package", name]));
    // An allocation that is refused must fail as it does without the sanitizer, which would end the process.
    test.env("RUSTFLAGS", "-Zsanitizer=address")
        .env("ASAN_OPTIONS", "detect_leaks=1:allocator_may_return_null=1");
    process::run(&mut test)
}

/// The standard library is built anew: it must be watched, too.
fn thread_sanitizer(workplace: &Workplace) -> Result<()> {
    let arguments = ["test", "--test", "api", "-Zbuild-std", "--target", HOST];
    let mut test = nightly(workplace, "tsan", &arguments);
    test.arg("--").args(THREAD_TESTS);
    process::run(test.env("RUSTFLAGS", "-Zsanitizer=thread"))?;
    let mut test = workplace.cargo(&["+nightly", "test", "-Zbuild-std", "--target", HOST]);
    test.args(["--package", "dlbridge-fork", "--lib", "--target-dir"]);
    process::run(test.arg(workplace.target.join("tsan")).env("RUSTFLAGS", "-Zsanitizer=thread"))
}

/// Only this compiler compares the error codes, wherever in the docs they stand.
fn compile_fail(workplace: &Workplace) -> Result<()> {
    process::run(&mut nightly(workplace, "nightly", &["test", "--doc"]))
}

/// The same for the arguments of extensions. Another compiler would also take it for a refusal that
/// a documentation test finds no interpreter to link.
fn compile_fail_with_pyo3(workplace: &Workplace, venv: &Venv<'_>) -> Result<()> {
    let arguments = ["+nightly", "test", "--package", "dlbridge-pyo3", "--doc", "--all-features"];
    let mut test = venv.cargo(&arguments);
    test.arg("--target-dir").arg(workplace.target.join("nightly"));
    process::run(test.args(["--", "must_not_compile"]))
}

/// The oldest versions of its dependencies that the core says it works with.
fn minimal_versions(workplace: &Workplace) -> Result<()> {
    let copy = workplace.target.join("minimal");
    let _ = std::fs::remove_dir_all(&copy);
    let failed = |e: std::io::Error| format!("{}: {e}", copy.display());
    std::fs::create_dir_all(&copy).map_err(failed)?;
    let mut archive = workplace.command("git");
    let tar = copy.join("source.tar");
    process::run(archive.args(["archive", "--format=tar", "HEAD", "-o"]).arg(&tar))?;
    process::run(workplace.command("tar").arg("-xf").arg(&tar).arg("-C").arg(&copy))?;
    let manifest = copy.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).map_err(failed)?;
    std::fs::write(&manifest, core_alone(&text)?).map_err(failed)?;
    let target = workplace.target.join("minimal-target");
    let cargo = |arguments: &[&str]| {
        let mut cargo = workplace.cargo(arguments);
        process::run(cargo.arg("--manifest-path").arg(&manifest).env("CARGO_TARGET_DIR", &target))
    };
    cargo(&["+nightly", "update", "-Zdirect-minimal-versions"])?;
    cargo(&["+nightly", "check", "--package", "dlbridge", "--all-features"])
}

/// The workspace's manifest with the core as its only member: other members want newer versions of the same libraries.
fn core_alone(manifest: &str) -> Result<String> {
    const PACKAGE: &str = "[workspace.package]";
    let (_, rest) =
        manifest.split_once(PACKAGE).ok_or("the manifest has no [workspace.package]")?;
    let members = r#"members = ["crates/dlbridge-sys", "crates/dlbridge"]"#;
    Ok(format!("[workspace]\nresolver = \"3\"\n{members}\n\n{PACKAGE}{rest}"))
}

/// The names of the fuzz targets that need no Python.
fn fuzz_targets(workplace: &Workplace) -> Vec<String> {
    let directory = workplace.root.join("fuzz/fuzz_targets");
    let files = workplace::names(&directory);
    let names = files.iter().filter_map(|name| name.strip_suffix(".rs"));
    names.filter(|name| *name != FUZZED_WITH_PYTHON).map(str::to_owned).collect()
}

/// The committed corpus first, then something new.
fn fuzz(workplace: &Workplace, target: &str, venv: Option<&Venv<'_>>) -> Result<()> {
    let root = workplace.target.join("tools");
    let tool = root.join("bin").join("cargo-fuzz");
    if !tool.is_file() {
        // It only starts other programs, so it need not be optimised.
        let install = ["install", "--locked", "--quiet", "--debug", pins::CARGO_FUZZ];
        let mut install = workplace.cargo(&install);
        install.arg("--target-dir").arg(root.join("target"));
        process::run(install.arg("--root").arg(&root))?;
    }
    let found = workplace.target.join("fuzz-found").join(target);
    std::fs::create_dir_all(&found).map_err(|e| format!("{}: {e}", found.display()))?;
    let mut fuzz = workplace.command(tool);
    fuzz.env("RUSTUP_TOOLCHAIN", "nightly").arg("run");
    if let Some(venv) = venv {
        // Optimised it runs five times as fast, but takes twice as long to build.
        fuzz.args(["--dev", "--no-default-features", "--features", "python"]);
        fuzz.env("PYO3_PYTHON", venv.program("python")).env_remove("PYO3_BUILD_EXTENSION_MODULE");
    }
    fuzz.arg(target).arg(&found);
    fuzz.arg(workplace.root.join("fuzz/corpus").join(target));
    fuzz.args(["--", &format!("-max_total_time={FUZZ_SECONDS}")]);
    process::run(fuzz.env("CARGO_TARGET_DIR", workplace.target.join("fuzz")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter that no test matches would pass.
    #[test]
    fn subjects_of_the_core_exist() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let main = std::fs::read_to_string(root.join("crates/dlbridge/tests/api/main.rs")).unwrap();
        for subject in BYTE_ORDER_TESTS.iter().chain(THREAD_TESTS) {
            let module = format!("\nmod {};", subject.strip_suffix("::").unwrap());
            assert!(main.contains(&module), "{subject}");
        }
    }
}
