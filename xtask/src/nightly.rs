//! The steps that need the nightly toolchain: Rust tests under Miri and the sanitizers, which detect undefined
//! behaviour and leaks; doc tests that compare error codes; the oldest versions of dependencies; fuzzing.

use std::env;
use std::process::Command;

use crate::python::Venv;
use crate::steps::{Begun, Finished, Steps, in_ci};
use crate::{Result, Workplace, crates, discard, pins, process, workplace};

/// The target that this machine runs natively and that has sanitizers.
const HOST: &str = "x86_64-unknown-linux-gnu";

/// A target with the other byte order, for Miri.
const BIG_ENDIAN: &str = "s390x-unknown-linux-gnu";

/// The subjects of the core's tests that depend on the byte order.
const BYTE_ORDER_TESTS: &[&str] =
    &["import::", "elements::", "subbyte::", "unaligned::", "safetensors::", "views::"];

/// The features of these tests. The others take most of the build.
const BYTE_ORDER_FEATURES: &str = "half,num-complex,safetensors";

/// The subjects of the core's tests that use a tensor in several threads.
const THREAD_TESTS: &[&str] =
    &["threads::", "export::", "owners::", "bytes::", "shared::", "tensor_ref::", "chains::"];

/// The features of these tests.
const THREAD_FEATURES: &str = "bytes";

/// The adapters of libraries under Miri, with strict provenance. Miri cannot run ONNX Runtime, which is not Rust.
const STRICT: &[&str] =
    &["dlbridge-arrow", "dlbridge-kornia", "dlbridge-rten", "dlbridge-polars", "dlbridge-tract"];

/// Such adapters whose libraries also convert integers to pointers themselves.
const PERMISSIVE: &[&str] = &["dlbridge-burn", "dlbridge-candle"];

/// The fuzz target that embeds Python.
const FUZZED_WITH_PYTHON: &str = "arrow";

/// The target directory of the sanitizers and of doc tests: with a target, their macros and build scripts are the same.
const SANITIZED: &str = "nightly";

/// The fuzz target that only `cargo xtask fuzz` runs, because its dependencies take minutes to build. The parser is safe
/// code, but that of flatbuffers below it is not.
const FUZZED_ALONE: &str = "arrow_ipc";

/// The subjects of the core's doc tests that must not compile.
const MUST_NOT_COMPILE: &[&str] = &["must_not_compile", "view/raw.rs", "tensor/raw/owner.rs"];

/// The time for new inputs of a fuzz target, in seconds.
pub(crate) const FUZZ_SECONDS: u32 = 10;

/// Begins the steps that need the nightly toolchain and no Python, in two processes beside the other steps: one would
/// be the last to end, alone on two cores.
pub(crate) fn begin(steps: &mut Steps, workplace: &Workplace) -> Vec<Begun> {
    let mut ready = false;
    steps.try_run("the nightly toolchain", || {
        with(workplace, &[], |_| Ok(()))
            .inspect(|finished| ready = matches!(finished, Finished::Passed))
    });
    if !ready && !steps.counting() {
        return Vec::new();
    }
    // Tried here too, so that the summary shows the steps that the other process skips.
    steps.try_run("Miri and the sources of std", || with(workplace, MIRI, |_| Ok(())));
    let mut begin = |name: &str, option: &str| {
        steps.begin(name, || {
            let xtask =
                env::current_exe().map_err(|e| format!("the path of xtask is unknown: {e}"))?;
            let log = workplace.target.join(format!("nightly{option}.txt"));
            process::beside(workplace.command(xtask).args(["test", option]), log)
        })
    };
    let begun = [begin("under Miri", "--miri"), begin("sanitizers and fuzzing", "--sanitizers")];
    begun.into_iter().flatten().collect()
}

/// The components of the nightly toolchain that Miri needs.
const MIRI: &[&str] = &["miri", "rust-src"];

