//! `cargo xtask test`: the lists of steps of `common`, `whole` and `nightly`, each with the time that it is expected to take.

use crate::python::Version;
use crate::steps::Steps;
use crate::{Workplace, common, nightly, pins, python_tests, whole};

/// Which steps.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Tests {
    /// The steps that matter for most changes, and take minutes.
    #[default]
    Common,
    /// Everything that has to hold.
    All,
    /// Only what needs the nightly toolchain, and nothing of Python.
    Nightly,
    /// Only the tests of the conformance kit, with what is installed.
    Kit,
    /// Only the tests of the package with one Python, and the wheel that was built last.
    Python(Version),
}

/// Of a run on two cores that do nothing else.
const EXPECTED: &str =
    "7 to 12 minutes from a fresh clone on two cores, 5 or more after a change in one crate";

const EXPECTED_OF_ALL: &str = "40 to 85 minutes from a fresh clone on two cores";

/// Runs the steps, prints the summary, and returns whether none failed.
pub(crate) fn run(workplace: &Workplace, tests: &Tests) -> bool {
    let (kind, expected) = match tests {
        Tests::Common => ("common", EXPECTED),
        Tests::All => ("all", EXPECTED_OF_ALL),
        Tests::Nightly => ("nightly", "what needs the nightly toolchain alone"),
        Tests::Python(_) => ("python", "the tests of the package with one Python alone"),
        Tests::Kit => ("kit", "the tests of the conformance kit alone"),
    };
    let list = |steps: &mut Steps| match tests {
        Tests::Common => common::run(steps, workplace),
        Tests::All => whole::run(steps, workplace),
        Tests::Nightly => {
            nightly::run(steps, workplace);
            Some(())
        }
        Tests::Kit => whole::kit(steps, workplace),
        Tests::Python(version) => whole::package_with(steps, workplace, *version),
    };
    let mut steps = Steps::counted(workplace, kind, expected, |steps| _ = list(steps));
    if list(&mut steps).is_none() {
        println!("\nThe remaining steps need the one that failed, and were not run.");
    }
    if *tests == Tests::Common {
        println!(
            "\nLeft to `cargo xtask test --all`: Miri, sanitizers, fuzzing, the adapters, the other examples, the conformance kit, {}, {}",
            python_tests::LONG.join(", "),
            names(pins::RARE)
        );
    }
    steps.summary()
}

/// The names of requirements.
fn names(requirements: &[&str]) -> String {
    let names = requirements.iter().filter_map(|r| r.split(['=', '[']).next());
    names.collect::<Vec<_>>().join(", ")
}
