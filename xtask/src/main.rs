//! The project's tasks, run as `cargo xtask <task>`.
//!
//! | module | |
//! | --- | --- |
//! | `arguments` | the command line: its tasks and options, and the text of `help` |
//! | `wheels` | the wheels for this machine, built and tried |
//! | `free_threaded` | the wheels for Pythons without the GIL, and the tests of threads |
//! | `workflows` | the files of `.github`: their `cargo xtask` lines, schemas and security |
//! | `demo` | from a fresh clone to the image pipeline and the interop table |
//! | `compare` | the comparison with peers, and its tables in the documentation |
//! | `gpu` | the suite for GPUs, or the same on a stand-in |
//! | `book` | the book of `docs/`, made by mdBook |
//! | `bench` | the benchmarks, their page, and the instruction budgets |
//! | `build_cost` | the time and size of builds, their table, and the stored sizes |
//! | `peers` | extensions written with peers, for both |
//! | `address` | the address of the repository, and links that begin with it |
//! | `repository` | a new address of the repository, in every file that states it |
//! | `bump` | a new version, in every place that states it |
//! | `release` | everything that a release does, except the upload; the upload of crates |
//! | `test` | lists of `steps`, and how long they take |
//! | `common` | the steps that most changes must pass |
//! | `package` | the steps for a change in one crate |
//! | `test_copy` | copies of files, for tests that change them |
//! | `lint` | the checks of the sources, and clippy |
//! | `whole` | all steps |
//! | `python_tests` | the tests in Python, and the type checks |
//! | `crates` | the crates: their lints, documentation and tests in Rust |
//! | `python` | the virtual environment, its packages, and the project's wheels |
//! | `ports` | third-party extensions, ported from rust-numpy to dlbridge |
//! | `operators` | the cost of operators beside those of peers |
//! | `pins` | the versions of everything that the tasks install |
//! | `platforms` | builds and tests for other processors and systems, and the table of them |
//! | `process` | running commands |
//! | `workplace` | the directories that the tasks work in |
//! | `c_examples` | the examples that are C programs |
//! | `nightly` | Miri, sanitizers and fuzzing, which need the nightly toolchain |
//! | `seeded_faults` | deliberate faults that the conformance kit must find |
//! | `toolchains` | builds with the oldest Rust, and for a target without `std` |
//! | `links` | the links of the Markdown pages |
//! | `layers` | the modules of each crate, and circles among their imports |
//! | `licences` | the licences of the libraries in the wheels, checked or written |
//! | `unsafe_table` | the table of unsafe code in the documentation, checked or written |
//! | `walkthrough` | the commands of the template's README and the getting-started pages, run outside the repository |
//! | `wording` | the compiler's messages for mistakes that users make |

mod address;
mod arguments;
mod bench;
mod book;
mod build_cost;
mod bump;
mod c_examples;
mod common;
mod compare;
mod crates;
mod debian;
mod demo;
mod devices;
mod discard;
mod free_threaded;
mod gpu;
mod layers;
mod licences;
mod links;
mod lint;
mod nightly;
mod operators;
mod package;
mod peers;
mod pins;
mod platforms;
mod ports;
mod process;
mod python;
mod python_tests;
mod release;
mod repository;
mod seeded_faults;
mod stable_abi;
mod steps;
mod test;
#[cfg(test)]
mod test_copy;
mod toolchains;
mod unsafe_table;
mod walkthrough;
mod wheels;
mod whole;
mod wording;
mod workflows;
mod workplace;

use std::io::Write as _;
use std::process::ExitCode;
use std::{env, io};

use arguments::{Task, parse, usage};
use process::Result;
use steps::{Ended, LEFT_OUT};
use workplace::Workplace;

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
            // The reader, such as `head`, may close the pipe early.
            _ = writeln!(io::stdout(), "{}", usage());
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
        Task::Test(tests) => match Workplace::find().and_then(|w| test::run(&w, &tests)) {
            Ok(Ended::LeftOut) => return ExitCode::from(LEFT_OUT),
            ended => ended.map(|ended| ended == Ended::Passed),
        },
        Task::Bench(options) => {
            Workplace::find().and_then(|w| bench::run(&w, &options)).map(|()| true)
        }
        Task::GpuTest(options) => {
            Workplace::find().and_then(|w| gpu::run(&w, &options)).map(|()| true)
        }
        Task::Book => Workplace::find().and_then(|w| book::run(&w)).map(|()| true),
        Task::Wheels(options) => {
            Workplace::find().and_then(|w| wheels::run(&w, &options)).map(|()| true)
        }
        Task::FreeThreaded => Workplace::find().and_then(|w| free_threaded::run(&w)).map(|()| true),
        Task::Workflows => Workplace::find().and_then(|w| workflows::run(&w)).map(|()| true),
        Task::Bump(version) => {
            Workplace::find().and_then(|w| bump::run(&w.root, &version)).map(|()| true)
        }
        Task::Repository(url) => {
            Workplace::find().and_then(|w| repository::run(&w.root, &url)).map(|()| true)
        }
        Task::Release => Workplace::find().and_then(|w| release::dry_run(&w)),
        Task::PublishCrates => {
            Workplace::find().and_then(|w| release::publish_crates(&w)).map(|()| true)
        }
        Task::Layers => Workplace::find().and_then(|w| layers::run(&w)).map(|()| true),
        Task::Licences => Workplace::find().and_then(|w| licences::write(&w)).map(|()| true),
        Task::UnsafeTable => {
            Workplace::find().and_then(|w| unsafe_table::write(&w.root)).map(|()| true)
        }
        Task::Ports(options) => {
            Workplace::find().and_then(|w| ports::run(&w, &options)).map(|()| true)
        }
        Task::Platforms(options) => Workplace::find().and_then(|w| platforms::run(&w, &options)),
        Task::Operators => Workplace::find().and_then(|w| operators::run(&w)).map(|()| true),
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