/// Runs the tests under Miri.
pub(crate) fn run_miri(steps: &mut Steps, workplace: &Workplace) {
    steps.try_run("Miri", || with(workplace, MIRI, miri));
    steps.try_run("Miri, big-endian", || with(workplace, MIRI, miri_big_endian));
    steps.try_run("Miri: operators", || with(workplace, MIRI, miri_operators));
}

/// Runs the tests of the adapters of libraries under Miri. Their libraries take minutes to build.
pub(crate) fn run_miri_of_adapters(steps: &mut Steps, workplace: &Workplace) {
    steps.try_run("Miri: adapters of libraries", || with(workplace, MIRI, miri_adapters));
}

/// Runs the other steps that need no Python.
pub(crate) fn run_sanitizers(steps: &mut Steps, workplace: &Workplace) {
    steps.try_run("AddressSanitizer", || with(workplace, &[], address_sanitizer));
    steps.try_run("ThreadSanitizer", || with(workplace, &["rust-src"], thread_sanitizer));
    steps.try_run("what must not compile", || with(workplace, &[], compile_fail));
    steps.try_run("minimal versions", || with(workplace, &[], minimal_versions));
    discard::folder(steps, workplace, "minimal-target");
    fuzz_each(steps, workplace, &fuzz_targets(workplace), FUZZ_SECONDS);
}

/// Runs each fuzz target, with a number of seconds for new inputs.
pub(crate) fn run_fuzzing(steps: &mut Steps, workplace: &Workplace, seconds: u32) -> Option<()> {
    fuzz_each(steps, workplace, &fuzz_targets(workplace), seconds);
    fuzz_each(steps, workplace, &[FUZZED_ALONE.to_owned()], seconds);
    let mut venv = Venv::of(workplace);
    steps.need(".venv", || venv.ready())?;
    fuzz_with_python(steps, workplace, &venv, seconds);
    Some(())
}

/// Runs some fuzz targets that need no Python.
fn fuzz_each(steps: &mut Steps, workplace: &Workplace, targets: &[String], seconds: u32) {
    for target in targets {
        steps.try_run(&format!("fuzzing: {target}"), || {
            with(workplace, &[], |workplace| fuzz(workplace, target, None, seconds))
        });
    }
}

/// Runs the steps that also need Python.
pub(crate) fn with_python(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    steps.try_run("what must not compile with PyO3", || {
        with(workplace, &[], |workplace| compile_fail_with_pyo3(workplace, venv))
    });
    steps.if_time(|steps| fuzz_with_python(steps, workplace, venv, FUZZ_SECONDS));
}

/// Runs the fuzz target that embeds Python.
fn fuzz_with_python(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>, seconds: u32) {
    steps.try_run(&format!("fuzzing: {FUZZED_WITH_PYTHON}"), || {
        const HAS_LIBRARY: &str = "import os, sysconfig; \
            assert os.path.exists(os.path.join(*map(sysconfig.get_config_var, ('LIBDIR', 'LDLIBRARY'))))";
        if !in_ci() && !process::succeeds(venv.python().args(["-c", HAS_LIBRARY])) {
            return Ok(Finished::Notice(
                "Python's own library, which the target links, is missing; on Debian and Ubuntu, install the package libpython3-dev"
                    .to_owned(),
            ));
        }
        with(workplace, &[], |workplace| fuzz(workplace, FUZZED_WITH_PYTHON, Some(venv), seconds))
    });
}

