//! The command line: its tasks and options, and the text of `help`.

use crate::test::Tests;
use crate::{Result, bench, demo, gpu, nightly, pins, platforms, ports, wheels};

const USAGE: &str = "\
cargo xtask demo [--with NAMES] [--out DIR]
    Makes .venv, installs its packages, builds, and runs examples/image_pipeline.
    --with NAMES  frameworks to install first, separated by commas, or `all`: {frameworks}
    --out DIR     the folder for the images; `out` by default

cargo xtask lint
    Checks the formatting, the links, the table of unsafe code, the imports, the workflows of .github, clippy with each
    set of features, and the documentation.

cargo xtask test [--package NAME | --all | --rest | --nightly | --miri | --miri-adapters |
                  --sanitizers | --kit | --python VERSION]
    Runs the steps that most changes must pass: formatting, lints and Rust tests of the core, and the Python
    tests of the package and of typed arguments, against the most common frameworks.
    --package NAME  only one crate, such as dlbridge-pyo3 or arrow: its lints, its tests in Rust and in Python
    --all           everything: also Miri, sanitizers, fuzzing, documentation, C examples, all adapters, all
                    frameworks, the conformance kit
    --nightly       only the steps of --all that need the nightly toolchain and no Python, and --miri-adapters
    --rest          the steps of --all that --nightly does not have
    --miri          the part of --all that uses Miri
    --miri-adapters     the adapters of libraries under Miri, which --all leaves out
    --sanitizers    the rest of --nightly
    --kit           only the tests of the conformance kit
    --python VERSION    only the tests of the package, with another Python (3.13) and the last built wheel

cargo xtask fuzz [--seconds NUMBER]
    Runs every fuzz target: first its corpus, then new inputs for this time (10 seconds), at most 1500.

cargo xtask msrv
    Compiles each crate with the oldest Rust that it declares, and the core for a target without std.

cargo xtask wheels [--from DIR]
    Builds the wheels of the package and of the conformance kit for this machine, in
    target/wheels/release, checks their metadata, stable ABI and files, installs them in an environment of
    their own, and exchanges a tensor with NumPy.
    --from DIR    builds nothing, and takes the wheels in a folder, which must have this version

cargo xtask free-threaded
    Builds the wheels for a Python without the GIL, which PYTHON names, such as python3.14t, and runs the tests of
    threads with it.

cargo xtask workflows
    Checks the files of .github: each `cargo xtask` line against the command line, the names of jobs, steps, inputs and
    artifacts, then schemas and security.

cargo xtask compare
    Builds the functions of peers/ with dlbridge and with its peers, runs them on the same
    inputs, and writes the tables of docs/comparison.md.

cargo xtask ports [--check | --render] [--only NAMES]
    Ports third-party extensions from rust-numpy to dlbridge, runs their own tests with both versions,
    measures both, and writes docs/ports.md. Fails if a port is worse than the original.
    --check       prints the results and does not write the page
    --render      only writes the page, from the stored results
    --only NAMES  some of the extensions, separated by commas; prints the results and does not write the page

cargo xtask operators
    Builds the operators of tests/operators, and the same with the headers of PyTorch, JAX and tvm-ffi, measures them
    in one process, and writes docs/operators-cost.md. Needs a C++ compiler, which CXX names.

cargo xtask bench [--quick | --render | --instructions [--write] | --build [--write]]
    Builds benches/ with dlbridge and its peers, measures everything two times, and writes
    docs/benchmarks.md with its plot, and benches/results.json.
    --quick         measures briefly, and does not write the page
    --render        only writes the page, from the stored results
    --instructions  only counts instructions, and fails if a row exceeds its budget
    --build         only builds the template and the same extension on peers, and writes docs/wheel-size.md
    --write         stores the counts as the budgets, or with --build the sizes of dlbridge's extensions, which
                    `cargo xtask test --all` compares

