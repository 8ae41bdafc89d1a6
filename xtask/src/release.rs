//! `cargo xtask release --dry-run`: everything that a release does, except the upload.
//!
//! | module | |
//! | --- | --- |
//! | `version`, `finders`, `pages`, `places` | the version, and every place that states it |
//! | `changelog` | its headings, and the changes below each |
//! | `metadata` | the manifests of the published crates |
//! | `source` | the commit, its tag and its clone |
//! | `crates` | the crates: their dependencies, their packages for crates.io, and what their manifests promise |
//! | `api` | the API of the crates beside that of an earlier release |
//! | `distributions` | the Python projects, and a short test of what is installed |
//! | `wheels` | the distributions for PyPI |
//! | `audit` | checks of these distributions |
//! | `free_threaded` | wheels for Pythons without the GIL, which are not uploaded |
//! | `artifacts` | the list of everything that was built |
//! | `publish` | the upload of the crates that crates.io lacks, for the workflow |

mod api;
mod artifacts;
pub(crate) mod audit;
pub(crate) mod changelog;
mod crates;
pub(crate) mod distributions;
mod finders;
mod free_threaded;
pub(crate) mod metadata;
mod pages;
pub(crate) mod places;
mod publish;
mod source;
pub(crate) mod version;
mod wheels;

pub(crate) use publish::run as publish_crates;

use crate::python::Venv;
use crate::steps::{Ended, Finished, Steps};
use crate::{Result, Workplace, pins, process};

const EXPECTED: &str = "one to two hours on two cores; nothing is uploaded";

/// Runs the steps, prints the summary, and writes the table of the steps beside the artefacts. Returns true if none
/// failed.
pub(crate) fn dry_run(workplace: &Workplace) -> Result<bool> {
    let mut steps =
        Steps::counted(workplace, "release", EXPECTED, |steps| _ = run(steps, workplace));
    if run(&mut steps, workplace).is_none() {
        println!("\nThe remaining steps need the one that failed, and were not run.");
    }
    let passed = steps.summary() == Ended::Passed;
    let commit = process::answer(workplace.command("git").args(["rev-parse", "HEAD"]));
    let table = format!("Commit {}.\n\n{}", commit.unwrap_or_default().trim(), steps.table());
    artifacts::write_steps(&source::cloned(workplace), &table)?;
    Ok(passed)
}

/// Runs the steps. Returns `None` if a step failed that later steps need.
fn run(steps: &mut Steps, workplace: &Workplace) -> Option<()> {
    let clone = &source::cloned(workplace);
    let version = places::declared(&workplace.root);
    steps.need("everything is committed", || source::is_committed(workplace))?;
    steps.need("one version everywhere", || places::check(&workplace.root).map(drop))?;
    steps.need("a free tag", || source::tag_is_free(workplace, &version.clone()?))?;
    steps.need("a clone of the commit", || source::clone(workplace))?;
    steps.need("an empty folder of artefacts", || artifacts::clear(clone))?;
    steps.run("manifests of the crates", || metadata::check(&clone.root));
    steps.try_run("before the first release", || {
        match metadata::before_first_release(&clone.root, &places::files(&clone.root)?)? {
            None => Ok(Finished::Passed),
            // The workflow uploads after this run.
            Some(missing) if source::pushed_tag().is_some() => Err(missing),
            Some(missing) => Ok(Finished::Notice(missing)),
        }
    });
    let mut venv = Venv::of(clone);
    steps.need(".venv", || venv.ready())?;
    let venv = venv;
    steps.need("Python requirements", || venv.install(&requirements()))?;
    crates::dependencies(steps, clone, workplace);
    let of_python = version.map(|version| version.of_python()).unwrap_or_default();
    wheels::build(steps, clone, &venv, &of_python);
    audit::run(steps, clone, &venv);
    wheels::run(steps, clone, &of_python);
    free_threaded::run(steps, clone, &venv, &of_python);
    // The longest last.
    crates::build(steps, clone, &venv);
    api::run(steps, clone, workplace, &venv);
    steps.run("the list of artefacts", || artifacts::list(clone, &venv));
    Some(())
}

/// Returns the requirements of the tools that build and check distributions.
fn requirements() -> Vec<&'static str> {
    [&[pins::MATURIN], pins::WHEEL_TOOLS, pins::AUDIT_TOOLS].concat()
}