/// Runs the tests of the adapter of ONNX Runtime, which Miri cannot run, under AddressSanitizer.
pub(crate) fn with_onnx_runtime(steps: &mut Steps, workplace: &Workplace, venv: &Venv<'_>) {
    steps.try_run("AddressSanitizer: dlbridge-ort", || {
        with(workplace, &[], |workplace| {
            let test = |what: &[&str]| {
                let mut test = workplace.cargo(&["+nightly", "test", "--package", "dlbridge-ort"]);
                test.args(["--target", HOST, "--target-dir"]).arg(workplace.target.join(SANITIZED));
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

/// Runs a step if the nightly toolchain has the components that it needs. CI installs missing components.
pub(crate) fn with(
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
            return Err("the nightly toolchain is missing; install it with `rustup toolchain install nightly`".into());
        }
        process::run(add.args(components))?;
    } else if missing() {
        let of_components = components.iter().map(|name| format!(" --component {name}"));
        return Ok(Finished::Notice(format!(
            "the nightly toolchain or one of its components is missing; `rustup toolchain install nightly{}` adds it",
            of_components.collect::<String>()
        )));
    }
    step(workplace)?;
    Ok(Finished::Passed)
}

/// Returns a nightly `cargo` command for the core with all features, with its own target directory.
fn nightly(workplace: &Workplace, directory: &str, arguments: &[&str]) -> Command {
    let mut cargo = nightly_with(workplace, directory, arguments);
    cargo.arg("--all-features");
    cargo
}

/// Returns a nightly `cargo` command for the core like [`nightly`], with the default features.
fn nightly_with(workplace: &Workplace, directory: &str, arguments: &[&str]) -> Command {
    let mut cargo = workplace.cargo(&["+nightly"]);
    cargo.args(arguments).args(["--package", "dlbridge"]);
    cargo.arg("--target-dir").arg(workplace.target.join(directory));
    cargo
}

/// Runs the tests of the core and its CPU adapters, and of the fork-safe locks under Miri, with strict provenance. The
/// registry of borrows is safe code.
fn miri(workplace: &Workplace) -> Result<()> {
    let mut test = nightly(workplace, "miri", &["miri", "test", "--lib", "--tests"]);
    test.args(["--package", "dlbridge-fork"]);
    process::run_for_hours(test.env("MIRIFLAGS", "-Zmiri-strict-provenance"))
}

fn miri_operators(workplace: &Workplace) -> Result<()> {
    miri_of(workplace, crates::OPERATORS, "-Zmiri-strict-provenance")
}

fn miri_adapters(workplace: &Workplace) -> Result<()> {
    miri_of(workplace, &packages(STRICT), "-Zmiri-strict-provenance")?;
    miri_of(workplace, &packages(PERMISSIVE), "-Zmiri-permissive-provenance")
}

/// Returns Cargo's arguments for some packages.
fn packages<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names.iter().flat_map(|name| ["--package", name]).collect()
}

fn miri_of(workplace: &Workplace, packages: &[&str], flags: &str) -> Result<()> {
    let mut test = workplace.cargo(&["+nightly", "miri", "test", "--lib", "--tests"]);
    test.args(packages).arg("--target-dir").arg(workplace.target.join("miri"));
    process::run_for_hours(test.env("MIRIFLAGS", flags))
}

fn miri_big_endian(workplace: &Workplace) -> Result<()> {
    let arguments = ["miri", "test", "--test", "api", "--target", BIG_ENDIAN];
    let mut test = nightly_with(workplace, "miri", &arguments);
    test.args(["--features", BYTE_ORDER_FEATURES, "--"]).args(BYTE_ORDER_TESTS);
    process::run_for_hours(test.env("MIRIFLAGS", "-Zmiri-strict-provenance"))
}

fn address_sanitizer(workplace: &Workplace) -> Result<()> {
    let arguments = ["test", "--lib", "--tests", "--target", HOST];
    let mut test = nightly(workplace, SANITIZED, &arguments);
    // A failed allocation must return an error, as without the sanitizer, which would end the process.
    test.env("RUSTFLAGS", "-Zsanitizer=address")
        .env("ASAN_OPTIONS", "detect_leaks=1:allocator_may_return_null=1");
    process::run(&mut test)
}

/// Runs the tests under ThreadSanitizer, and builds the standard library with it, so that it is checked too.
fn thread_sanitizer(workplace: &Workplace) -> Result<()> {
    let arguments = ["test", "--lib", "--test", "api", "-Zbuild-std", "--target", HOST];
    let mut test = nightly_with(workplace, SANITIZED, &arguments);
    test.args(["--features", THREAD_FEATURES, "--"]).args(THREAD_TESTS);
    process::run(test.env("RUSTFLAGS", "-Zsanitizer=thread"))?;
    let mut test = workplace.cargo(&["+nightly", "test", "-Zbuild-std", "--target", HOST]);
    test.args(["--package", "dlbridge-fork", "--lib", "--target-dir"]);
    process::run(test.arg(workplace.target.join(SANITIZED)).env("RUSTFLAGS", "-Zsanitizer=thread"))
}

/// Runs the doc tests of the core that must not compile: only a nightly compiler compares the error codes. The flags are
/// those of the build for AddressSanitizer, which is used again.
fn compile_fail(workplace: &Workplace) -> Result<()> {
    let mut test = nightly(workplace, SANITIZED, &["test", "--doc", "--target", HOST]);
    test.env("RUSTFLAGS", "-Zsanitizer=address").env("RUSTDOCFLAGS", "-Zsanitizer=address");
    process::run(test.arg("--").args(MUST_NOT_COMPILE))
}

/// Runs the doc tests for the arguments of extensions and for operators. A stable compiler would also accept a link
/// error as the expected failure, because a doc test finds no interpreter to link.
fn compile_fail_with_pyo3(workplace: &Workplace, venv: &Venv<'_>) -> Result<()> {
    let mut test = venv.cargo(&["+nightly", "test", "--doc", "--all-features"]);
    test.args(["--package", "dlbridge-pyo3", "--package", "dlbridge-ops"]);
    test.arg("--target-dir").arg(workplace.target.join(SANITIZED));
    process::run(test.args(["--", "must_not_compile"]))
}

/// Checks the core with the oldest versions of its dependencies that its manifest allows.
fn minimal_versions(workplace: &Workplace) -> Result<()> {
    minimal_versions_of(workplace, "dlbridge", "crates/dlbridge", &[], |arguments| {
        workplace.cargo(arguments)
    })
}

/// Checks a crate with the oldest versions of its dependencies that its manifest allows, except those in `raised`.
/// `cargo` returns the commands.
pub(crate) fn minimal_versions_of(
    workplace: &Workplace,
    name: &str,
    folder: &str,
    raised: &[(&str, &str)],
    cargo: impl Fn(&[&str]) -> Command,
) -> Result<()> {
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
    let text = raised.iter().fold(text, |text, (name, version)| raise(&text, name, version));
    std::fs::write(&manifest, alone(&text, folder)?).map_err(failed)?;
    let target = workplace.target.join("minimal-target");
    let run = |arguments: &[&str]| {
        let mut cargo = cargo(arguments);
        process::run(cargo.arg("--manifest-path").arg(&manifest).env("CARGO_TARGET_DIR", &target))
    };
    run(&["+nightly", "update", "-Zdirect-minimal-versions"])?;
    run(&["+nightly", "check", "--package", name, "--all-features"])
}

/// Returns a manifest with another version of a dependency.
fn raise(manifest: &str, name: &str, version: &str) -> String {
    let start = format!("{name} = ");
    let line = |line: &str| match line.split('"').collect::<Vec<_>>()[..] {
        [before, old, ..] if line.starts_with(&start) => {
            line.replacen(&format!("{before}\"{old}"), &format!("{before}\"{version}"), 1)
        }
        _ => line.to_owned(),
    };
    manifest.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the workspace's manifest with one crate, and those of its dependencies that are in the workspace, as the only
/// members: other members need newer versions of the same libraries.
fn alone(manifest: &str, folder: &str) -> Result<String> {
    const PACKAGE: &str = "[workspace.package]";
    let (_, rest) =
        manifest.split_once(PACKAGE).ok_or("the manifest has no [workspace.package]")?;
    Ok(format!("[workspace]\nresolver = \"3\"\nmembers = [\"{folder}\"]\n\n{PACKAGE}{rest}"))
}

/// Returns the names of the fuzz targets that need no Python, except the one that only `cargo xtask fuzz` runs.
fn fuzz_targets(workplace: &Workplace) -> Vec<String> {
    let directory = workplace.root.join("fuzz/fuzz_targets");
    let files = workplace::names(&directory);
    let names = files.iter().filter_map(|name| name.strip_suffix(".rs"));
    let others = names.filter(|name| ![FUZZED_WITH_PYTHON, FUZZED_ALONE].contains(name));
    others.map(str::to_owned).collect()
}

/// Runs a fuzz target: first the committed corpus, then new inputs.
fn fuzz(workplace: &Workplace, target: &str, venv: Option<&Venv<'_>>, seconds: u32) -> Result<()> {
    let root = workplace.target.join("tools");
    let tool = root.join("bin").join("cargo-fuzz");
    if !tool.is_file() {
        // It only starts other programs, so it needs no optimisation.
        let install = ["install", "--locked", "--quiet", "--debug", "--force", pins::CARGO_FUZZ];
        let mut install = workplace.cargo(&install);
        // Two processes of `cargo xtask test --all` may install it at the same time.
        let built = root.join(format!("target-cargo-fuzz-{}", std::process::id()));
        install.arg("--target-dir").arg(&built).env("CARGO_PROFILE_DEV_DEBUG", "0");
        process::run(install.arg("--root").arg(&root))?;
        let _ = std::fs::remove_dir_all(built);
    }
    let found = workplace.target.join("fuzz-found").join(target);
    std::fs::create_dir_all(&found).map_err(|e| format!("{}: {e}", found.display()))?;
    let mut fuzz = workplace.command(tool);
    fuzz.env("RUSTUP_TOOLCHAIN", "nightly").arg("run");
    if venv.is_some() || seconds <= FUZZ_SECONDS {
        // An optimised build runs five times as fast, but takes longer to build.
        fuzz.arg("--dev");
    }
    fuzz.args(["--no-default-features", "--features"]).arg(match target {
        FUZZED_WITH_PYTHON => "python",
        FUZZED_ALONE => "arrow-ipc",
        _ => "files,safetensors",
    });
    if let Some(venv) = venv {
        fuzz.env("PYO3_PYTHON", venv.program("python")).env_remove("PYO3_BUILD_EXTENSION_MODULE");
    }
    fuzz.arg(target).arg(&found);
    fuzz.arg(workplace.root.join("fuzz/corpus").join(target));
    fuzz.args(["--", &format!("-max_total_time={seconds}")]);
    process::run(fuzz.env("CARGO_TARGET_DIR", workplace.target.join("fuzz")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_of_a_dependency_is_raised() {
        let manifest = "a = \"1.0\"\nb = { version = \"1.0\", features = [\"c\"] }\nbc = \"1.0\"";
        let raised = raise(&raise(manifest, "a", "1.2"), "b", "1.3");
        assert_eq!(
            raised,
            "a = \"1.2\"\nb = { version = \"1.3\", features = [\"c\"] }\nbc = \"1.0\""
        );
    }

    #[test]
    fn filters_match_every_doc_test_that_must_not_compile() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut folders = vec![root.join("crates/dlbridge/src")];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if std::fs::read_to_string(&path).unwrap().contains("```compile_fail") {
                    found.push(path.display().to_string().replace('\\', "/"));
                }
            }
        }
        let matches = |filter: &str| found.iter().filter(|path| path.contains(filter)).count();
        assert_eq!(
            MUST_NOT_COMPILE.iter().map(|filter| matches(filter)).sum::<usize>(),
            found.len()
        );
        assert!(MUST_NOT_COMPILE.iter().all(|filter| matches(filter) == 1), "{found:?}");
    }

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