cargo xtask gpu-test [--quick] [--only NAMES] [--json FILE]
    Builds the wheel and checks it on this machine's NVIDIA GPU with tests/gpu. Without a GPU, prints that and
    uses a stand-in for the driver, whose result does not count for a GPU. The interpreter is the one that
    PYTHON names, with its installed libraries, or that of .venv.
    --quick       fewer repeats, and smaller copies
    --only NAMES  some of driver, torch, cupy, numba, jax and timings, separated by commas
    --json FILE   a file for the results

cargo xtask book
    Checks the links of README, CONTRIBUTING, SECURITY and docs/, installs mdBook in target/tools, and builds the book of docs/ in target/book.
    A warning is an error.

cargo xtask seeded-faults [--check]
    Makes one fault after another in a copy of the last commit, and writes the rules of the conformance
    kit that detect each one to docs/conformance-faults.md. Fails if a fault is not detected.
    --check       does not write the page

cargo xtask layers
    Prints the modules of each crate with their imports, and fails if some import each other.

cargo xtask bump VERSION
    Writes the version into every manifest, lock file and command of a page, and dates the unreleased changes of
    CHANGELOG.md. Refuses a version older than the current one, except candidates of one that was not released.

cargo xtask repository URL
    Writes the address of the repository, https://HOST/OWNER/NAME, into the manifests of the published crates, the Python
    projects, CODEOWNERS, and the links that PyPI shows. docs/releasing.md has the use.

cargo xtask release --dry-run
    Does everything that a release does except the upload, in a clone of the last commit: checks versions, metadata,
    licences and compatibility, builds every crate from its package, builds and checks the wheels and source
    distributions, and lists the artefacts of target/release-artifacts with sizes and SHA-256. Takes one to two hours.

cargo xtask publish-crates
    Uploads the crates that crates.io does not have in this version, in the commit of its tag. The workflow of a release
    calls it; docs/releasing.md has the use by hand.

cargo xtask platforms [--layout] [--only TARGETS]
    Compiles the core for other processors and systems, runs its tests with emulators, compares the layout of dlpack.h
    on each, and writes the table of docs/platforms.md. Installs what it needs by rustup and apt-get.
    --layout        only compares the layout, in minutes; the table keeps the other columns
    --only TARGETS  some of the targets, separated by commas; the table keeps the rows of the others

cargo xtask licences
    Writes LICENSE-THIRD-PARTY, the licences of the libraries that are linked into the wheels.

cargo xtask unsafe-table
    Counts the unsafe code in all crates and rewrites the table in docs/safety.md.

Environment: PYTHON names the Python (3.11 or later) for .venv, CC the C compiler. With CI=true,
the task installs the missing requirements of a step, and the step fails if it cannot.";

/// The answer to `cargo xtask release`.
const UPLOADS: &str = "`release` needs `--dry-run`: this task uploads nothing. A release is uploaded by its workflow, \
    which holds no password, when the tag of the version is pushed; docs/releasing.md has the steps";

/// The task of the command line.
#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    Help,
    Demo(demo::Options),
    FreeThreaded,
    Test(Tests),
    Compare,
    Ports(ports::Options),
    Bench(bench::Options),
    Book,
    Bump(String),
    GpuTest(gpu::Options),
    Layers,
    Operators,
    Platforms(platforms::Options),
    PublishCrates,
    Release,
    Repository(String),
    SeededFaults { check: bool },
    Licences,
    UnsafeTable,
    Wheels(wheels::Options),
    Workflows,
}

/// Returns the tasks with their options.
pub(crate) fn usage() -> String {
    let names: Vec<_> = pins::FRAMEWORKS.iter().map(|f| f.name).collect();
    USAGE.replace("{frameworks}", &names.join(", "))
}

