//! The project's tasks, run as `cargo xtask <task>`.
//!
//! | module | |
//! | --- | --- |
//! | `demo` | from a fresh clone to the image pipeline and the interop table |
//! | `compare` | the comparison with peers, and its tables in the documentation |
//! | `gpu` | the suite for GPUs, and what it does where there is none |
//! | `book` | the book of `docs/`, made by mdBook |
//! | `bench` | the benchmarks, their page, and the instruction budgets |
//! | `peers` | extensions written with peers, for both |
//! | `test` | lists of `steps`, and how long they take |
//! | `common` | the list of what most changes have to pass |
//! | `whole` | the list of everything that has to hold |
//! | `python_tests` | the tests in Python, and what checks the types |
//! | `crates` | the crates: their lints, documentation and tests in Rust |
//! | `python` | the virtual environment, what is installed in it, the project's wheels |
//! | `ports` | extensions of others, moved from rust-numpy to dlbridge |
//! | `pins` | the version of everything that is installed |
//! | `process` | running commands |
//! | `workplace` | the directories that the tasks work in |
//! | `c_examples` | the examples that are C programs |
//! | `nightly` | Miri, sanitizers, fuzzing: what needs the nightly toolchain |
//! | `seeded_faults` | whether the conformance kit finds faults made on purpose |
//! | `toolchains` | what has to compile with another Rust, or for another target |
//! | `links` | the links of the Markdown pages |
//! | `layers` | the modules of each crate, and circles among their imports |
//! | `unsafe_table` | the table of unsafe code in the documentation, checked or written |
//! | `walkthrough` | the template's README and the pages for a start, followed outside the repository |
//! | `wording` | what the compiler says of two mistakes with typed arguments |

mod bench;
mod book;
mod c_examples;
mod common;
mod compare;
mod crates;
mod debian;
mod demo;
mod devices;
mod gpu;
mod layers;
mod links;
mod nightly;
mod peers;
mod pins;
mod ports;
mod process;
mod python;
mod python_tests;
mod seeded_faults;
mod stable_abi;
mod steps;
mod test;
mod toolchains;
mod unsafe_table;
mod walkthrough;
mod whole;
mod wording;
mod workplace;

use std::env;
use std::process::ExitCode;

use process::Result;
use test::Tests;
use workplace::Workplace;

const USAGE: &str = "\
cargo xtask demo [--with NAMES] [--out DIR]
    Makes .venv, installs what is needed, builds, and runs examples/image_pipeline.
    --with NAMES  frameworks to install first, separated by commas, or `all`: {frameworks}
    --out DIR     where the pictures go; `out` if not given

cargo xtask test [--all | --nightly | --kit | --python VERSION]
    Runs what most changes have to pass: formatting, lints and Rust tests of the core, and the Python tests
    of the package and of typed arguments, against the frameworks that many use.
    --all           everything: also Miri, sanitizers, fuzzing, documentation, C examples, all adapters, all
                    frameworks, the conformance kit
    --nightly       only what of --all needs the nightly toolchain and no Python
    --kit           only the tests of the conformance kit
    --python VERSION    only the tests of the package, with another Python (3.13) and the wheel that was built
                    last

cargo xtask compare
    Builds the functions of peers/ with dlbridge and with its peers, runs them on the same
    inputs, and writes the tables of docs/comparison.md.

cargo xtask ports [--check | --render] [--only NAMES]
    Moves extensions of others from rust-numpy to dlbridge, runs their own tests with both versions,
    measures both, and writes docs/ports.md. Fails if a port is worse than the original.
    --check       prints the results and leaves the page
    --render      only writes the page, from the results that are there
    --only NAMES  some of the extensions, separated by commas; prints the results and leaves the page

cargo xtask bench [--quick | --render | --instructions [--write]]
    Builds benches/ with dlbridge and its peers, measures everything two times, and writes
    docs/benchmarks.md with its plot, and benches/results.json.
    --quick         a short look; the page stays as it is
    --render        only writes the page, from the results that are there
    --instructions  only counts instructions, and fails where one has more than its budget
    --write         makes what was counted the budgets

