//! `cargo xtask test`, `lint`, `fuzz` and `msrv`: the lists of steps of `common`, `whole`, `nightly` and others, each with
//! its expected time.

use crate::python::Version;
use crate::steps::{Ended, Steps};
use crate::{
    Result, Workplace, common, crates, lint, nightly, package, pins, process, python_tests,
    toolchains, whole,
};

/// The selected steps.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Tests {
    /// The steps that matter for most changes, and take minutes.
    #[default]
    Common,
    /// One crate alone, and its tests in Python.
    Package(String),
    /// All steps.
    All,
    /// All steps except [`Nightly`](Self::Nightly).
    Rest,
    /// Only the steps that need the nightly toolchain and no Python.
    Nightly,
    /// The part of these steps that uses Miri, without the adapters of libraries.
    Miri,
    /// The adapters of libraries under Miri.
    MiriAdapters,
    /// The rest of these steps.
    Sanitizers,
    /// Only the tests of the conformance kit, with the installed packages.
    Kit,
    /// Only the tests of the package with one Python and the last built wheel.
    Python(Version),
    /// Only the checks of the sources, and clippy.
    Lint,
    /// Only builds with the oldest Rust, and for a target without `std`.
    OldestRust,
    /// Only fuzzing, with this number of seconds for each target.
    Fuzz(u32),
}

/// The expected time on two idle cores.
const EXPECTED: &str =
    "7 to 12 minutes from a fresh clone on two cores, 5 or more after a change in one crate";

const EXPECTED_OF_ALL: &str =
    "50 to 95 minutes and 30 GiB of disk space from a fresh clone on two cores";

/// Runs the steps and prints the summary.
pub(crate) fn run(workplace: &Workplace, tests: &Tests) -> Result<Ended> {
    let (kind, expected) = match tests {
        Tests::Common => ("common", EXPECTED),
        Tests::Package(_) => ("package", "1 to 3 minutes after a change in this crate"),
        Tests::All => ("all", EXPECTED_OF_ALL),
        Tests::Rest => ("rest", "the steps of --all that --nightly does not have"),
        Tests::Nightly => ("nightly", "only the steps for the nightly toolchain"),
        Tests::Miri => ("miri", "only the steps that use Miri"),
        Tests::MiriAdapters => ("miri-adapters", "only the adapters of libraries, under Miri"),
        Tests::Sanitizers => ("sanitizers", "only the sanitizers, fuzzing and minimal versions"),
        Tests::Python(_) => ("python", "only the tests of the package with one Python"),
        Tests::Kit => ("kit", "only the tests of the conformance kit"),
        Tests::Lint => ("lint", "only the checks of the sources, and clippy"),
        Tests::OldestRust => ("msrv", "only builds with the oldest Rust"),
        Tests::Fuzz(_) => ("fuzz", "only fuzzing"),
    };
    let name = match tests {
        Tests::Package(name) => package::by_name(workplace, name)?,
        _ => String::new(),
    };
    let expected = match (tests, free_space(workplace)) {
        (Tests::All | Tests::Rest, Some(free)) => &format!("{expected}, with {free} free"),
        _ => expected,
    };
    let list = |steps: &mut Steps| match tests {
        Tests::Common => common::run(steps, workplace),
        Tests::Package(_) => package::run(steps, workplace, &name),
        Tests::All => whole::run(steps, workplace),
        Tests::Rest => whole::rest(steps, workplace),
        Tests::Nightly => {
            nightly::run_miri(steps, workplace);
            nightly::run_miri_of_adapters(steps, workplace);
            nightly::run_sanitizers(steps, workplace);
            Some(())
        }
        Tests::Miri => {
            steps.if_time(|steps| nightly::run_miri(steps, workplace));
            Some(())
        }
        Tests::MiriAdapters => {
            nightly::run_miri_of_adapters(steps, workplace);
            Some(())
        }
        Tests::Sanitizers => {
            steps.if_time(|steps| nightly::run_sanitizers(steps, workplace));
            Some(())
        }
        Tests::Kit => whole::kit(steps, workplace),
        Tests::Python(version) => whole::package_with(steps, workplace, *version),
        Tests::Lint => lint::run(steps, workplace)
            .map(|venv| crates::lint_and_document_libraries(steps, &venv)),
        Tests::OldestRust => toolchains::run(steps, workplace),
        Tests::Fuzz(seconds) => nightly::run_fuzzing(steps, workplace, *seconds),
    };
    let mut steps = Steps::counted(workplace, kind, expected, |steps| _ = list(steps));
    if list(&mut steps).is_none() {
        println!("\nThe remaining steps need one that failed or was left out, and were not run.");
    }
    if *tests == Tests::Common {
        println!(
            "\nOnly in `cargo xtask test --all`: Miri, sanitizers, fuzzing, the adapters, the other examples, the conformance kit, {}, {}",
            python_tests::LONG.join(", "),
            names(pins::RARE)
        );
    }
    Ok(match (steps.summary(), tests) {
        // CI passes on a slow machine too. The summary lists what was left out.
        (Ended::LeftOut, Tests::All | Tests::Rest) => Ended::Passed,
        (ended, _) => ended,
    })
}

/// Returns the free space of the disk with the repository, as `df` writes it: a compiler that runs out of it names only
/// its own files.
fn free_space(workplace: &Workplace) -> Option<String> {
    let mut df = workplace.command("df");
    let answer = process::answer(df.arg("-Ph").arg(&workplace.root))?;
    answer.lines().nth(1)?.split_whitespace().nth(3).map(str::to_owned)
}

/// Returns the names of requirements.
fn names(requirements: &[&str]) -> String {
    let names = requirements.iter().filter_map(|r| r.split(['=', '[']).next());
    names.collect::<Vec<_>>().join(", ")
}