/// Returns the task of a command line, or the reason why it is wrong.
pub(crate) fn parse(arguments: &[String]) -> Result<Task> {
    let mut arguments = arguments.iter().map(String::as_str);
    let task = arguments.next().ok_or("name a task")?;
    // `--name=value` is the same as `--name value`.
    let mut rest = arguments.flat_map(|a| match a.split_once('=') {
        Some((name, value)) if name.starts_with("--") => vec![name, value],
        _ => vec![a],
    });
    let unknown = |argument: &str| Err(format!("unknown option `{argument}` of `{task}`"));
    // A task without options.
    let alone = |task, argument: Option<&str>| match argument {
        None => Ok(task),
        Some("--help" | "-h") => Ok(Task::Help),
        Some(argument) => unknown(argument),
    };
    let value = |value: Option<&str>, of| match value {
        Some(value) if !value.is_empty() && !value.starts_with("--") => Ok(value.to_owned()),
        _ => Err(format!("`{of}` needs a value")),
    };
    match task {
        "help" | "--help" | "-h" => Ok(Task::Help),
        "demo" => {
            let mut options = demo::Options::default();
            while let Some(argument) = rest.next() {
                match argument {
                    "--with" => options.with.extend(frameworks(&value(rest.next(), argument)?)?),
                    "--out" => options.out = value(rest.next(), argument)?.into(),
                    "--help" | "-h" => return Ok(Task::Help),
                    _ => return unknown(argument),
                }
            }
            Ok(Task::Demo(options))
        }
        "test" => {
            let mut tests = Tests::Common;
            while let Some(argument) = rest.next() {
                let named = match argument {
                    "--python" => Tests::Python(version(&value(rest.next(), argument)?)?),
                    "--package" => Tests::Package(value(rest.next(), argument)?),
                    "--all" => Tests::All,
                    "--rest" => Tests::Rest,
                    "--nightly" => Tests::Nightly,
                    "--miri" => Tests::Miri,
                    "--miri-adapters" => Tests::MiriAdapters,
                    "--sanitizers" => Tests::Sanitizers,
                    "--kit" => Tests::Kit,
                    "--help" | "-h" => return Ok(Task::Help),
                    _ => return unknown(argument),
                };
                if tests != Tests::Common {
                    return Err("these options exclude each other".into());
                }
                tests = named;
            }
            Ok(Task::Test(tests))
        }
        "bench" => {
            let mut options = bench::Options::default();
            for argument in rest {
                match argument {
                    "--quick" => options.quick = true,
                    "--render" => options.render = true,
                    "--instructions" => options.instructions = true,
                    "--build" => options.build = true,
                    "--write" => options.write = true,
                    "--help" | "-h" => return Ok(Task::Help),
                    _ => return unknown(argument),
                }
            }
            let modes = [options.quick, options.render, options.instructions, options.build];
            if modes.iter().filter(|mode| **mode).count() > 1 {
                return Err(
                    "`--quick`, `--render`, `--instructions` and `--build` exclude each other"
                        .into(),
                );
            }
            if options.write && !options.instructions && !options.build {
                return Err("`--write` needs `--instructions` or `--build`".into());
            }
            Ok(Task::Bench(options))
        }
        "gpu-test" => {
            let mut options = gpu::Options::default();
            while let Some(argument) = rest.next() {
                match argument {
                    "--quick" => options.quick = true,
                    "--only" => options.only = Some(value(rest.next(), argument)?),
                    "--json" => options.json = Some(value(rest.next(), argument)?.into()),
                    "--help" | "-h" => return Ok(Task::Help),
                    _ => return unknown(argument),
                }
            }
            Ok(Task::GpuTest(options))
        }
        "platforms" => {
            let mut options = platforms::Options::default();
            while let Some(argument) = rest.next() {
                match argument {
                    "--layout" => options.layout = true,
                    "--only" => {
                        let names = value(rest.next(), argument)?;
                        options.only.extend(names.split(',').map(str::to_owned));
                    }
                    "--help" | "-h" => return Ok(Task::Help),
                    _ => return unknown(argument),
                }
            }
            Ok(Task::Platforms(options))
        }
        "publish-crates" => alone(Task::PublishCrates, rest.next()),
        "ports" => {
            let mut options = ports::Options::default();
            while let Some(argument) = rest.next() {
                match argument {
                    "--check" => options.check = true,
                    "--render" => options.render = true,
                    "--only" => {
                        let names = value(rest.next(), argument)?;
                        options.only.extend(names.split(',').map(str::to_owned));
                    }
                    "--help" | "-h" => return Ok(Task::Help),
                    _ => return unknown(argument),
                }
            }
            if options.check && options.render {
                return Err("`--check` and `--render` exclude each other".into());
            }
            Ok(Task::Ports(options))
        }
        "lint" => alone(Task::Test(Tests::Lint), rest.next()),
        "msrv" => alone(Task::Test(Tests::OldestRust), rest.next()),
        "wheels" => {
            let mut options = wheels::Options::default();
            while let Some(argument) = rest.next() {
                match argument {
                    "--from" => options.from = Some(value(rest.next(), argument)?.into()),
                    "--help" | "-h" => return Ok(Task::Help),
                    _ => return unknown(argument),
                }
            }
            Ok(Task::Wheels(options))
        }
        "workflows" => alone(Task::Workflows, rest.next()),
        "free-threaded" => alone(Task::FreeThreaded, rest.next()),
        "fuzz" => {
            let mut time = nightly::FUZZ_SECONDS;
            while let Some(argument) = rest.next() {
                match argument {
                    "--seconds" => time = seconds(&value(rest.next(), argument)?)?,
                    "--help" | "-h" => return Ok(Task::Help),
                    _ => return unknown(argument),
                }
            }
            Ok(Task::Test(Tests::Fuzz(time)))
        }
        "compare" => alone(Task::Compare, rest.next()),
        "operators" => alone(Task::Operators, rest.next()),
        "book" => alone(Task::Book, rest.next()),
        "bump" => match (rest.next(), rest.next()) {
            (Some("--help" | "-h"), _) => Ok(Task::Help),
            (Some(version), None) if !version.starts_with('-') => Ok(Task::Bump(version.into())),
            _ => Err("`bump` needs one version, as in `cargo xtask bump 0.2.0`".into()),
        },
        "release" => match (rest.next(), rest.next()) {
            (Some("--dry-run"), None) => Ok(Task::Release),
            (Some("--help" | "-h"), _) => Ok(Task::Help),
            (None, _) => Err(UPLOADS.into()),
            (Some("--dry-run"), Some(argument)) | (Some(argument), _) => unknown(argument),
        },
        "repository" => match (rest.next(), rest.next()) {
            (Some("--help" | "-h"), _) => Ok(Task::Help),
            (Some(url), None) if !url.starts_with('-') => Ok(Task::Repository(url.into())),
            _ => Err("`repository` needs one address, as in `cargo xtask repository \
                https://github.com/OWNER/NAME`"
                .into()),
        },
        "seeded-faults" => match rest.next() {
            None => Ok(Task::SeededFaults { check: false }),
            Some("--check") if rest.next().is_none() => Ok(Task::SeededFaults { check: true }),
            Some("--help" | "-h") => Ok(Task::Help),
            Some(argument) => unknown(argument),
        },
        "layers" => alone(Task::Layers, rest.next()),
        "licences" => alone(Task::Licences, rest.next()),
        "unsafe-table" => alone(Task::UnsafeTable, rest.next()),
        _ => Err(format!("unknown task `{task}`")),
    }
}