cargo xtask gpu-test [--quick] [--only NAMES] [--json FILE]
    Builds the wheel and checks it on this machine's GPU of NVIDIA with tests/gpu, or says that there is
    none, and then on a stand-in for the driver, which is no result of a GPU. The interpreter is the
    one that PYTHON names, with the libraries that it has, or that of .venv.
    --quick       fewer repeats, and smaller copies
    --only NAMES  some of driver, torch, cupy, numba, jax and timings, separated by commas
    --json FILE   a file for the results

cargo xtask book
    Checks the links of README, CONTRIBUTING and docs/, installs mdBook in target/tools, and builds the book of docs/ in target/book.
    A warning is an error.

cargo xtask seeded-faults [--check]
    Makes one fault after another in a copy of the last commit, and writes which rules of the
    conformance kit notice to docs/conformance-faults.md. Fails if none notices.
    --check       leaves the page

cargo xtask layers
    Prints the modules of each crate with those that they import, and fails if some import each other.

cargo xtask unsafe-table
    Counts the unsafe code in all crates and rewrites the table in docs/safety.md.

Environment: PYTHON names the Python (3.11 or later) that .venv is made with, CC the C
compiler. With CI=true, what is missing for a step is installed, and a failure if it cannot be.";

/// What the command line asks for.
#[derive(Debug, PartialEq)]
enum Task {
    Help,
    Demo(demo::Options),
    Test(Tests),
    Compare,
    Ports(ports::Options),
    Bench(bench::Options),
    Book,
    GpuTest(gpu::Options),
    Layers,
    SeededFaults { check: bool },
    UnsafeTable,
}

fn main() -> ExitCode {
    let arguments: Vec<String> =
        env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let task = match parse(&arguments) {
        Ok(task) => task,
        Err(error) => {
            eprintln!("xtask: {error}\n\n{}", usage());
            return ExitCode::from(2);
        }
    };
    let done = match task {
        Task::Help => {
            println!("{}", usage());
            Ok(true)
        }
        Task::Demo(options) => {
            Workplace::find().and_then(|w| demo::run(&w, &options)).map(|()| true)
        }
        Task::SeededFaults { check: true } => {
            Workplace::find().and_then(|w| seeded_faults::check(&w))
        }
        Task::SeededFaults { check: false } => {
            Workplace::find().and_then(|w| seeded_faults::run(&w))
        }
        Task::Test(tests) => Workplace::find().map(|w| test::run(&w, &tests)),
        Task::Bench(options) => {
            Workplace::find().and_then(|w| bench::run(&w, &options)).map(|()| true)
        }
        Task::GpuTest(options) => {
            Workplace::find().and_then(|w| gpu::run(&w, &options)).map(|()| true)
        }
        Task::Book => Workplace::find().and_then(|w| book::run(&w)).map(|()| true),
        Task::Layers => Workplace::find().and_then(|w| layers::run(&w)).map(|()| true),
        Task::UnsafeTable => {
            Workplace::find().and_then(|w| unsafe_table::write(&w.root)).map(|()| true)
        }
        Task::Ports(options) => {
            Workplace::find().and_then(|w| ports::run(&w, &options)).map(|()| true)
        }
        Task::Compare => Workplace::find().and_then(|w| compare::run(&w)).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("\nxtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let names: Vec<_> = pins::FRAMEWORKS.iter().map(|f| f.name).collect();
    USAGE.replace("{frameworks}", &names.join(", "))
}

fn parse(arguments: &[String]) -> Result<Task> {
    let mut arguments = arguments.iter().map(String::as_str);
    let task = arguments.next().ok_or("a task is needed")?;
    // `--name=value` is the same as `--name value`.
    let mut rest = arguments.flat_map(|a| match a.split_once('=') {
        Some((name, value)) if name.starts_with("--") => vec![name, value],
        _ => vec![a],
    });
    let unknown = |argument: &str| Err(format!("`{task}` does not know `{argument}`"));
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
                    "--all" => Tests::All,
                    "--nightly" => Tests::Nightly,
                    "--kit" => Tests::Kit,
                    "--help" | "-h" => return Ok(Task::Help),
                    _ => return unknown(argument),
                };
                if tests != Tests::Common {
                    return Err(
                        "`--all`, `--nightly`, `--kit` and `--python` exclude each other".into()
                    );
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
                    "--write" => options.write = true,
                    "--help" | "-h" => return Ok(Task::Help),
                    _ => return unknown(argument),
                }
            }
            let modes = [options.quick, options.render, options.instructions];
            if modes.iter().filter(|mode| **mode).count() > 1 {
                return Err(
                    "`--quick`, `--render` and `--instructions` are one or the other".into()
                );
            }
            if options.write && !options.instructions {
                return Err("`--write` belongs to `--instructions`".into());
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
        "compare" => alone(Task::Compare, rest.next()),
        "book" => alone(Task::Book, rest.next()),
        "seeded-faults" => match rest.next() {
            None => Ok(Task::SeededFaults { check: false }),
            Some("--check") if rest.next().is_none() => Ok(Task::SeededFaults { check: true }),
            Some("--help" | "-h") => Ok(Task::Help),
            Some(argument) => unknown(argument),
        },
        "layers" => alone(Task::Layers, rest.next()),
        "unsafe-table" => alone(Task::UnsafeTable, rest.next()),
        _ => Err(format!("there is no task `{task}`")),
    }
}