/// Parses a version like `3.13`, if the wheel is tested with it.
fn version(text: &str) -> Result<(u32, u32)> {
    let named = |(major, minor): &&(u32, u32)| format!("{major}.{minor}") == text;
    let known = pins::PYTHONS.iter().find(named);
    known.copied().ok_or_else(|| format!("unknown version `{text}` for `--python`"))
}

/// Parses the time of a fuzz target. A longer run would be stopped as one that hangs.
fn seconds(text: &str) -> Result<u32> {
    let number = text.parse().ok().filter(|seconds| (1..=1500).contains(seconds));
    number.ok_or_else(|| format!("`--seconds` is `{text}`; give a whole number from 1 to 1500"))
}

/// Parses a list like `torch,jax`, or `all`.
fn frameworks(names: &str) -> Result<Vec<&'static pins::Framework>> {
    if names == "all" {
        return Ok(pins::FRAMEWORKS.iter().collect());
    }
    let find = |name| pins::FRAMEWORKS.iter().find(|f| f.name == name);
    names
        .split(',')
        .map(|name| find(name).ok_or_else(|| format!("unknown framework `{name}` for `--with`")))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parsed(line: &str) -> Result<Task> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments() {
        assert_eq!(parsed("help"), Ok(Task::Help));
        assert_eq!(parsed("demo --help"), Ok(Task::Help));
        assert_eq!(parsed("compare"), Ok(Task::Compare));
        assert_eq!(parsed("book"), Ok(Task::Book));
        assert_eq!(parsed("bump 0.2.0"), Ok(Task::Bump("0.2.0".into())));
        assert_eq!(parsed("bump --help"), Ok(Task::Help));
        assert_eq!(parsed("release --dry-run"), Ok(Task::Release));
        let url = "https://example.org/a/b".to_owned();
        assert_eq!(parsed(&format!("repository {url}")), Ok(Task::Repository(url)));
        assert_eq!(parsed("repository --help"), Ok(Task::Help));
        assert!(parsed("release").unwrap_err().contains("uploads nothing"));
        assert_eq!(parsed("layers"), Ok(Task::Layers));
        assert_eq!(parsed("licences"), Ok(Task::Licences));
        assert_eq!(parsed("unsafe-table"), Ok(Task::UnsafeTable));
        assert_eq!(parsed("test"), Ok(Task::Test(Tests::Common)));
        assert_eq!(parsed("test --nightly"), Ok(Task::Test(Tests::Nightly)));
        assert_eq!(parsed("test --all"), Ok(Task::Test(Tests::All)));
        assert_eq!(parsed("test --rest"), Ok(Task::Test(Tests::Rest)));
        assert_eq!(parsed("lint"), Ok(Task::Test(Tests::Lint)));
        assert_eq!(parsed("msrv"), Ok(Task::Test(Tests::OldestRust)));
        assert_eq!(parsed("workflows"), Ok(Task::Workflows));
        assert_eq!(parsed("wheels"), Ok(Task::Wheels(wheels::Options::default())));
        let options = wheels::Options { from: Some("dist".into()) };
        assert_eq!(parsed("wheels --from dist"), Ok(Task::Wheels(options)));
        assert_eq!(parsed("free-threaded"), Ok(Task::FreeThreaded));
        assert_eq!(parsed("fuzz"), Ok(Task::Test(Tests::Fuzz(nightly::FUZZ_SECONDS))));
        assert_eq!(parsed("fuzz --seconds 600"), Ok(Task::Test(Tests::Fuzz(600))));
        assert_eq!(parsed("seeded-faults"), Ok(Task::SeededFaults { check: false }));
        assert_eq!(parsed("seeded-faults --check"), Ok(Task::SeededFaults { check: true }));
        assert_eq!(parsed("test --python 3.13"), Ok(Task::Test(Tests::Python((3, 13)))));
        assert_eq!(parsed("test --package arrow"), Ok(Task::Test(Tests::Package("arrow".into()))));
        assert_eq!(parsed("test --miri"), Ok(Task::Test(Tests::Miri)));
        assert_eq!(parsed("test --miri-adapters"), Ok(Task::Test(Tests::MiriAdapters)));
        assert_eq!(parsed("test --sanitizers"), Ok(Task::Test(Tests::Sanitizers)));
        assert!(parsed("test --miri --sanitizers").is_err());
        assert!(parsed("test --all --nightly").is_err());
        assert!(parsed("test --all --python 3.13").is_err());
        assert!(parsed("test --kit --nightly").is_err());
        assert_eq!(parsed("bench"), Ok(Task::Bench(bench::Options::default())));
        let write = bench::Options { instructions: true, write: true, ..Default::default() };
        assert_eq!(parsed("bench --instructions --write"), Ok(Task::Bench(write)));
        let build = bench::Options { build: true, ..Default::default() };
        assert_eq!(parsed("bench --build"), Ok(Task::Bench(build)));
        let write = bench::Options { build: true, write: true, ..Default::default() };
        assert_eq!(parsed("bench --build --write"), Ok(Task::Bench(write)));
        let options = gpu::Options {
            quick: true,
            only: Some("torch,cupy".into()),
            json: Some("a/b.json".into()),
        };
        let line = "gpu-test --quick --only torch,cupy --json=a/b.json";
        assert_eq!(parsed(line), Ok(Task::GpuTest(options)));
        let only = vec!["a".into(), "b".into()];
        let options = ports::Options { only, ..Default::default() };
        assert_eq!(parsed("ports --only a,b"), Ok(Task::Ports(options)));
        let render = ports::Options { render: true, ..Default::default() };
        assert_eq!(parsed("ports --render"), Ok(Task::Ports(render)));
        let check = ports::Options { check: true, ..Default::default() };
        assert_eq!(parsed("ports --check"), Ok(Task::Ports(check)));
        assert!(parsed("ports --check --render").is_err());
        assert_eq!(parsed("publish-crates"), Ok(Task::PublishCrates));
        assert_eq!(parsed("platforms"), Ok(Task::Platforms(platforms::Options::default())));
        let only = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(
            parsed("platforms --only a,b --layout --only=c"),
            Ok(Task::Platforms(platforms::Options { only, layout: true }))
        );
        assert_eq!(parsed("gpu-test"), Ok(Task::GpuTest(gpu::Options::default())));
        let Ok(Task::Demo(options)) = parsed("demo --with torch,jax --out=a/b") else { panic!() };
        assert_eq!(options.with.iter().map(|f| f.name).collect::<Vec<_>>(), ["torch", "jax"]);
        assert_eq!(options.out, Path::new("a/b"));
        let Ok(Task::Demo(options)) = parsed("demo --with all") else { panic!() };
        assert_eq!(options.with.len(), pins::FRAMEWORKS.len());
        assert_eq!(options.out, Path::new("out"));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for line in [
            "",
            "tests",
            "test --fast",
            "test --quick",
            "test --python",
            "test --package",
            "test --package arrow --all",
            "test --python 3.8",
            "seeded-faults --check --check",
            "test quick",
            "compare dlpark",
            "unsafe-table --write",
            "bench --write",
            "bench --quick --instructions",
            "bench --build --instructions",
            "bench quick",
            "book --open",
            "lint --fix",
            "wheels --from",
            "msrv 1.88",
            "free-threaded 3.14t",
            "fuzz import",
            "fuzz --seconds",
            "fuzz --seconds 0",
            "fuzz --seconds 1501",
            "bump",
            "bump 0.2.0 0.3.0",
            "bump --dry-run",
            "repository",
            "repository https://example.org/a/b https://example.org/a/c",
            "repository --dry-run",
            "release --upload",
            "release --dry-run now",
            "operators torch",
            "platforms riscv64",
            "publish-crates dlbridge",
            "platforms --only",
            "ports fastpdb",
            "ports --only",
            "gpu-test torch",
            "gpu-test --only",
            "gpu-test --json --quick",
            "demo torch",
            "demo --with",
            "demo --with abacus",
            "demo --with --out x",
            "demo --out",
            "demo --out=",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