/// `3.13`, if the wheel is tested with it.
fn version(text: &str) -> Result<(u32, u32)> {
    let named = |(major, minor): &&(u32, u32)| format!("{major}.{minor}") == text;
    let known = pins::PYTHONS.iter().find(named);
    known.copied().ok_or_else(|| format!("`--python` does not know `{text}`"))
}

/// `torch,jax` or `all`.
fn frameworks(names: &str) -> Result<Vec<&'static pins::Framework>> {
    if names == "all" {
        return Ok(pins::FRAMEWORKS.iter().collect());
    }
    let find = |name| pins::FRAMEWORKS.iter().find(|f| f.name == name);
    names
        .split(',')
        .map(|name| find(name).ok_or_else(|| format!("`--with` does not know `{name}`")))
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
        assert_eq!(parsed("layers"), Ok(Task::Layers));
        assert_eq!(parsed("unsafe-table"), Ok(Task::UnsafeTable));
        assert_eq!(parsed("test"), Ok(Task::Test(Tests::Common)));
        assert_eq!(parsed("test --nightly"), Ok(Task::Test(Tests::Nightly)));
        assert_eq!(parsed("test --all"), Ok(Task::Test(Tests::All)));
        assert_eq!(parsed("seeded-faults"), Ok(Task::SeededFaults { check: false }));
        assert_eq!(parsed("seeded-faults --check"), Ok(Task::SeededFaults { check: true }));
        assert_eq!(parsed("test --python 3.13"), Ok(Task::Test(Tests::Python((3, 13)))));
        assert!(parsed("test --all --nightly").is_err());
        assert!(parsed("test --all --python 3.13").is_err());
        assert!(parsed("test --kit --nightly").is_err());
        assert_eq!(parsed("bench"), Ok(Task::Bench(bench::Options::default())));
        let write = bench::Options { instructions: true, write: true, ..Default::default() };
        assert_eq!(parsed("bench --instructions --write"), Ok(Task::Bench(write)));
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
        assert_eq!(parsed("gpu-test"), Ok(Task::GpuTest(gpu::Options::default())));
        let Ok(Task::Demo(options)) = parsed("demo --with torch,jax --out=a/b") else { panic!() };
        assert_eq!(options.with.iter().map(|f| f.name).collect::<Vec<_>>(), ["torch", "jax"]);
        assert_eq!(options.out, Path::new("a/b"));
        let Ok(Task::Demo(options)) = parsed("demo --with all") else { panic!() };
        assert_eq!(options.with.len(), pins::FRAMEWORKS.len());
        assert_eq!(options.out, Path::new("out"));
    }

    #[test]
    fn arguments_that_are_refused() {
        for line in [
            "",
            "tests",
            "test --fast",
            "test --quick",
            "test --python",
            "test --python 3.8",
            "seeded-faults --check --check",
            "test quick",
            "compare dlpark",
            "unsafe-table --write",
            "bench --write",
            "bench --quick --instructions",
            "bench quick",
            "book --open",
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
